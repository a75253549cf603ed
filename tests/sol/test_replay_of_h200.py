"""What a stop rule would have saved of searches that an H200 really ran, each of 24 trials with no rule at all."""

from pathlib import Path

from sol.budget import sweep
from sol.replay import best, load

RESULTS = Path(__file__).parents[2] / "engine" / "results"
FILES = sorted(map(str, RESULTS.glob("bench-f16-*.json")))


def test_at_least_twenty_searches_ran_to_the_end_of_a_generous_budget():
    sessions = load(FILES)
    assert len(sessions) >= 20
    assert all(len(s.trials) >= 24 for s in sessions)


def test_a_policy_saves_43_percent_of_the_trials_and_keeps_96_percent_of_the_speedup():
    grid, _ = sweep(load(FILES))
    policy = best(grid, keep=0.96)
    assert policy.cost_saved >= 0.43 and policy.speedup_kept >= 0.96
