"""A measurement that something disturbed is seen, and taken again."""

import random

import pytest

from engine.evaluate.integrity import trial
from engine.evaluate.timing import steadiness
from engine.evaluate.timing.steadiness import TIMES, steady, unrest

CALM = [1.0 + 0.004 * (i % 3) for i in range(15)]


def test_what_a_quiet_gpu_gives_is_steady():
    rng = random.Random(0)
    for ms in (0.02, 0.1, 1.0, 20.0):
        assert unrest([ms * rng.gauss(1.0, 0.004) for _ in range(15)]) == ""


def test_one_slow_call_among_many_is_no_disturbance():
    assert unrest([*CALM[:7], 4.0, *CALM[7:]]) == ""


def test_microseconds_of_a_short_call_are_no_disturbance():
    assert unrest([0.0200, 0.0212, 0.0205, 0.0211] * 4) == ""


@pytest.mark.parametrize(
    "sample, words",
    [([*CALM[:8], *(1.03 * ms for ms in CALM[8:])], "moved by 3%"), ([1.0, 1.2, 1.0, 1.3, 1.1] * 3, "spans")],
)
def test_a_clock_that_moved_and_a_neighbour_that_ran_are_seen_on_either_side(sample, words):
    assert words in unrest(CALM, sample) and words in unrest(sample, CALM)


def test_a_disturbed_measurement_is_taken_again_and_the_reader_is_told():
    rounds = iter([[1.0, 1.3] * 8, CALM])
    measured, about = steady(lambda: next(rounds), lambda sample: (sample,))
    assert measured == CALM and len(about["unsteady"]) == 1 and not about["disturbed"]
    (line,) = trial.steadiness(about)
    assert line["verdict"] == trial.PASSED and line["said"].startswith("1 measurement before this one was disturbed: ")


def test_of_one_that_nothing_disturbed_nothing_is_said():
    assert steady(lambda: CALM, lambda sample: (sample,)) == (CALM, {})
    assert trial.steadiness({}) == []


def test_one_that_never_is_steady_ends_and_says_so():
    measurements = []

    def take():
        measurements.append(1)
        return [1.0, 1.3] * 8

    _, about = steady(take, lambda sample: (sample,))
    assert len(measurements) == len(about["unsteady"]) == TIMES
    assert "taken 3 times, and disturbed each time" in trial.steadiness(about)[0]["said"]


def test_a_long_one_is_not_taken_again(monkeypatch):
    monkeypatch.setattr(steadiness, "LONG", 0.0)
    _, about = steady(lambda: [1.0, 1.3] * 8, lambda sample: (sample,))
    (line,) = trial.steadiness(about)
    assert line["verdict"] == trial.UNSEEN and line["said"].startswith("taken once, and disturbed: ")
