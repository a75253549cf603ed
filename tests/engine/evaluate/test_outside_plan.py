"""The memory of timed calls: how many fit, where results may lie, and the page over which two processes signal."""

import itertools
import threading
import time

import pytest

from engine.evaluate.timing.outside.plan import (
    ENOUGH_BYTES,
    LENGTH_MS,
    PAGE,
    SHARE,
    SLOTS,
    WORKSPACE,
    Page,
    Plan,
    Results,
    free_bytes_wanted,
    slots,
)
from tests.engine.graphs import linear

GRAPH = linear(rows=64, k=32, n=16)
DRAWN = [*GRAPH.inputs, *(t.name for t in GRAPH.tensors.values() if t.kind == "parameter")]


@pytest.fixture
def plan():
    return Plan.of(GRAPH, DRAWN, 4)


def test_each_call_has_inputs_of_its_own(plan):
    spans = sorted((s.offset, s.offset + s.bytes) for at in range(4) for s in plan.input_slots(at).values())
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)) and spans[-1][1] <= plan.first_result
    assert Plan.from_json(plan.to_json()) == plan


def test_results_lie_behind_the_inputs_and_apart(plan):
    size = plan.outputs[0].bytes
    rows = [[plan.first_result + at * size] for at in range(4)]
    assert plan.valid(rows)
    assert not plan.valid([*rows[:3], rows[0]]), "two calls in one place"
    assert not plan.valid([*rows[:3], [plan.first_result - 8]]), "over the inputs"
    assert not plan.valid([*rows[:3], [plan.size - size + 8]]), "behind the end"
    assert not plan.valid([*rows[:3], ["0"]]) and not plan.valid([*rows[:3], []])


def test_memory_for_results_ends(plan):
    results = Results(plan)
    first = results.take(plan.outputs[0].bytes)
    assert first == plan.first_result and results.take(1) > first and results.take(plan.results) is None
    results.clear()
    assert results.take(1) == first


@pytest.mark.parametrize(
    ("free", "shortest_ms", "wanted"),
    [(1 << 40, LENGTH_MS / 10, 10), (1 << 40, 0.0, SLOTS), (WORKSPACE, 0.001, 1)],
    ids=["as long as a batch should be", "at most so many", "little memory"],
)
def test_as_many_calls_as_a_batch_needs_and_the_memory_allows(free, shortest_ms, wanted):
    assert slots(GRAPH, DRAWN, free, shortest_ms) == wanted


def test_a_page_waits_for_a_number_and_for_the_engine():
    page = Page(bytearray(PAGE))
    assert not page.wait(Page.GO, 1, 0.01), "nobody said go"
    threading.Timer(0.05, page.__setitem__, (Page.GO, 1)).start()
    assert page.wait(Page.GO, 1, 5.0) and page.idle(Page.GO, 0, 0.001) == 1
    page[Page.STOP] = 1
    assert not page.wait(Page.DONE, 1, 60.0) and page.idle(Page.ARM, 0, 0.001) is None


def test_who_waits_asleep_wakes_in_time():
    page = Page(bytearray(PAGE))
    threading.Timer(0.05, page.__setitem__, (Page.DONE, 1)).start()
    assert page.wait(Page.DONE, 1, 5.0, 0.02) and not page.wait(Page.GO, 1, 0.02, 0.01)


def test_the_engine_wakes_who_waits_asleep():
    page = Page(bytearray(PAGE))
    threading.Timer(0.05, page.__setitem__, (Page.STOP, 1)).start()
    began = time.monotonic()
    assert not page.wait(Page.DONE, 1, 60.0, 30.0) and time.monotonic() - began < 10.0


def test_the_memory_that_is_wanted_holds_a_whole_batch_of_the_fastest_calls():
    wanted = free_bytes_wanted(GRAPH)
    assert slots(GRAPH, DRAWN, wanted, 0.0) == SLOTS > slots(GRAPH, DRAWN, wanted // 2, 0.0)


def test_no_problem_wants_more_than_a_large_batch_takes():
    assert free_bytes_wanted(linear(rows=1 << 15, k=1 << 15, n=1 << 15)) == int(ENOUGH_BYTES / SHARE)
