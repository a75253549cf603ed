"""Trials over many problems: to whom the next one goes, and what that would have saved in recorded sessions."""

from hypothesis import given
from hypothesis import strategies as st

from sol.budget import Recorded, Trial
from sol.schedule import Progress, expected_saving, in_turn, next_turn, simulate


def test_the_largest_gap_in_milliseconds_goes_first():
    small = Progress("small", 0.01, 0.1)  # ten times its limit, but a tenth of a millisecond
    large = Progress("large", 2.0, 4.0)
    assert next_turn([small, large]).name == "large"
    assert "2.00 times its limit" in next_turn([small, large]).why


def test_a_weight_counts_how_often_a_problem_runs():
    assert next_turn([Progress("often", 0.01, 0.1, weight=100), Progress("once", 2.0, 4.0)]).name == "often"


def test_a_problem_that_stalls_lets_another_pass():
    stalled = Progress("stalled", 1.0, 3.0, (2.0, *[2.0] * 5))
    fresh = Progress("fresh", 1.0, 1.5)
    assert next_turn([stalled, fresh]).name == "fresh"
    moving = Progress("moving", 1.0, 3.0, (2.5, 2.2, 1.8, 1.7))
    assert next_turn([moving, fresh]).name == "moving"


def test_whoever_is_near_its_limit_or_out_of_budget_gets_nothing():
    near = Progress("near", 1.0, 2.0, (1.1,))
    spent = Progress("spent", 1.0, 9.0, (8.0,) * 12)
    assert next_turn([near, spent], eps=0.25) is None
    assert next_turn([near, spent], eps=0.05).name == "near"


@given(st.lists(st.one_of(st.none(), st.floats(1.0, 9.0)), max_size=30), st.floats(0.5, 1.0), st.floats(1.0, 10.0))
def test_no_trial_is_expected_to_save_more_than_there_is(times, limit, baseline):
    p = Progress("x", limit, baseline, tuple(times))
    now = min(t for t in [*times, baseline] if t is not None)
    assert 0 <= expected_saving(p) <= max(0, now - limit) + 1e-9


SESSIONS = [
    Recorded("hopeless", tuple(Trial(5.0) for _ in range(10)), 1.0, 1.2),
    Recorded("rich", tuple(Trial(9.0 - i) for i in range(8)), 1.0, 10.0),
]


def test_the_scheduler_reaches_more_than_dealing_in_turn_with_the_same_trials():
    ours, dealt = simulate(SESSIONS, 8), in_turn(SESSIONS, 8)
    assert ours[0] == dealt[0] and ours[-1].total_ms < dealt[-1].total_ms - 2
    totals = [s.total_ms for s in ours]
    assert totals == sorted(totals, reverse=True)


def test_with_trials_to_spare_both_end_at_the_same_place():
    assert simulate(SESSIONS, 99, eps=0.0, window=0)[-1].total_ms == in_turn(SESSIONS, 99)[-1].total_ms
    assert in_turn(SESSIONS, 99)[-1].trials == 18
