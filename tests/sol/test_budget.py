"""Gap, score, stop rules, and replay of a finished session under other rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sol.budget import KINDS, STUDY, Recorded, Trial, charged, gap, policy, replay, score, should_stop, sweep

ms = st.floats(0.01, 100)


def test_gap_is_time_over_limit():
    assert gap(0.36, 0.30) == pytest.approx(1.2)
    assert gap(0.1, 0) == float("inf") and gap(0, 0) == 1


def test_score_is_half_at_the_baseline_and_one_at_the_limit():
    assert score(0.4, 0.3, 0.4) == 0.5
    assert score(0.3, 0.3, 0.4) == 1.0
    assert score(0.2, 0.3, 0.4) == 1.0
    assert score(0.3, 0.3, 0.2) == 1.0 and score(0.31, 0.3, 0.3) == 0.0


@given(ms, ms, ms, st.floats(1.01, 3))
def test_a_faster_time_never_scores_less(t, limit, base, factor):
    assert 0 <= score(t * factor, limit, base) <= score(t, limit, base) <= 1


def test_near_the_limit_stops_and_says_how_near():
    assert str(should_stop(0.30, 0.40, 0.278, 0, 0.10, 12)) == "within 10% of the limit: 0.3 ms against 0.278 ms"
    assert should_stop(0.31, 0.40, 0.278, 0, 0.10, 12) is None


def test_a_stall_stops_after_the_window():
    assert should_stop(0.35, 0.40, 0.278, 11, 0.1, 12) is None
    assert "12 trials in a row" in str(should_stop(0.35, 0.40, 0.278, 12, 0.1, 12))
    assert str(should_stop(0.35, 0.40, 0.278, 1, 0.1, 1)).startswith("1 trial in a row")
    assert should_stop(0.35, 0.40, 0.278, 99, 0.1, 0) is None


@given(st.floats(0.4, 10), st.integers(0, 1000), st.floats(0, 5), st.integers(1, 20))
def test_nothing_stops_before_the_baseline_is_beaten(best, since, eps, window):
    assert should_stop(best, 0.40, 0.278, since, eps, window) is None
    assert should_stop(None, 0.40, 0.278, since, eps, window) is None


SESSION = Recorded(
    "scale_leaky",
    tuple(Trial(t) for t in (0.50, None, 0.36, 0.35, 0.37, 0.36, 0.36, 0.34, 0.33)),
    t_sol_ms=0.30,
    baseline_ms=0.40,
)


def test_replay_cuts_where_the_rules_would_have():
    near = replay(SESSION, eps=0.2, window=0)
    assert (near.trials_run, near.trials_saved) == (3, 6)
    assert near.best_ms == 0.36 and "within 20%" in near.reason
    stalled = replay(SESSION, eps=0.0, window=3)
    assert stalled.trials_run == 7 and "3 trials in a row" in stalled.reason
    full = replay(SESSION, eps=0.0, window=0)
    assert full.trials_saved == 0 and full.speedup_kept == 1 and full.efficiency == 1
    assert full.reason == "the budget was used up"


def test_replay_weighs_speedup_kept_against_cost():
    near = replay(SESSION, eps=0.2, window=0)
    assert near.speedup == pytest.approx(0.40 / 0.36)
    assert near.speedup_kept == pytest.approx(0.33 / 0.36)
    assert near.efficiency == pytest.approx((0.33 / 0.36) * (9 / 3))
    assert near.cost_saved == pytest.approx(6 / 9)


def test_a_session_that_never_beat_the_baseline_keeps_a_speedup_of_one():
    hopeless = Recorded("x", (Trial(0.5), Trial(None)), 0.3, 0.4)
    r = replay(hopeless, 0.25, 1)
    assert (r.trials_run, r.speedup, r.speedup_kept) == (2, 1.0, 1.0)


@given(st.lists(st.one_of(st.none(), ms), min_size=1, max_size=40), st.floats(0, 2), st.integers(0, 10))
def test_a_policy_never_gains_speedup_nor_runs_more(times, eps, window):
    r = replay(Recorded("x", tuple(Trial(t) for t in times), 1.0, 10.0), eps, window)
    assert 0 < r.speedup_kept <= 1 + 1e-12
    assert 1 <= r.trials_run <= len(times)


def test_the_front_of_a_sweep_holds_no_policy_that_another_beats():
    grid, front = sweep([SESSION, SESSION])
    assert len(grid) == 96 and front
    savings = [p.cost_saved for p in front]
    assert savings == sorted(savings)
    assert [p.speedup_kept for p in front] == sorted((p.speedup_kept for p in front), reverse=True)
    assert policy([SESSION], 0.2, 0).trials_saved == pytest.approx(6 / 9)


def test_replay_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"at least one"):
        policy([], 0.1, 4)


SPENT = Recorded(
    "asked",
    tuple(
        Trial(ms, spent={"tokens": tokens, "seconds": 1.0})
        for ms, tokens in ((0.36, 100), (0.35, 100), (None, 700), (0.34, 100))
    ),
    t_sol_ms=0.30,
    baseline_ms=0.40,
)


def test_a_replay_charges_what_was_recorded_beside_trials():
    near = replay(SPENT, eps=0.17, window=0)
    assert near.trials_run == 2 and dict(near.saved) == pytest.approx({"tokens": 0.8, "seconds": 0.5})
    assert near.cost_saved == 0.5
    (tokens,) = charged([SPENT], "tokens")
    assert replay(tokens, eps=0.17, window=0).cost_saved == pytest.approx(0.8)
    assert charged([tokens], "trials")[0] == SPENT
    with pytest.raises(ValueError, match="no session recorded money"):
        charged([SPENT], "money")
    assert set(near.saved) < set(KINDS)


def test_the_grid_reaches_300_percent_and_holds_the_best_policy_of_the_study():
    grid, _ = sweep([SPENT])
    assert max(p.eps for p in grid) == 3.0 and STUDY in {(p.eps, p.window) for p in grid}
