"""Sessions of a comparison: advanced trial by trial, held to equal budgets, verified once, gone on with."""

import argparse
import json
import threading
from pathlib import Path

import pytest

from engine.bench.compare import arguments, command, models, order, proposals, sharing, work
from engine.bench.compare.play import Playing
from engine.bench.compare.request import Arm, BadRequest, Cell, Request, arm, of_settings
from engine.devices import Problem, SessionRefused, TrialError
from engine.llm.rehearse.player import Player
from engine.session import events
from engine.session.script.steps import Emitted
from tests.engine.bench.compare.rows import session
from tests.engine.counting import CountingDevice
from tests.engine.graphs import linear

GRAPH = linear([("relu", {})], rows=1024, k=4096, n=4096)


@pytest.fixture(autouse=True)
def nothing_is_traced_or_drawn(monkeypatch):
    """The rehearsal draws from the planner's candidates of the graph."""
    from engine.llm.rehearse import pool

    monkeypatch.setattr("engine.session.runner._Session._graph", lambda self: (GRAPH, "Model", ""))
    monkeypatch.setattr(pool, "_graph", lambda source, kind: GRAPH)
    monkeypatch.setenv("UCUTLASS_COMPILERS", "none")


@pytest.fixture
def folder(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"class Model: ...  # {name}\n")
    return tmp_path


def asked(folder, *arms, problems=("one", "two"), **fields):
    return Request(tuple(map(arm, arms)) or (Arm("planner", "planner"),), problems, folder=folder, **fields)


def playing(request, cell, tmp_path, device=None, tokens=400_000):
    handlers = models.handlers(models.rehearsal(tmp_path), tokens, cell.skill, cell.seed)
    return Playing(cell, request.spec(cell), device or CountingDevice(), handlers, request.most_trials)


def ended(p):
    return [e.event.trial for e in p.emitted if isinstance(e.event, events.ENDS)]


def test_a_held_session_does_nothing_and_goes_on_with_its_next_trial(folder, tmp_path):
    request = asked(folder, trials=3)
    one, two = (playing(request, Cell("planner", p, None, 0), tmp_path) for p in ("one", "two"))
    assert one.step() and two.step() and one.step()
    assert (ended(one), ended(two)) == ([1, 2], [1]) and (one.used, two.used) == (2, 1)
    while one.step():
        pass
    two.finish()
    assert ended(one) == [1, 2, 3] and ended(two) == [1]
    assert {p.ended.state for p in (one, two)} == {"done"} and two.ended.code == "budget_used"


def test_a_budget_in_evaluations_counts_screened_candidates_too(folder, tmp_path):
    class Screening(CountingDevice):
        screens = True

        def quick(self, candidates, baseline):
            return [1.0 for _ in candidates]

    counted, uncounted = (
        playing(asked(folder, trials=6), Cell("planner", "one", None, 0), tmp_path, device)
        for device in (Screening(), CountingDevice())
    )
    for p in (counted, uncounted):
        assert p.step()
        p._add(Emitted(events.Screened(2, {"a": 1.0, "b": None, "c": 2.0}, 0.1), {}, 0.0))
        while p.step():
            pass
        assert p.ended.code == "budget_used"
    assert (len(ended(counted)), counted.used) == (3, 6) and (len(ended(uncounted)), uncounted.used) == (6, 6)


def test_tokens_end_a_session_and_equal_prompts_get_equal_replies(folder, tmp_path):
    request, cell = asked(folder, "chain", trials=6), Cell("chain", "one", 1.0, 0)
    whole, again, short = (playing(request, cell, tmp_path, tokens=n) for n in (400_000, 400_000, 9_000))
    for p in (whole, again, short):
        while p.step():
            pass
    assert len(ended(whole)) == 6 and whole.tokens == again.tokens > short.tokens and len(ended(short)) < 6
    texts = [[e.event.program for e in p.emitted if isinstance(e.event, events.TrialProposed)] for p in (whole, again)]
    assert texts[0] == texts[1] and short.tokens <= 9_000


