"""The host's time of a call is taken beside each sample of a short call, and of a long one a few times."""

import pytest

from engine.evaluate.timing.samples import LONG_CALLS, LONG_MS, CallTimes


@pytest.mark.parametrize(("ms", "most"), [(0.9 * LONG_MS, 15), (1.1 * LONG_MS, LONG_CALLS)])
def test_a_long_call_is_not_made_twice_for_each_sample(ms, most):
    host = iter(range(1, 100))
    calls = CallTimes()
    times = [calls.beside(ms, lambda: float(next(host))) for _ in range(15)]
    assert next(host) == most + 1
    assert times[:LONG_CALLS] == [1.0, 2.0, 3.0, 4.0]


def test_later_samples_have_the_median_of_the_first():
    host = iter([3.0, 1.0, 2.0, 50.0])
    calls = CallTimes()
    times = [calls.beside(2 * LONG_MS, lambda: next(host)) for _ in range(6)]
    assert times[4:] == [2.5, 2.5]
