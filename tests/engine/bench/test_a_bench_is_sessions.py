"""A bench is a session on each problem as a page starts it, resumable at any event, from a frozen memory, teaching
nothing. Played on a device that answers at once."""

import json
import threading

import pytest

from engine.bench.run import runner
from engine.bench.run.ahead import LookAhead
from engine.bench.run.request import Request
from engine.bench.run.shards import BadResults
from engine.session import events
from engine.session.spec import SessionSpec
from engine.strategies.planner import memory
from tests.engine.counting import CountingDevice
from tests.engine.graphs import linear

GRAPH = linear([("relu", {})], rows=1024, k=4096, n=4096)
FIELDS = {"device": "modelled:h200", "classes": ["f16"], "trials": 3}


class Bench(CountingDevice):
    """The device with what a bench asks of an evaluator beside a session's calls."""

    def describe(self):
        return {"gpu": "NVIDIA H200", "driver": "580"}

    def warm(self, source_kind="module"):
        self.asked["warm"] += 1


@pytest.fixture(autouse=True)
def nothing_is_traced(monkeypatch):
    monkeypatch.setattr("engine.session.runner._Session._graph", lambda self: (GRAPH, "Model", ""))
    monkeypatch.setattr("engine.trace.warm", lambda **k: None)
    monkeypatch.setattr(memory, "committed", lambda *a: memory.Memory())


@pytest.fixture
def asked(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"class Model: ...  # {name}\n")
    return Request({"one": "L1/1", "two": "L1/2"}, FIELDS, folder=tmp_path)


def play(request, out, device=None, say=lambda text: None):
    return runner.run(request, [device or Bench()], out, say)


def test_every_problem_is_a_session_with_the_pages_fields(asked, tmp_path):
    progress, out = [], tmp_path / "b.json"
    results = play(asked, out, say=progress.append)
    file = json.loads(out.read_text())
    assert list(file["problems"]) == ["one", "two"] and file["problems"] == json.loads(json.dumps(results.problems))
    one = file["problems"]["one"]
    assert one["id"] == "L1/1" and one["session"]["state"] == "done" and len(one["trials"]) == 3
    assert {t["class"] for t in one["trials"]} == {"f16"} and all(t["ok"] and t["ms"] > 0 for t in one["trials"])
    assert one["limits"]["f16"] > 0 and one["baselines"]["eager_f16"]["ms"] > 0
    assert all(seconds >= 0 for seconds in one["session"]["spent"].values()), "where its time went; little, here"
    assert not list(tmp_path.glob("*.session"))
    assert (
        len([line for line in progress if " trial " in line]) == 6
        and sum("done after" in line for line in progress) == 2
    )
    page = SessionSpec(title="t", source="s").to_dict()
    alone = Request({}, {}).settings
    assert alone == {n: v for n, v in page.items() if n not in ("title", "source", "source_kind")}
    assert file["about"]["sessions"] == Request({}, FIELDS).settings


def test_a_finished_session_is_not_run_again(asked, tmp_path):
    out = tmp_path / "b.json"
    play(asked, out)
    device = Bench()
    play(asked, out, device)
    assert not device.asked


def test_one_that_failed_by_a_mistake_of_ours_is(asked, tmp_path):
    out = tmp_path / "b.json"
    play(asked, out)
    file = json.loads(out.read_text())
    file["problems"]["two"]["session"]["state"] = "failed"
    out.write_text(json.dumps(file))
    device = Bench()
    assert play(asked, out, device).problems["two"]["session"]["state"] == "done"
    assert device.asked["validate", 1] == 1


@pytest.mark.parametrize("stop_at", [1, 2])
def test_a_cut_session_goes_on_where_its_log_ends_and_doubles_no_trial(asked, tmp_path, stop_at):
    class Cut(BaseException):
        pass

    out, first, second = tmp_path / "b.json", Bench(), Bench()

    def say(text):
        if f"trial  {stop_at} " in text:
            raise Cut

    with pytest.raises(Cut):
        play(asked, out, first, say)
    (log,) = tmp_path.glob("*.session")
    assert log.exists() and json.loads(out.read_text())["problems"] == {}
    log.write_text(log.read_text() + '{"t": 1.0, "kind": "trial.pro')  # a line that the cut tore
    alone = Request({"one": "L1/1"}, FIELDS, folder=asked.folder)
    row = play(alone, out, second).problems["one"]
    assert row["session"]["resumed"] == 1 and [t["trial"] for t in row["trials"]] == [1, 2, 3]
    assert [second.asked["measure", n] for n in (1, 2, 3)] == [int(n > stop_at) for n in (1, 2, 3)]
    assert first.asked["measure", 1] == 1


def test_the_log_of_a_session_with_other_fields_is_not_gone_on_from(asked, tmp_path):
    out = tmp_path / "b.json"
    out.with_name("b.json.one.session").write_text('{"session": "another", "version": 1}\n{"kind": "no event"}\n')
    assert play(asked, out).problems["one"]["session"]["resumed"] == 0


def test_after_the_time_given_nothing_goes_on_and_a_later_call_does(asked, tmp_path, monkeypatch):
    out, progress, device = tmp_path / "b.json", [], Bench()
    play(Request(asked.problems, asked.fields, 0.0, asked.folder), out, device, progress.append)
    assert not device.asked["open"] and not device.asked["validate", 1]
    assert (
        progress == ["stopped after 0 s; the same command continues"] and json.loads(out.read_text())["problems"] == {}
    )
    assert len(play(asked, out).problems) == 2