class Scripted:
    """A session for the order: `gains`: its times, trial by trial; PyTorch takes 10 ms, the limit is `limit`."""

    def __init__(self, problem, limit, times, cls="f16"):
        self.cell, self.used, self.tokens, self.evaluations = Cell("a", problem, None, 0), 0, 0, 99
        self.spec = type("Spec", (), {"classes": (cls,)})
        self.ended, self.times, self.emitted = None, times, []
        self._log(events.Reported("", {cls: limit}, ""))
        self._log(events.Baseline("eager_f16", "f16", events.Prediction(10.0, "", "")))

    def _log(self, event):
        self.emitted.append(type("Emitted", (), {"event": event}))

    def step(self):
        if self.used == len(self.times):
            self.ended = True
            return False
        ms = self.times[self.used]
        self.used += 1
        self._log(events.TrialJudged(self.used, "clean", "f16", "predicted", ms, 10 / ms, "", 1.0, 0.5, False, ""))
        return True

    def finish(self):
        self.ended = True


@pytest.mark.parametrize(
    ("name", "turns"),
    [("in_turn", ["near", "far", "near", "far", "near", "far"]), ("sol", ["near", "far", "far", "far", "far", "far"])],
)
def test_one_budget_goes_to_the_largest_expected_saving_or_in_turn(name, turns):
    near, far = Scripted("near", 9.0, [9.1] * 9), Scripted("far", 1.0, [9.0, 8.0, 7.0, 6.0, 5.0, 4.0])
    assert order.spend([near, far], 6, 1000, name, 0.0, 0) == turns
    assert near.used + far.used == 6 and near.ended and far.ended


def test_a_problem_without_a_limit_in_the_class_gets_the_turns_that_no_other_one_wants():
    unlimited, far = Scripted("unlimited", None, [9.0] * 9), Scripted("far", 1.0, [9.0, 8.0, 7.0])
    turns = order.spend([unlimited, far], 8, 1000, "sol", 0.0, 0)
    assert turns == ["unlimited", "far", "far", "far", "far", *["unlimited"] * 4]
    assert unlimited.used == 5 and far.used == 3  # the fourth turn found that its search was over


def test_a_class_that_pytorch_does_not_have_is_compared_with_the_one_that_it_has():
    first, far = Scripted("first", 9.0, [9.1] * 9, "fp8"), Scripted("far", 1.0, [9.0, 8.0, 7.0, 6.0, 5.0], "fp8")
    assert order.spend([first, far], 6, 1000, "sol", 0.0, 0) == ["first", *["far"] * 5]


def test_a_common_budget_that_is_used_up_gives_no_other_session_a_trial(folder, tmp_path):
    request = asked(folder, "flat", order="in_turn", trials=2)
    one, two = (playing(request, Cell("flat", name, 1.0, 0), tmp_path) for name in ("one", "two"))
    assert order.spend([one, two], 1, 10**6, "in_turn", 0.0, 0) == ["one"]
    assert (one.used, two.used) == (1, 0) and one.ended.state == "done" and two.ended.state == "stopped"


def test_a_program_is_verified_once_and_a_wrong_one_refused_once(folder, tmp_path, monkeypatch):
    calls = []

    def verify(self, problem, candidate):
        calls.append(candidate.trial)
        if "* 1.05" in candidate.text:
            return {"error": {"code": "wrong_result", "reason": "on own inputs, 5% off"}}
        return {"validated": {"trial": candidate.trial, "error": 0.0, "max_error": 0.0, "tolerance": 1e-3,
                              "checks": [], "scope": "all rows"}}  # fmt: skip

    def build(self, candidate):
        return events.TrialCompiled(candidate.trial, candidate.backend, "not compiled", 0.0)

    monkeypatch.setattr(sharing.Shared, "_verify", verify)
    monkeypatch.setattr(sharing.Shared, "_bench", lambda self, problem: None)
    monkeypatch.setattr(sharing.OfflineBuilds, "build", build)
    request = asked(folder, "flat", "planner", problems=("one",), skills=(1.0,), seeds=(0, 1), trials=3)
    out = tmp_path / "out.json"
    results = command.compare(request, None, out, 1, lambda text: None)
    assert len(results.rows) == 4 and len(calls) < 6
    assert all(r["state"] == "done" and r["evaluations"] == 3 for r in results.rows.values())
    assert sum(t["counts"] for r in results.rows.values() for t in r["trials"]) == 12
    lines: list[str] = []
    calls.clear()
    again = command.compare(request, None, out, 1, lines.append)
    assert lines == [f"0 of 4 sessions to play; {out} goes on"] and not calls and again.rows == results.rows
    assert not list(tmp_path.glob("*.jsonl"))
    with pytest.raises(BadRequest, match="another request"):
        command.compare(asked(folder, "flat", trials=4), None, out, 1, lines.append)


