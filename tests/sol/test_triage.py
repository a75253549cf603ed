"""Return on investment: bold far from the limit, safe near it, and taught by what came of earlier tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sol.triage import Hypothesis, Memory, Outcome, roi, summary, triage

BOLD, SAFE = Hypothesis("split_k", "split K", 3.0), Hypothesis("fuse_tail", "fuse the tail", 1.5)


def memory(*outcomes):
    return Memory([Outcome(*o) for o in outcomes])


def test_the_formula():
    assert roi(2.0, 5.0) == 2.0
    assert roi(2.0, 50.0) == 2.0**2
    assert roi(2.0, 500.0) == pytest.approx(2.0**3)
    assert roi(2.0, 1.1, implementation=2, performance=4) == 0.25


@given(st.floats(1, 20), st.floats(1, 1000), st.floats(1, 10))
def test_more_speedup_pays_more_and_more_risk_less(speedup, gap, risk):
    assert roi(speedup * 1.1, gap) > roi(speedup, gap) >= roi(speedup, gap, risk)


@pytest.mark.parametrize("bad", [(0, 2), (2, 0), (2, 2, 0.5), (2, 2, 1, 0)])
def test_what_cannot_be_is_refused(bad):
    with pytest.raises(ValueError, match=r"above 0, risks"):
        roi(*bad)


def test_far_from_the_limit_the_bold_move_wins_and_near_it_the_safe_one():
    hard = memory(*[("split_k", 3.0, 3.0)] * 3, *[("split_k", 3.0, None)] * 12, *[("fuse_tail", 1.5, 1.5)] * 12)
    far, near = triage([SAFE, BOLD], 500, hard), triage([SAFE, BOLD], 1.2, hard)
    assert far[0].hypothesis is BOLD and near[0].hypothesis is SAFE


def test_an_action_that_never_ran_falls_behind_one_that_did():
    taught = memory(*[("split_k", 3.0, None)] * 20, *[("fuse_tail", 1.5, 1.5)] * 20)
    first, second = triage([BOLD, SAFE], 2, taught)
    assert first.hypothesis is SAFE and second.implementation > 5
    assert "(earlier trials: 0 of 20 ran)" in second.why


def test_a_promise_that_is_never_kept_is_discounted():
    taught = memory(*[("split_k", 3.0, 1.05)] * 20)
    assert taught.gain_share("split_k") < 0.15
    assert 1.0 < taught.expected("split_k", 3.0) < 1.2
    assert taught.performance_risk("split_k", 3.0) > 2.5


def test_an_unknown_action_is_trusted_by_half():
    (one,) = triage([SAFE], 2)
    assert one.expected == pytest.approx(1.5**0.5) and "not tried before" in one.why
    assert one.implementation == pytest.approx(4 / 3)


def test_memory_survives_the_disk():
    store = memory(("split_k", 3.0, None, "large K", "tf32"), ("fuse_tail", 1.5, 1.4))
    assert Memory.from_lines(store.to_lines()).outcomes == store.outcomes


@pytest.mark.parametrize("line", ["{", "[]", '{"action": "x"}', '{"action": "x", "predicted": 0, "observed": 1}'])
def test_a_line_that_is_no_outcome_is_named(line):
    with pytest.raises(ValueError, match=r"memory, line 2: not an outcome"):
        Memory.from_lines("\n" + line)


def test_the_summary_sets_predicted_beside_observed():
    rows = summary(memory(("split_k", 3.0, None), ("split_k", 2.0, 1.0), ("fuse_tail", 1.5, 1.5)))
    assert rows[0] == {"action": "split_k", "tries": 2, "ran": 1, "predicted": 2.5, "observed": 1.0, "kept": 0.333}
    assert rows[1]["action"] == "fuse_tail"


def test_of_an_action_whose_price_was_fitted_anew_outcomes_say_that_it_runs_and_not_what_it_brings():
    burnt = [Outcome("rows", 2.0, 0.7), Outcome("rows, guarded", 1.5, 0.8), Outcome("casts", 2.0, 0.7)] * 4
    before, after = Memory(list(burnt)), Memory(list(burnt), fitted=("rows",))
    assert before.expected("rows, half", 2.0) < 2 and after.expected("rows, half", 2.0) == pytest.approx(2.0)
    assert after.expected("casts", 2.0) == before.expected("casts", 2.0) < 1
    assert after.implementation_risk("rows, half") < before.implementation_risk("rows, half") == pytest.approx(4 / 3)
    failed = Memory([Outcome("rows", 2.0, None)] * 8, fitted=("rows",))
    assert failed.implementation_risk("rows, half") > 2
