"""A bench on a folder of modules: problems by their paths, logs with safe names, several sessions on each GPU, and
searches that are ended in time."""

import json
import shutil
from types import SimpleNamespace

import pytest

from engine.__main__ import main
from engine.bench.run import runner, session_log
from engine.bench.run.request import Request
from engine.bench.run.session_log import SessionLog
from engine.bench.run.shards import BadResults
from engine.devices import registry
from engine.session import events
from engine.session.script.compiled import Compiling
from engine.session.script.steps import Emitted
from engine.strategies.planner import memory
from engine.suite import folder as folders
from tests.engine.bench.test_a_bench_is_sessions import (
    FIELDS,
    Ahead,
    Bench,
    Measures,
    nothing_is_traced,  # noqa: F401
    traced,  # noqa: F401
)

NAMES = ("level1/2_ReLU", "level1/10_GELU", "level3/1_MLP", "own")


@pytest.fixture
def folder(tmp_path):
    below = tmp_path / "modules"
    for name in NAMES:
        (below / name).parent.mkdir(parents=True, exist_ok=True)
        (below / f"{name}.py").write_text(f"class Model: ...  # {name}\n")
    (below / "_helper.py").write_text("")
    return below


def request(folder, names=NAMES, **more):
    return Request({name: folders.pid(name) for name in names}, FIELDS, folder=folder, **more)


def test_problems_are_named_by_their_paths_in_the_order_of_their_numbers(folder):
    assert folders.module_set(folder) == dict(zip(NAMES, ("L1/2", "L1/10", "L3/1", "folder"), strict=True))
    assert list(folders.module_set(folder, ("level1", "own"))) == ["level1/2_ReLU", "level1/10_GELU", "own"]
    assert list(folders.module_set(folder, ("level1/2_ReLU",))) == ["level1/2_ReLU"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["EMPTY"], "has no Python file; name a folder of PyTorch modules, one a file"),
        (["FOLDER", "--only", "level9"], "has level9 in its name; the first is level1/2_ReLU"),
        (["nowhere"], "there is no folder nowhere; name a folder of modules, or one of suite59, outside, heldout"),
        (["FOLDER", "--compile-ways", "max"], "--compile-ways has no max; write some of compile, compile_tf32"),
        (["FOLDER", "--at-once", "0"], "--at-once takes a whole number from 1, not 0"),
    ],
    ids=["empty", "only", "missing", "ways", "at_once"],
)  # fmt: skip
def test_what_it_cannot_run_is_said_in_one_sentence(folder, tmp_path, capsys, arguments, words):
    (tmp_path / "empty").mkdir()
    named = {"EMPTY": str(tmp_path / "empty"), "FOLDER": str(folder)}
    assert main(["bench", *(named.get(a, a) for a in arguments), "--device", "modelled:h200"]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_each_row_has_the_hash_of_its_text_and_a_changed_one_is_run_again(folder, tmp_path):
    out, names = tmp_path / "b.json", NAMES[1:3]
    runner.run(request(folder, names), [Bench()], out, lambda text: None)
    rows = json.loads(out.read_text())["problems"]
    assert list(rows) == list(names) and all(len(row["sha256"]) == 64 for row in rows.values())
    (folder / "level3/1_MLP.py").write_text("class Model: ...  # changed\n")
    device = Bench()
    again = runner.run(request(folder, names), [device], out, lambda text: None).problems
    assert device.asked["validate", 1] == 1 and again["level3/1_MLP"]["sha256"] != rows["level3/1_MLP"]["sha256"]


def test_the_log_of_a_cut_session_lies_beside_the_results_and_is_gone_on_from(folder, tmp_path):
    class Cut(BaseException):
        pass

    def say(text):
        raise Cut

    out, one = tmp_path / "b.json", request(folder, NAMES[:1])
    with pytest.raises(Cut):
        runner.run(one, [Bench()], out, say)
    assert [p.name for p in tmp_path.glob("*.session")] == ["b.json.level1%2F2_ReLU.session"]
    row = runner.run(one, [Bench()], out, lambda text: None).problems["level1/2_ReLU"]
    assert row["session"]["resumed"] == 1 and not list(tmp_path.glob("*.session"))


def test_a_log_that_a_killed_bench_left_beside_its_row_goes(folder, tmp_path):
    out, one = tmp_path / "b.json", request(folder, NAMES[:1])
    runner.run(one, [Bench()], out, lambda text: None)
    (log := session_log.beside(out, NAMES[0])).write_text("of a session whose row is written")
    runner.run(one, [Bench()], out, lambda text: None)
    assert not log.exists()


def test_a_torn_log_is_read_up_to_the_tear(folder, tmp_path):
    spec = request(folder, NAMES[:1]).session(NAMES[0])
    log = SessionLog(tmp_path / "log", spec, "")
    log.add(Emitted(events.Progress("one\u2028and the same line"), {}, 1.0))
    log.close()
    with log.path.open("ab") as file:
        file.write('{"t": 2.0, "kind": "é'.encode()[:-1])
    assert [e.event.text for e in SessionLog(log.path, spec, "").emitted] == ["one\u2028and the same line"]


def test_with_several_sessions_on_a_gpu_nothing_is_prepared_ahead(folder, tmp_path, traced, monkeypatch):  # noqa: F811
    begun = []
    monkeypatch.setattr("engine.bench.run.runner.LookAhead.begin", lambda *a: begun.append(a))
    gpus = [Ahead(), Ahead()]
    results = runner.run(request(folder), gpus, tmp_path / "b.json", lambda text: None, at_once=2)
    assert not begun and (results.about["gpus"], results.about["at_once"]) == (1, 2)
    assert sorted(results.problems) == sorted(NAMES)
    assert all(row["session"]["state"] == "done" for row in results.problems.values())


def test_predicted_sessions_side_by_side_share_this_machines_memory():
    many = registry.several("modelled:h200", 2)
    assert len(many) == len({id(one.machine) for one in many}) == 2
    assert len({id(one.machine.room) for one in many}) == 1 and many[0].machine.room.total > 0
    part = registry.several("modelled:h200", 1, share=4)[0].machine.room
    assert part.total <= many[0].machine.room.total / 4, "of four processes each has a part"
    assert registry.get("modelled:h200").machine.room is None


def test_a_search_that_takes_too_long_ends_with_the_trials_that_it_has(folder, tmp_path):
    done = runner.run(request(folder, NAMES[:1]), [Bench()], None, lambda text: None).problems[NAMES[0]]
    device = Bench()
    cut = runner.run(request(folder, NAMES[:1], search_seconds=1e-9), [device], None, lambda text: None)
    row = cut.problems[NAMES[0]]
    assert device.out_of_time()  # a search that is over screens nothing more
    assert len(done["trials"]) == 3 and "cut" not in done["session"]
    assert len(row["trials"]) == 1 and row["session"]["cut"] and row["session"]["state"] == "done"


@pytest.mark.parametrize(
    "last", [events.Progress("Choosing among 8 candidates", "screen", 2), events.Screened(2, {}, 1.0)]
)
def test_a_search_that_is_choosing_among_candidates_has_the_trial_of_its_choice(monkeypatch, last):
    clock = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock[0])
    bench = SimpleNamespace(request=Request({}, FIELDS, search_seconds=60.0), look_at_the_clock=lambda: None)
    judged = events.TrialJudged(1, "clean", "f16", "measured", 1.0, 2.0, "eager", 2.0, 0.5, True, "")
    proposed = [events.TrialProposed(n, "f16", "", "cute", "", "") for n in (1, 2)]
    log = SimpleNamespace(emitted=[])
    for t, event in enumerate((events.Progress("Searching", "search"), proposed[0], judged, last)):
        log.emitted.append(Emitted(event, {}, 100.0 + t))
    owner = runner._Owner(bench, log)
    assert owner.commands() == ()
    clock[0] = 61.0
    assert owner.commands() == (("budget", {"trials": 2}),)
    log.emitted.append(Emitted(proposed[1], {}, 110.0))
    assert not owner._choosing()