def test_a_problem_that_cannot_be_opened_refuses_each_session_as_it_would_alone(folder, tmp_path, monkeypatch):
    opened = []

    def bench(self, problem):
        opened.append(problem.source)
        raise SessionRefused("too_large", "The module's tensors need 21.5 GB.")

    monkeypatch.setattr(sharing.Shared, "_bench", bench)
    results = command.compare(asked(folder, problems=("one",), seeds=(0, 1)), None, None, 1, lambda text: None)
    assert [(r["state"], r["code"]) for r in results.rows.values()] == [("refused", "too_large")] * 2
    assert len(opened) == 1


def test_stored_checks_are_read_by_another_process(tmp_path, monkeypatch):
    store, wrong = tmp_path / "store", {"error": {"code": "wrong_result", "reason": "off"}}
    monkeypatch.setattr(sharing, "meaning", lambda candidate: candidate)
    monkeypatch.setattr(sharing.Shared, "_verify", lambda self, problem, candidate: wrong)
    first, second, problem = (
        sharing.Shared(store=store),
        sharing.Shared(store=store),
        Problem("source", "module", GRAPH),
    )
    for shared in (first, second):
        with pytest.raises(TrialError, match="off"):
            shared.validated(problem, "program")
        monkeypatch.setattr(sharing.Shared, "_verify", lambda *a: pytest.fail("verified twice"))


def test_a_request_survives_the_way_to_a_worker_and_names_its_mistakes(folder):
    request = asked(folder, "mucutlass:iterations=2:analyze=false", "planner", skills=(0.5, 1.0), seeds=(3,))
    assert of_settings(json.loads(json.dumps(request.settings)), folder) == request
    assert len(list(request.cells())) == 2 * (2 + 1)
    assert request.arm("planner").options == {} and request.arms[0].options == {"iterations": 2, "analyze": False}
    for text, words in (
        ("agent", "from outside"),
        ("nobody", "there is no strategy"),
        ("flat:attempts", "write flat:OPTION=VALUE"),
        ("flat:attempts=1:seed=true:attempts=2", "the option attempts stands there twice"),
    ):
        with pytest.raises(BadRequest, match=words):
            arm(text)
    for name in ("nothing", f"../{folder.name}/one", "a" * 300, ""):
        with pytest.raises(BadRequest, match="there is no problem"):
            asked(folder, "flat", problems=(name,))
    with pytest.raises(BadRequest, match="attempts"):
        asked(folder, "flat:attempts=0")


@pytest.mark.parametrize("value", ["--5", "-", "²", "٣", "9" * 5000, "1.5", "", "0x10"])
def test_a_value_that_is_no_whole_number_is_a_mistake_of_its_option(folder, value):
    with pytest.raises(BadRequest, match="attempts"):
        asked(folder, f"flat:attempts={value}")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"trials": 0}, "--trials 0 is too small; write a whole number from 1"),
        ({"tokens": -1}, "--tokens -1 is too small; write a whole number from 1"),
        ({"window": -3}, "--window -3 is too small; write a whole number from 0"),
        ({"seeds": ()}, "--seeds: name at least one, and each once"),
        ({"seeds": (1, 1)}, "--seeds: name at least one, and each once"),
        ({"seeds": (-1,)}, "--seeds -1 is no seed"),
        ({"skills": ()}, "--skills: name at least one"),
        ({"skills": (1.5,)}, "--skills 1.5 is no share"),
        ({"problems": ("one", "one")}, "problems: name at least one, and each once"),
    ],
)
def test_a_request_with_which_nothing_can_be_compared_says_what_to_write(folder, wrong, words):
    with pytest.raises(BadRequest, match=words):
        asked(folder, "flat", **wrong)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_an_arm_that_writes_raw_kernels_is_told_that_a_prediction_has_no_time_for_them(folder, monkeypatch):
    monkeypatch.setattr(command, "_play", lambda *args: None)
    arms = tuple(map(arm, ("cutegen", "cutegen:form=kernel", "cutegen:form=program", "flat", "planner")))
    for device, notes in (("modelled:h200", ["cutegen:form=kernel"]), ("cuda", [])):
        monkeypatch.setattr(command, "about_of", lambda request, settings: {})
        lines = []
        command.compare(Request(arms, ("one",), device=device, folder=folder), None, None, 1, lines.append)
        spoken = [line for line in lines if line.startswith("note: ")]
        assert [line.split()[1] for line in spoken] == notes
        assert all("cutegen:form=program" in line for line in spoken)


