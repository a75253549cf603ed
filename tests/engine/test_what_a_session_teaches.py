"""What a measured session found begins the next one on a similar module; a crash or a neighbour loses none of it."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engine import atomic_write
from engine.bench.run.plan import plan
from engine.bench.studies import pace
from engine.session import events
from engine.session.runner import run
from engine.strategies import State
from engine.strategies.planner import memory
from sol.graph import OpGraph
from sol.hardware import load
from tests.engine.counting import CountingDevice, spec
from tests.engine.graphs import linear

H200 = load("h200")
FIRST = linear([("relu", {})], rows=1024, k=8192, n=4096)
SIMILAR = linear([("gelu", {})], rows=1536, k=8192, n=4096)


class Measuring(CountingDevice):
    """Its times are the model's, the other way round, so that what wins is not what the planner begins with."""

    kind = "measured"

    def measure(self, candidate, baseline):
        made = super().measure(candidate, baseline)
        ms = 1.0 / made.time.ms
        return replace(made, time=events.Measurement(ms, ms, ms, [ms], "events", {"name": "H200"}, baseline.time.ms))


@pytest.fixture(autouse=True)
def nothing_is_committed(monkeypatch):
    monkeypatch.setattr(memory, "committed", lambda *a: memory.Memory())


def traced(graph: OpGraph, title: str):
    """(history, blobs) of a session on a module that is traced already."""
    text = graph.to_json()
    started = events.SessionStarted(title, events.blob_name("module"), "module", {}, "planner", ["f16"], {}, 0)
    return [(1, started), (2, events.Traced(events.blob_name(text), len(graph.ops), 0.1))], {
        events.blob_name(text): text
    }


def play(graph: OpGraph, title="mine", device=None, past=(), blobs=None, **changes):
    """The log of a session on a traced module, from after `past`."""
    history, texts = traced(graph, title)
    history += [(i + 3, e) for i, e in enumerate(past)]
    given = spec(title=title, source="module", source_kind="module", classes=("f16",), **changes)
    made = run(given, device=device or Measuring(), history=history, read_blob=(texts | (blobs or {})).__getitem__)
    return list(made)


def first(emitted):
    return next(e.event for e in emitted if isinstance(e.event, events.TrialProposed))


def ended(emitted):
    return emitted[-1].event


def lines():
    path = memory._file("h200")
    return path.read_text().splitlines() if path.exists() else []


def test_the_next_session_on_a_similar_module_begins_with_what_won_and_says_so():
    before = play(FIRST, "private title")
    assert first(before).change.startswith("every choice left to the compiler")
    (won,) = memory.known("h200", H200.sms).won
    after = first(play(SIMILAR))
    assert after.change == won.settings
    assert after.why.startswith("won on 1024x4096x8192 in an earlier session; ") and "\n" not in after.why
    assert "private title" not in "".join(lines())  # whoever reads it may be somebody else


def test_a_structure_that_was_tried_twice_is_one_outcome_of_its_module():
    def told():
        known = memory.known("h200", H200.sms).outcomes.outcomes
        return [(o.problem, o.cls, o.action) for o in known]

    batched = linear([("relu", {}), ("sigmoid", {})], rows=1024, k=8192, n=4096)
    made = [memory.Outcome("split", 1.5, ms, memory.session_of(batched), "f16") for ms in (1.2, 1.4)]
    memory.keep("h200", made)
    assert len(lines()) == 2 and len(told()) == 1
    assert memory.known("h200", H200.sms).outcomes.outcomes[0].observed == 1.4


def test_predictions_teach_nothing():
    class Says(CountingDevice):
        kind = "measured"  # but answers with predictions

    for device in (CountingDevice(), Says()):
        assert ended(play(FIRST, device=device)).state == "done"
    assert lines() == []


def test_a_mistake_of_the_engine_is_no_word_on_a_program(monkeypatch):
    told = []
    monkeypatch.setattr(
        "engine.strategies.planner.planner.Planner.learned", lambda self, trials, where: told.extend(trials) or []
    )
    play(FIRST, device=Measuring(fail={2: "crash validate", 3: "validate"}))
    assert [(t.number, bool(t.failed)) for t in told] == [(1, False), (3, True), (4, False)]