def test_a_file_of_sessions_with_other_settings_is_not_mixed(asked, tmp_path):
    out = tmp_path / "b.json"
    play(asked, out)
    before = out.read_text()
    other = Request(asked.problems, FIELDS | {"trials": 5}, folder=asked.folder)
    with pytest.raises(BadResults, match="trials 3 there and 5 here"):
        play(other, out)
    assert out.read_text() == before


class Measures(Bench):
    kind = "measured"

    def measure(self, candidate, baseline):
        m = super().measure(candidate, baseline)
        time = events.Measurement(m.time.ms, m.time.ms, m.time.ms, [m.time.ms], "events", {"name": "H200"})
        return events.TrialMeasured(m.trial, time, m.baseline, m.baseline_ms, m.ratio)


def test_a_bench_remembers_what_is_committed_and_teaches_nothing(asked, tmp_path, monkeypatch):
    t = play(asked, None, Measures()).problems["one"]["trials"][1]
    won, own = (memory.won(pid, "f16", t["backend"], t["text"], ms, 132) for pid, ms in (("L9/9", 1.0), ("L1/1", 0.5)))
    monkeypatch.setattr(memory, "committed", lambda *a: memory.Memory([own, won]))
    results = play(asked, tmp_path / "b.json", Measures())
    whys = [row["trials"][0]["why"] for row in results.problems.values()]
    assert whys[0].startswith("won on L9/9") and whys[1].startswith("won on L1/1")
    assert memory.known("h200", 132).won == [own, won] and not memory._file("h200").exists()


def test_a_problem_that_cannot_be_worked_on_is_a_row_with_its_reason(asked, tmp_path, monkeypatch):
    from engine.devices import SessionRefused

    def refuse(self):
        raise SessionRefused("no_model", "there is no class Model")

    monkeypatch.setattr("engine.session.runner._Session._graph", refuse)
    row = play(asked, tmp_path / "b.json").problems["one"]
    assert row["refused"] == "there is no class Model" and row["session"]["code"] == "no_model" and not row["trials"]


# ---- several GPUs ----


class OneOfTwo(Bench):
    """A GPU whose first session begins when the other one has a session too."""

    def __init__(self, both: threading.Barrier):
        super().__init__()
        self.both, self.titles = both, []

    def open(self, problem, cancelled):
        super().open(problem, cancelled)
        self.titles.append(problem.source)
        if len(self.titles) == 1:
            self.both.wait(60)  # raises if no session runs beside this one


def test_on_two_gpus_two_sessions_run_at_a_time_and_each_problem_once(tmp_path):
    for n in range(5):
        (tmp_path / f"m{n}.py").write_text(f"class Model: ...  # {n}\n")
    request = Request({f"m{n}": f"L1/{n}" for n in range(5)}, FIELDS, folder=tmp_path)
    both = threading.Barrier(2)
    gpus = [OneOfTwo(both), OneOfTwo(both)]
    results = runner.run(request, gpus, tmp_path / "b.json", lambda text: None)
    assert sorted(results.problems) == sorted(request.problems) and results.about["gpus"] == 2
    assert all(row["session"]["state"] == "done" and len(row["trials"]) == 3 for row in results.problems.values())
    assert all(gpu.titles for gpu in gpus) and len({*gpus[0].titles, *gpus[1].titles}) == 5
    assert sum(len(gpu.titles) for gpu in gpus) == 5


def test_a_session_that_breaks_ends_the_bench_with_its_error_and_the_others_can_go_on_later(asked, tmp_path):
    class Breaks(Bench):
        def warm(self, source_kind="module"):
            raise RuntimeError("no sandbox")

    with pytest.raises(RuntimeError, match="no sandbox"):
        runner.run(asked, [Breaks(), Breaks()], tmp_path / "b.json", lambda text: None)
    assert len(play(asked, tmp_path / "b.json").problems) == 2


# ---- the next problem, made ready meanwhile ----


class Ahead(Bench):
    builds_ahead = True

    def __init__(self):
        super().__init__()
        self.ahead, self.done = [], threading.Event()

    def build_ahead(self, source):
        self.ahead.append(source)
        self.done.set()


@pytest.fixture
def traced(monkeypatch):
    from types import SimpleNamespace

    monkeypatch.setattr("engine.bench.run.ahead.trace", lambda *a, **k: SimpleNamespace(graph=GRAPH))


def test_the_first_programs_of_the_next_problem_are_built_while_this_one_is_on_the_gpu(asked, tmp_path, traced):
    device = Ahead()
    device.kind = "measured"  # where times are predicted nothing is built ahead

    def say(text):
        if "one " in text and "done after" in text:
            assert device.done.wait(60)

    play(asked, tmp_path / "b.json", device, say)
    assert {s.backend for s in device.ahead} <= {"cute", "cpp"} and device.ahead


def test_looking_ahead_stops_when_it_is_asked_to_and_costs_nothing_where_it_fails(monkeypatch):
    def broken(*a, **k):
        raise RuntimeError("no")

    monkeypatch.setattr("engine.bench.run.ahead.trace", broken)
    look = LookAhead(Ahead())
    look.begin(SessionSpec(title="t", source="s", source_kind="module", **FIELDS), "")
    look.end()
    assert look._thread is None