def test_without_a_gpu_the_command_says_so_in_one_sentence():
    parser = argparse.ArgumentParser()
    arguments.add(parser)
    with pytest.raises(BadRequest, match="--device cuda: there is no NVIDIA GPU"):
        command.run(parser.parse_args(["--strategies", "planner", "--device", "cuda", "mlp_gelu"]))
    with pytest.raises(BadRequest, match="--jobs -1 is too small"):
        command.run(parser.parse_args(["--strategies", "planner", "--jobs", "-1", "mlp_gelu"]))


@pytest.mark.parametrize("text", ["", "[]", '{"problems": {}}', "no JSON"])
def test_a_file_that_holds_no_proposals_is_refused(tmp_path, text):
    file = tmp_path / "proposals.json"
    with pytest.raises(BadRequest, match="No such file"):
        proposals.checked(file, ["one"])
    file.write_text(text)
    with pytest.raises(BadRequest, match="it holds no proposals; write one: python -m engine"):
        proposals.checked(file, ["one"])


def test_workers_play_in_processes_of_their_own_and_a_mistake_ends_the_comparison(folder, monkeypatch):
    class Worker:
        alive = True

        def request(self, message, timeout, cancelled):
            cells = message["cells"]
            return {"error": "X", "message": "broken"} if cells[0][1] == "two" else {"rows": cells}

        def close(self):
            self.alive = False

    monkeypatch.setattr(work, "_worker", Worker)
    rows: list = []
    request = asked(folder, seeds=(0, 1))
    with pytest.raises(RuntimeError, match="broken"):
        work.apart(request, request.units(), lambda cell: "", rows.extend, threading.Event(), None, 1)
    assert [cell[1] for cell in rows] == ["one", "one"]


def test_an_arm_with_memory_comes_second_and_gets_the_lessons_of_the_other_problems(folder, monkeypatch):
    seen = {}

    class Worker:
        alive = True

        def request(self, message, timeout, cancelled):
            seen.update(message["lessons"])
            ((arm, problem, skill, seed),) = message["cells"]
            lesson = {"lesson": f"{problem}\n"} if arm == "first" else {}
            row = session(arm=arm, problem=problem, skill=skill, seed=seed) | lesson
            return {"rows": [row]}

        def close(self):
            self.alive = False

    monkeypatch.setattr(work, "_worker", Worker)
    arms = (Arm("first", "mucutlass"), Arm("second", "mucutlass", {}, "first"))
    request = Request(arms, ("one", "two"), (0.5, 1.0), folder=folder)
    results = command.compare(request, None, None, 2, lambda text: None)
    assert len(results.rows) == 8 and {key: text for key, text in seen.items() if "second" in key} == {
        f"second | {problem} | {skill:g} | 0": f"{other}\n"
        for problem, other in (("one", "two"), ("two", "one"))
        for skill in (0.5, 1.0)
    }


def test_the_rehearsal_counts_tokens_as_its_server_does():
    reply = models._played(Player(1.0, 0))(
        None, type("Call", (), {"messages": [{"content": "x" * 80}]}), None, lambda text: None, None
    )
    assert reply.tokens == {"in": 20, "out": len(reply.text) // 4 + 1} and reply.model == "rehearsed"
