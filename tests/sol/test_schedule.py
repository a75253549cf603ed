"""Trials over many problems: to whom the next one goes, and what that would have saved in recorded sessions."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sol import replay
from sol.budget import Recorded, Trial
from sol.schedule import Progress, expected_saving, in_turn, next_turn, simulate

RESULTS = Path(__file__).parents[2] / "engine/results"


def test_the_largest_gap_in_milliseconds_goes_first():
    small = Progress("small", 0.01, 0.1)  # ten times its limit, but a tenth of a millisecond
    large = Progress("large", 2.0, 4.0)
    assert next_turn([small, large]).name == "large"
    assert "2.00 times its limit" in next_turn([small, large]).why


def test_a_weight_counts_how_often_a_problem_runs():
    assert next_turn([Progress("often", 0.01, 0.1, weight=100), Progress("once", 2.0, 4.0)]).name == "often"


def test_a_problem_with_many_trials_lets_another_pass():
    fresh = Progress("fresh", 1.0, 1.5)
    for many, name in ((0, "worked on"), (1, "worked on"), (6, "fresh")):
        assert next_turn([Progress("worked on", 1.0, 3.0, (2.2,) * many), fresh]).name == name


def test_of_equals_each_gets_its_turn():
    runs = {"a": 0, "b": 0, "c": 0}
    for _ in range(9):
        runs[next_turn([Progress(name, 1.0, 2.0, (None,) * n) for name, n in runs.items()]).name] += 1
    assert runs == {"a": 3, "b": 3, "c": 3}


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


@pytest.mark.parametrize(
    ("bench", "behind"), [("suite59", 0.001), ("f16", 0.007), ("outside", 0.0), ("heldout", 0.032)]
)
def test_on_our_benches_it_saves_most_of_it_early_and_is_hardly_ever_behind(bench, behind):
    """The figures of sol.schedule's docstring, which chose its rule on suite59 alone."""
    sessions = replay.load([str(RESULTS / f"bench-{bench}-h200-2026-11-21.json")])
    trials = sum(len(s.trials) for s in sessions)
    ours, dealt = simulate(sessions, trials, eps=0.0, window=0), in_turn(sessions, trials)
    whole = dealt[0].total_ms - dealt[-1].total_ms
    late = [(ours[min(i, len(ours) - 1)].total_ms - dealt[i].total_ms) / whole for i in range(len(dealt))]
    assert max(late) <= behind + 1e-9
    assert sum(late) < 0 and late[len(late) * 15 // 100] < 0.001
