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
from engine.bench.run.runner import frozen_memory
from engine.bench.studies import pace
from engine.session import events
from engine.session.runner import run
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
        measurement = super().measure(candidate, baseline)
        ms = 1.0 / measurement.time.ms
        return replace(
            measurement, time=events.Measurement(ms, ms, ms, [ms], "events", {"name": "H200"}, baseline.time.ms)
        )


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
    request = spec(title=title, source="module", source_kind="module", classes=("f16",), **changes)
    emissions = run(
        request, device=device or Measuring(), history=history, read_blob=(texts | (blobs or {})).__getitem__
    )
    return list(emissions)


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
    def history():
        known = memory.known("h200", H200.sms).outcomes.outcomes
        return [(o.problem, o.cls, o.action) for o in known]

    batched = linear([("relu", {}), ("sigmoid", {})], rows=1024, k=8192, n=4096)
    outcomes = [memory.Outcome("split", 1.5, ms, memory.session_of(batched), "f16") for ms in (1.2, 1.4)]
    memory.keep("h200", memory.lines_of(outcomes))
    assert len(lines()) == 2 and len(history()) == 1
    assert memory.known("h200", H200.sms).outcomes.outcomes[0].observed == 1.4


def test_predictions_teach_nothing():
    class Says(CountingDevice):
        kind = "measured"  # but answers with predictions

    for device in (CountingDevice(), Says()):
        assert ended(play(FIRST, device=device)).state == "done"
    assert lines() == []


def test_a_mistake_of_the_engine_is_no_word_on_a_program(monkeypatch):
    lessons = []
    monkeypatch.setattr(
        "engine.strategies.planner.planner.Planner.learned", lambda self, trials, where: lessons.extend(trials) or []
    )
    play(FIRST, device=Measuring(fail={2: "crash validate", 3: "validate"}))
    assert [(t.number, bool(t.failed)) for t in lessons] == [(1, False), (3, True), (4, False)]


def test_a_session_that_its_owner_stops_teaches_what_it_measured():
    device = Measuring(hang_at=3)
    history, texts = traced(FIRST, "mine")
    request = spec(source="module", source_kind="module", classes=("f16",), trials=9)
    calls = iter(range(10**9))

    def control():
        return [("stop", {})] if device.hanging.is_set() and next(calls) == 0 else []

    log = list(run(request, device=device, history=history, read_blob=texts.__getitem__, control=control))
    assert ended(log).state == "stopped" and len(memory.known("h200", H200.sms).won) == 1


def test_a_benchmarks_session_neither_teaches_nor_is_taught(monkeypatch):
    monkeypatch.setattr("engine.session.runner._Session._graph", lambda self: (FIRST, "Model", ""))
    device = Measuring()
    window = pace.play([("linear", "module", "module")], device, 60.0, trials=2)
    assert len(window.judged) == 2 and lines() == []


def test_a_bench_is_not_helped_by_what_a_session_found_on_the_same_module():
    play(FIRST, "under another name")
    proposal = first(play(FIRST))
    assert proposal.why.startswith("won on")  # a session is
    spec_ = spec(source="module", source_kind="module", classes=("f16",))
    assert frozen_memory(spec_, Measuring(), "L9/1") == ""  # a bench's begins from what is committed alone


def test_a_bench_begins_from_the_committed_results_without_the_problems_own(monkeypatch):
    won = [memory.Won(pid, "gemm", "f16", "cute", (64, 64, 64), "plain", "tile 64x64x64", 1.0) for pid in ("a", "b")]
    monkeypatch.setattr(memory, "committed", lambda *asked: memory.Memory(list(won)))
    text = frozen_memory(spec(), Measuring(), "a")
    assert [w.where for w in memory.parsed(text).won] == ["b"]
    assert frozen_memory(spec(strategy="sweep"), Measuring(), "a") == ""  # which remembers nothing


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
    before = lines()

    class Killed(BaseException):
        pass

    def killed(*a):
        raise Killed

    log, (history, texts) = [], traced(FIRST, "mine")
    request = spec(title="mine", source="module", source_kind="module", classes=("f16",))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(atomic_write.os, "replace", killed)
        log.extend(e for e in run(request, device=Measuring(), history=history, read_blob=texts.__getitem__))
    assert lines() == before
    again = play(FIRST)
    assert ended(again).state == "done" and lines()[: len(before)] == before and len(lines()) > len(before)


def test_a_session_lost_after_it_taught_says_nothing_twice():
    log = play(FIRST)
    before = lines()
    blobs = {k: v for e in log for k, v in e.blobs.items()}
    past = [e.event for e in log[:-1] if not isinstance(e.event, events.Resumed)]
    again = play(FIRST, past=past, blobs=blobs)
    assert ended(again).state == "done" and before and lines() == before


def test_two_sessions_at_once_lose_nothing_of_each_other():
    graphs = [linear([("relu", {})], rows=1024 * (i + 1), k=512, n=4096) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert {ended(log).state for log in pool.map(lambda g: play(g, trials=1), graphs)} == {"done"}
    assert {json.loads(line)["where"] for line in lines()} == {memory.session_of(g) for g in graphs}


def test_processes_that_write_at_once_lose_nothing_of_each_other(tmp_path):
    code = (
        "import sys; from engine.strategies.planner import memory; from sol.triage import Outcome\n"
        "facts = [Outcome('x', 2.0, 1.0, f'{sys.argv[1]}/{i}', 'f16') for i in range(40)]\n"
        "for fact in facts: memory.keep('h200', memory.lines_of([fact]))"
    )
    env = os.environ | {"UCUTLASS_CACHE": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    running = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=env, cwd=root) for n in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    rows = (tmp_path / "memory" / "h200.jsonl").read_text().splitlines()
    assert len(rows) == 120 and {json.loads(line)["problem"] for line in rows} == {
        f"{n}/{i}" for n in range(3) for i in range(40)
    }
