"""The figures of a comparison, from rows of sessions."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench.compare import filters, metrics
from tests.engine.bench.compare.rows import session, trial

ratios = st.lists(st.one_of(st.none(), st.floats(0.1, 20)), min_size=1, max_size=8)
sessions = st.lists(ratios.map(lambda r: session(*map(trial, r))), min_size=1, max_size=6)


def test_the_own_best_is_never_raised_to_pytorch_and_stands_beside_what_a_user_gets():
    rows = [session(trial(0.5), trial(None)), session(trial(4.0), trial(2.0)), session(trial(None))]
    s = metrics.summary(rows)
    assert (s["sessions"], s["unsolved"], s["slower"]) == (3, 1, 1)
    assert s["own_geomean"] == pytest.approx(2**0.5) and s["own_median"] == 2.25
    assert s["kept_geomean"] == pytest.approx(4 ** (1 / 3)) and s["kept_median"] == 1.0
    assert s["fast_p"] == {"1": 1 / 3, "1.5": 1 / 3, "2": 1 / 3, "3": 1 / 3}
    assert s["failures"] == {"validate": 2} and s["tokens"] == 10 and s["cost"] is None


def test_attempt_fast_p_is_reached_within_the_first_attempts():
    rows = [session(trial(1.0), trial(2.0)), session(trial(None), trial(None), trial(3.0)), session(trial(None))]
    assert metrics.attempt_fast_p(rows, 2.0, 4) == [0, 1 / 3, 2 / 3, 2 / 3]


@given(sessions, st.floats(0.5, 4), st.integers(1, 9))
def test_a_curve_of_attempts_never_falls_and_ends_at_the_share_that_reached_p(rows, p, most):
    curve = metrics.attempt_fast_p(rows, p, max(most, metrics.most_attempts(rows)))
    assert curve == sorted(curve)
    assert curve[-1] == sum((metrics.best(r) or 0) >= p for r in rows) / len(rows)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_signed_area_of_an_arm_against_itself_is_zero_and_changes_its_sign_with_the_sides(curve):
    other = [x / 2 for x in curve]
    assert metrics.signed_area(curve, curve) == 0
    assert metrics.signed_area(curve, other) == pytest.approx(-metrics.signed_area(other, curve))
    assert -1 <= metrics.signed_area(curve, other) <= 1


@given(sessions)
def test_more_spending_never_makes_an_arm_slower(rows):
    speeds = [v for _, v in metrics.by_spending(rows, "used")]
    assert all(b >= a - 1e-9 for a, b in pairwise(speeds))
    assert speeds[-1] == pytest.approx(metrics.summary(rows)["kept_geomean"])


def test_a_filter_is_worth_what_the_mean_would_be_too_high_without_it():
    rows = [
        session(trial(2.0), trial(8.0, bad=["limit"]), trial(32.0, bad=["limit", "precision"])),
        session(trial(2.0), trial(4.0, bad=["results"], would=True), trial(None, bad=["library_calls"])),
    ]
    worth = {line["off"]: line for line in filters.worth(rows)}
    assert worth["none"]["geomean"] == pytest.approx(2.0)
    assert worth["limit"]["factor"] == pytest.approx(2.0) and worth["limit"]["refused"] == 2
    assert worth["results"]["factor"] == pytest.approx(2**0.5) and worth["results"]["changed"] == 1
    assert worth["precision"]["factor"] == 1.0  # the same trial is refused by another filter too
    assert worth["library_calls"]["untimed"] == 1 and worth["library_calls"]["factor"] == 1.0
    assert worth["all"]["geomean"] == pytest.approx((32 * 4) ** 0.5) and worth["all"]["refused"] == 4


def test_the_spread_over_seeds_is_that_of_their_means():
    rows = [session(trial(2.0), seed=0), session(trial(4.0), seed=1)]
    s = metrics.summary(rows)
    assert s["by_seed"] == {"0": pytest.approx(2.0), "1": pytest.approx(4.0)} and s["deviation"] == pytest.approx(1.0)


def test_against_the_best_known_of_a_problem_arms_differ_in_how_soon_they_reach_it():
    rows = [
        session(trial(4.0), trial(4.0), arm="a"),
        session(trial(2.0), trial(3.9), arm="b"),
        session(trial(None), problem="q", arm="c"),
    ]
    near = metrics.against_the_best(rows)
    assert [t["ratio"] for t in near[1]["trials"]] == [0.5, pytest.approx(0.975)]
    assert metrics.areas(near, metrics.NEAR)["a"]["b"] == pytest.approx(0.5)
    assert rows[1]["trials"][0]["ratio"] == 2.0