def test_a_search_without_a_right_trial_gets_the_time_once_more(monkeypatch):
    clock, request_ = [0.0], Request({}, FIELDS, search_seconds=60.0)
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock[0])
    bench = SimpleNamespace(request=request_, look_at_the_clock=lambda: None)
    log = SimpleNamespace(emitted=[Emitted(events.Progress("Searching", "search"), {}, 100.0)])
    owner = runner._Owner(bench, log)
    assert owner.commands() == ()
    log.emitted.append(Emitted(events.TrialProposed(1, "f16", "", "cute", "", ""), {}, 110.0))
    clock[0] = 61.0
    assert owner.commands() == ()
    clock[0] = 121.0
    assert owner.commands() == (("budget", {"trials": 1}),) and owner.commands() == ()
    judged = events.TrialJudged(1, "clean", "f16", "measured", 1.0, 2.0, "eager", 2.0, 0.5, True, "")
    log.emitted.append(Emitted(judged, {}, 120.0))
    clock[0] = 0.0
    again = runner._Owner(bench, log)  # a session that goes on: 20 s were spent
    assert again.commands() == ()
    clock[0] = 41.0
    assert again.commands() == (("budget", {"trials": 1}),)


def test_results_of_other_limits_are_not_mixed(folder, tmp_path):
    out = tmp_path / "b.json"
    runner.run(request(folder, NAMES[:1], search_seconds=60.0), [Bench()], out, lambda text: None)
    for other in ({}, {"search_seconds": 60.0, "compiling": Compiling(("compile",), 90.0)}):
        with pytest.raises(BadResults, match="other settings"):
            runner.run(request(folder, NAMES[:1], **other), [Bench()], out, lambda text: None)


def test_the_memory_of_a_level_is_without_the_problem_of_the_same_number(folder, tmp_path, monkeypatch):
    t = runner.run(request(folder, NAMES[:1]), [Measures()], None, lambda text: None).problems[NAMES[0]]["trials"][1]
    own = memory.won("L1/2", "f16", t["backend"], t["text"], 0.5, 132)
    monkeypatch.setattr(memory, "committed", lambda *a: memory.Memory([own]))
    rows = runner.run(request(folder, NAMES[:2]), [Measures()], None, lambda text: None).problems
    whys = [rows[name]["trials"][0]["why"] for name in NAMES[:2]]
    assert not whys[0].startswith("won on") and whys[1].startswith("won on L1/2")


def test_the_command_runs_a_folder_to_its_end(folder, tmp_path, capsys, monkeypatch):
    shutil.rmtree(folder / "level1")
    several = []
    monkeypatch.setattr(registry, "several", lambda *a, **k: several.append(a) or [Bench(), Bench()])
    out = tmp_path / "b.json"
    command = ["bench", str(folder), "--device", "modelled:h200", "--class", "f16", "--trials", "3", "--at-once", "2"]
    command += ["--session-seconds", "600", "--compile-ways", "compile,compile_tf32", "--json", str(out)]
    assert main(command) == 0
    assert several == [("modelled:h200", 2)] and "level3/1_MLP" in capsys.readouterr().out
    sessions = json.loads(out.read_text())["about"]["sessions"]
    assert sessions["compile"] and sessions["compile_ways"] == ["compile", "compile_tf32"]
    assert (sessions["search_seconds"], sessions["compile_seconds"]) == (600.0, 90.0)
