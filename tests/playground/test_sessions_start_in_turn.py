"""On a GPU a few sessions start at a time; one that had a trial, or takes too long, lets the next one start."""

import threading
import time
from types import SimpleNamespace

import pytest

from playground import adapter
from playground.adapter import STARTING, STARTS_WITHIN, Adapter
from tests.playground import script


@pytest.fixture
def claims(monkeypatch):
    """`claims(serves)`: an engine with as many sessions as it claims at once, from an endless queue."""
    monkeypatch.setattr(adapter.log, "claim", lambda *words, **more: "a lease")

    def claims(serves: str) -> Adapter:
        engine = Adapter(script.run, serves=serves, about={}, memory=SimpleNamespace(fits_another=lambda *n: True))
        take(engine)
        return engine

    return claims


def take(engine: Adapter, most: int = 20) -> None:
    while len(engine.running) < most and engine._claim() is not None:
        thread = threading.Thread(target=time.sleep, args=(5.0,), daemon=True)
        thread.start()
        state = {"settled": False, "waits": False, "isolated": False, "began": time.monotonic()}
        engine.running[thread] = SimpleNamespace(**state)


def test_a_few_start_at_a_time_and_the_next_when_one_had_its_trial(claims):
    engine = claims("cuda")
    assert len(engine.running) == STARTING
    next(iter(engine.running.values())).settled = True
    take(engine)
    assert len(engine.running) == STARTING + 1


def test_one_that_never_gets_to_a_trial_does_not_hold_the_others_up(claims):
    engine = claims("cuda")
    for running in engine.running.values():
        running.began -= STARTS_WITHIN + 1
    take(engine)
    assert len(engine.running) == 2 * STARTING


def test_where_times_are_predicted_all_start_at_once(claims):
    assert len(claims("modelled:h200").running) == 20