def test_a_session_that_its_owner_stops_teaches_what_it_measured():
    device = Measuring(hang_at=3)
    history, texts = traced(FIRST, "mine")
    given = spec(source="module", source_kind="module", classes=("f16",), trials=9)
    said = iter(range(10**9))

    def control():
        return [("stop", {})] if device.hanging.is_set() and next(said) == 0 else []

    log = list(run(given, device=device, history=history, read_blob=texts.__getitem__, control=control))
    assert ended(log).state == "stopped" and len(memory.known("h200", H200.sms).won) == 1


def test_a_benchmarks_session_neither_teaches_nor_is_taught(monkeypatch):
    monkeypatch.setattr("engine.session.runner._Session._graph", lambda self: (FIRST, "Model"))
    device = Measuring()
    made = pace.play([("linear", "module", "module")], device, 60.0, trials=2)
    assert len(made.judged) == 2 and lines() == []


def test_a_bench_is_not_helped_by_what_a_session_found_on_the_same_module():
    play(FIRST, "under another name")
    told = first(play(FIRST))
    assert told.why.startswith("won on")  # a session is
    began = plan("linear_relu", FIRST, ("f16",), H200, "L9/1").planners["f16"].next(State())
    assert began.change.startswith("every choice left to the compiler")


# ---- a module is known by what it does ----


def test_a_module_is_the_same_under_any_name_and_on_any_line():
    raw = json.loads(FIRST.to_json().replace("linear_0", "h").replace('"x"', '"image"'))
    for op in raw["ops"]:
        op["line"] += 40
    assert memory.session_of(OpGraph.from_json(json.dumps(raw))) == memory.session_of(FIRST)
    assert len({memory.session_of(g) for g in (FIRST, SIMILAR, linear(rows=1024, k=8192, n=4096))}) == 3


# ---- crashes and neighbours ----


def test_an_engine_killed_while_it_writes_leaves_what_was_there_and_the_session_writes_when_it_is_taken_up():
    play(SIMILAR)
    held = lines()

    class Killed(BaseException):
        pass

    def killed(*a):
        raise Killed

    log, (history, texts) = [], traced(FIRST, "mine")
    given = spec(title="mine", source="module", source_kind="module", classes=("f16",))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(atomic_write.os, "replace", killed)
        log.extend(e for e in run(given, device=Measuring(), history=history, read_blob=texts.__getitem__))
    assert lines() == held
    again = play(FIRST)
    assert ended(again).state == "done" and lines()[: len(held)] == held and len(lines()) > len(held)


def test_a_session_lost_after_it_taught_says_nothing_twice():
    log = play(FIRST)
    held = lines()
    blobs = {k: v for e in log for k, v in e.blobs.items()}
    past = [e.event for e in log[:-1] if not isinstance(e.event, events.Resumed)]
    again = play(FIRST, past=past, blobs=blobs)
    assert ended(again).state == "done" and held and lines() == held


def test_two_sessions_at_once_lose_nothing_of_each_other():
    graphs = [linear([("relu", {})], rows=1024 * (i + 1), k=512, n=4096) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert {ended(log).state for log in pool.map(lambda g: play(g, trials=1), graphs)} == {"done"}
    assert {json.loads(line)["where"] for line in lines()} == {memory.session_of(g) for g in graphs}


def test_processes_that_write_at_once_lose_nothing_of_each_other(tmp_path):
    code = (
        "import sys; from engine.strategies.planner import memory; from sol.triage import Outcome\n"
        "for i in range(40): memory.keep('h200', [Outcome('x', 2.0, 1.0, f'{sys.argv[1]}/{i}', 'f16')])"
    )
    env = os.environ | {"UCUTLASS_CACHE": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=env, cwd=root) for n in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    held = (tmp_path / "memory" / "h200.jsonl").read_text().splitlines()
    assert len(held) == 120 and {json.loads(line)["problem"] for line in held} == {
        f"{n}/{i}" for n in range(3) for i in range(40)
    }
