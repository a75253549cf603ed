"""What won on one problem begins a similar one; how far a structure's promises held orders the structures."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from engine.devices import Problem
from engine.strategies import memory_lines
from engine.strategies.api import Finished, State
from engine.strategies.planner import memory
from engine.strategies.planner.memory import Memory, Won
from sol.hardware import load
from sol.triage import Memory as Outcomes
from sol.triage import Outcome
from tests.engine.graphs import Builder, linear
from tests.engine.planning import planned

H200 = load("h200")
BEST = "tile 128x192x64, cluster 2x1x1, schedule pingpong, scheduler persistent, swizzle 4"


def won(
    where="L2/9", shape=(1024, 8192, 8192), tail="operands", settings=BEST, kind="gemm", cls="f16", ms=0.3,
    backend="cute",
):  # fmt: skip
    return Won(where, kind, cls, backend, shape, tail, settings, ms)


def planner(won_before=(), outcomes=(), graph=None, classes=("f16",)):
    graph = graph or linear([("relu", {})], rows=1024, k=8200, n=8192)  # a weight that is cast before the product
    return planned(
        Problem("", "module", graph),
        classes,
        H200,
        "predicted",
        memory=Memory(list(won_before), Outcomes(list(outcomes))),
    )


def test_what_won_on_a_similar_problem_is_the_first_trial_and_says_so():
    first = planner([won()]).next(State())
    assert first.change == BEST and first.why.startswith("won on L2/9, 1024x8192x8192; ")
    assert "tile 128x192x64" in first.text


SMALL = "tile 64x128x32, cluster 2x1x1, schedule pingpong, scheduler persistent"


@pytest.mark.parametrize(
    ("kind", "backend", "begins"),
    [
        ("gemm in tf32", "cute", True),
        ("gemm", "cpp", True),  # with the tile and cluster, and its own order of tiles
        ("gemm", "cute", False),  # f16 under a guard
        ("conv", "cpp", False),
    ],
)
def test_a_product_in_tf32_begins_with_what_won_in_tf32_whichever_back_end_it_was(kind, backend, begins):
    before = won(shape=(128, 8192, 8192), settings=f"{SMALL}, swizzle 1", kind=kind, cls="tf32", backend=backend)
    graph = linear([("relu", {})], rows=128, k=8192, n=8192)
    first = planner([before], graph=graph, classes=("tf32",)).next(State())
    assert "guard" not in first.text
    assert first.change.startswith(SMALL) is begins


SLOW = "tile 64x32x64, cluster 2x2x1, schedule pingpong, scheduler persistent, swizzle 8"


@pytest.mark.parametrize(
    "other",
    [
        won(shape=(4096, 8192, 8192)),  # four times the rows
        won(shape=(1024, 2048, 8192)),
        won(cls="tf32"),
        won(kind="conv"),
        won(settings="tile 7x7x7"),  # nothing that is legal here
        won(settings=SLOW),  # legal, and expected to take twice as long as the best
    ],
)
def test_what_won_elsewhere_is_no_start(other):
    assert planner([other]).next(State()).change.startswith("every choice left to the compiler")


def test_of_several_the_most_similar_is_taken_and_a_like_epilogue_counts():
    near, far = (
        won("near", (1024, 8192, 8192)),
        won("far", (2048, 8192, 8192), settings=BEST.replace("swizzle 4", "swizzle 2")),
    )
    assert planner([far, near]).next(State()).why.startswith("won on near")
    plain = won("plain", tail="plain", settings=BEST.replace("swizzle 4", "swizzle 2"))
    assert planner([plain, won("alike")]).next(State()).why.startswith("won on alike")


def test_a_problem_can_be_kept_from_its_own_result():
    rest = Memory([won()], Outcomes([Outcome("x", 2.0, 1.0, "L2/9", "f16")])).without("L2/9")
    assert rest.won == [] and rest.outcomes.outcomes == []


def product():
    g = Builder()
    return g.graph(g.op("mm", [g.input("a", (4096, 4096)), g.input("b", (4096, 4096))], (4096, 4096)))


def test_a_structure_whose_promises_were_not_kept_waits():
    trusted = planner(graph=product(), classes=("tf32",)).lines["tf32"].structures
    assert trusted[0].ms < trusted[-1].ms  # without a history the model's word is taken
    bad = [Outcome(trusted[0].words, 1.5, 0.5, f"p{i}", "tf32") for i in range(9)]
    burnt = planner(graph=product(), classes=("tf32",), outcomes=bad).lines["tf32"].structures
    assert burnt[0].words != trusted[0].words and {s.words for s in burnt} == {s.words for s in trusted}


def test_a_promise_that_has_a_history_is_told():
    words = planner(graph=product(), classes=("tf32",)).lines["tf32"].structures[0].words
    good = [Outcome(words, 1.5, 1.4, f"p{i}", "tf32") for i in range(4)]
    first = planner(graph=product(), classes=("tf32",), outcomes=good).next(State())
    assert "earlier trials: 4 of 4 ran" in first.why and "\n" not in first.why


def test_the_repositorys_own_results_are_a_start():
    start = memory.known("h200", H200.sms)
    assert len(start.won) > 50 and {w.cls for w in start.won} >= {"tf32", "f16"}
    assert all(w.ms > 0 and w.settings.startswith("tile ") and min(w.shape) > 0 for w in start.won)


def test_a_benchs_session_in_regions_tells_what_won_in_each_region_by_the_time_of_its_program():
    def program(n):
        signature = f"p(x: f16[1024, 4096], w: f16[{n}, 4096]) -> f16[1024, {n}]"
        return f"program {signature} {{\n  y = gemm(x, w.T) {{ tile 128x128x64 }}\n  return y\n}}\n"

    def trial(n, region, region_ms, ms):
        return {"class": "f16", "backend": "cute", "change": "c", "text": program(n), "ok": True, "ms": ms,
                "part": {"region": region, "region_ms": region_ms}}  # fmt: skip

    trials = [trial(2048, 1, 0.3, 2.0), trial(2048, 1, 0.2, 2.1), trial(8192, 2, 0.9, 1.5)]
    failed = {"class": "f16", "backend": "cpp", "change": "c", "ok": False}
    store = Memory()
    memory._of_bench({"problems": {"m": {"id": "outside", "trials": [*trials, failed]}}}, store, H200.sms)
    assert [(w.shape, w.ms) for w in store.won] == [((1024, 2048, 4096), 0.2), ((1024, 8192, 4096), 0.9)]


def test_a_measured_session_teaches_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    monkeypatch.setattr(memory, "RESULTS", tmp_path)
    monkeypatch.setattr(memory, "GATHERED", tmp_path)
    memory._committed.cache_clear()
    try:
        strategy = planner()
        trials = []
        for number in range(1, 5):
            p = strategy.next(State(tuple(trials)))
            trials.append(Finished(number, p.text, p.cls, p.backend, ms=1.0 / number))
        memory.keep("h200", memory.lines_of(strategy.learned(tuple(trials), "mine")))
        config = resolve(check(trials[-1].text).program, H200.sms).stages[-1].config
        (entry,) = memory.known("h200", H200.sms).won
        assert (
            entry.where == "mine"
            and entry.ms == 0.25
            and entry.settings.startswith(f"tile {'x'.join(map(str, config.tile))}")
        )
        with memory._file("h200").open("a") as f:
            f.write('{"torn": ')
        assert len(memory.known("h200", H200.sms).won) == 1
    finally:
        memory._committed.cache_clear()


def test_the_memory_of_a_machine_is_bounded(monkeypatch):
    monkeypatch.setattr(memory_lines, "MOST", 3)
    for i in range(5):
        memory.keep("h200", memory.lines_of([won(f"p{i}")]))
    lines = memory._file("h200").read_text().splitlines()
    assert [json.loads(line)["where"] for line in lines] == ["p2", "p3", "p4"]


def test_what_the_repositorys_results_come_to_is_committed(tmp_path, monkeypatch):
    """UPDATE_MEMORY=1 writes the file anew, after new results or other rules of the language."""
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    gathered, committed = memory.GATHERED, memory._committed
    monkeypatch.setattr(memory, "GATHERED", tmp_path)
    committed.cache_clear()
    try:
        text = committed("h200", H200.sms).to_text()
    finally:
        committed.cache_clear()
    (path,) = (tmp_path / "memory").glob("h200-*.jsonl")
    if os.environ.get("UPDATE_MEMORY"):
        for old in gathered.glob("h200-*.jsonl"):
            old.unlink()
        gathered.mkdir(exist_ok=True)
        (gathered / path.name).write_text(text)
    assert [old.name for old in gathered.glob("h200-*.jsonl")] == [path.name], "other results: UPDATE_MEMORY=1"
    assert (gathered / path.name).read_text() == text, "other rules: UPDATE_MEMORY=1"


def test_the_installed_package_which_has_no_results_remembers_the_same(tmp_path, monkeypatch):
    with_results = memory.committed("h200", H200.sms).to_text()
    monkeypatch.setattr(memory, "RESULTS", tmp_path)
    memory._committed.cache_clear()
    try:
        assert memory.committed("h200", H200.sms).to_text() == with_results != ""
        assert memory.committed("a100", 108).to_text() == ""
    finally:
        memory._committed.cache_clear()


def test_sessions_that_start_together_read_the_repositorys_results_once(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_CACHE", str(tmp_path))
    monkeypatch.setattr(memory, "GATHERED", tmp_path)
    read, gathered = [], memory._gathered

    def slowly(paths, sms):
        read.append(sms)
        time.sleep(0.1)
        return gathered([], sms)

    monkeypatch.setattr(memory, "_gathered", slowly)
    memory._committed.cache_clear()
    try:
        with ThreadPoolExecutor(4) as pool:
            texts = list(pool.map(lambda _: memory.known("h200", H200.sms).to_text(), range(4)))
        assert read == [H200.sms] and len(set(texts)) == 1
    finally:
        memory._committed.cache_clear()
