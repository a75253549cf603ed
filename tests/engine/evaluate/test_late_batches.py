"""Copies and reading that take longer than without calls count as a side's time, as far as others do not cause it."""

import pytest

pytest.importorskip("torch")

from engine.evaluate.timing.outside.clock import LATELY, SLOWER, Clock, Rest
from tests.engine.graphs import linear

BEFORE, AFTER = 0.002, 0.0004  # seconds without calls


@pytest.fixture
def clock():
    clock = Clock(linear(rows=64, k=32, n=16), "cpu", 1.0)
    for side in clock.sides.values():
        side.rests = [Rest(2, BEFORE, AFTER)]
    return clock


def late(clock, before=BEFORE, after=AFTER):
    return clock._late(2, before, after)


def lately(clock, *times):
    for before, after in times:
        clock.lately.append((before * BEFORE, after * AFTER))


def test_what_a_batch_takes_without_calls_is_free(clock):
    assert late(clock) == 0 == late(clock, 0.0, 0.0)


def test_what_the_baseline_takes_without_calls_is_free_up_to_the_same_limit(clock):
    clock.sides["theirs"].rests = [Rest(2, 1.04 * BEFORE, 1.2 * AFTER)]
    assert late(clock, 1.04 * BEFORE, 1.2 * AFTER) == 0
    clock.sides["theirs"].rests = [Rest(2, 10.0, 10.0)]  # a module that works while batches without calls are measured
    assert late(clock, after=10.0) == pytest.approx(10.0 - SLOWER[1] * AFTER)


def test_what_takes_longer_counts_before_go_and_after_done(clock):
    assert late(clock, BEFORE + 0.001) == pytest.approx(0.001)
    assert late(clock, after=AFTER + 0.003) == pytest.approx(0.003)
    assert late(clock, BEFORE + 0.001, AFTER + 0.003) == pytest.approx(0.004)
    assert late(clock, BEFORE + 0.001, 0.0) == pytest.approx(0.001), "being early elsewhere gains nothing"


def test_what_slows_the_baseline_down_too_is_free(clock):
    lately(clock, (1.04, 1.2), (1.04, 1.2), (1.0, 1.0))
    assert late(clock, 1.04 * BEFORE, 1.2 * AFTER) == 0
    assert late(clock, after=1.3 * AFTER) == pytest.approx(0.1 * AFTER)


def test_one_slow_batch_of_the_baseline_allows_nothing(clock):
    lately(clock, *[(1.0, 1.0)] * (LATELY - 1), (1.04, 1.2))
    assert late(clock, 1.04 * BEFORE, 1.2 * AFTER) == pytest.approx(0.04 * BEFORE + 0.2 * AFTER)


def test_a_slow_baseline_allows_no_more_than_its_limit(clock):
    lately(clock, (1e3, 1e3))
    assert late(clock, after=10.0) == pytest.approx(10.0 - SLOWER[1] * AFTER)
    assert late(clock, before=10.0) == pytest.approx(10.0 - SLOWER[0] * BEFORE)


def test_only_the_last_batches_count_and_none_of_another_length(clock):
    lately(clock, *[(1.0, 1.2)] * LATELY)
    assert late(clock, after=1.2 * AFTER) == 0
    lately(clock, *[(1.0, 1.0)] * LATELY)
    assert late(clock, after=1.2 * AFTER) == pytest.approx(0.2 * AFTER)
    lately(clock, *[(1.0, 1.2)] * LATELY)
    clock.lay([])
    assert late(clock, after=1.2 * AFTER) == pytest.approx(0.2 * AFTER)


def test_a_batch_is_watched_from_the_start_until_others_of_its_length_told_how_long_it_takes(clock):
    side = clock.sides["ours"]
    assert side.asleep(2) == 0
    side.runs.extend([(2, 0.010), (2, 0.006)])
    assert side.asleep(2) == pytest.approx(0.6 * 0.006) and side.asleep(3) == 0
    side.runs.append((2, 0.0001))
    assert side.asleep(2) == 0, "too short to sleep"


def test_as_much_is_read_of_the_baseline_wherever_its_results_lie(clock):
    plan = clock.plan
    at = plan.first_result + (1 << 20)
    clock.lay([[at], [at + plan.outputs[0].bytes]])
    theirs = clock.sides["theirs"].results
    assert clock.sides["ours"].results[0] == [at] and len(theirs) == 2 and plan.valid(theirs)
