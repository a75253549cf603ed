"""The stream is held before a timed call for as long as its launches need, not for as long as they once needed."""

from engine.evaluate.timing.samples import CYCLES_A_SECOND, HOLD_CYCLES, LONGEST_HOLD, MARGIN, next_hold


def test_a_call_of_few_launches_keeps_the_shortest_hold():
    assert next_hold(HOLD_CYCLES, 20e-6) == HOLD_CYCLES


def test_after_one_call_on_a_busy_host_the_hold_is_short_again():
    assert next_hold(4 * HOLD_CYCLES, 60e-6) == HOLD_CYCLES


def test_a_call_of_many_launches_keeps_a_hold_that_is_long_enough():
    longer = next_hold(LONGEST_HOLD, 1e-3)
    assert longer == MARGIN * 1e-3 * CYCLES_A_SECOND > 1e-3 * CYCLES_A_SECOND
    assert next_hold(longer, 1e-3) == longer, "and the same the next time"


def test_a_hold_that_was_long_enough_is_never_made_longer():
    assert next_hold(2 * HOLD_CYCLES, 1.0) == 2 * HOLD_CYCLES
