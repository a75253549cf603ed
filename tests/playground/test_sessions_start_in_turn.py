"""On a GPU a few sessions start at a time; one that had a trial, or takes too long, lets the next one start."""

import threading
import time
from types import SimpleNamespace

import pytest

from playground import adapter
from playground.adapter import STARTING, STARTS_WITHIN, Adapter
from playground.live.log import Lease
from playground.live.running import Running
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
        engine.running[thread] = Running(Lease("s", "e", 1), script.run, engine.serves, engine.mailbox)


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


def test_those_that_wait_for_their_owners_leave_room_for_others(claims):
    engine = claims("modelled:h200")
    engine.most = 20
    assert engine._claim() is None
    rests, *others = engine.running.values()
    rests.rests = True
    take(engine, most=21)
    assert len(engine.running) == 21
    assert not engine._admit(rests), "it goes on when there is room again"
    others[0].rests = True
    assert engine._admit(rests) and not rests.rests


def test_one_may_always_go_on(claims):
    engine = claims("modelled:h200")
    engine.memory = SimpleNamespace(fits_another=lambda *n: False)
    for running in engine.running.values():
        running.rests = True
    first, second, *_ = engine.running.values()
    assert engine._claim() is None, "what they hold leaves no room for a new one"
    assert engine._admit(first) and not engine._admit(second)
