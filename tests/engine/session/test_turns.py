"""Turns: what a model or a profiler answers is logged, and never asked again."""

import threading
import time

import pytest
from pydantic import BaseModel

from engine.session import events
from engine.session.script import turns
from engine.session.script.steps import Stopped
from engine.strategies.api import Ask, Profile, Reply, Together, Try
from tests.engine.session.scripted import KernelDevice, iter_of, kernel, of, play, resumed


class Plan(BaseModel):
    tile: int


def ask(problem):
    reply = yield Ask("plan", "Which tile?", Plan)
    yield Try(kernel(f"tile {reply.value.tile if reply.value else reply.refusal}"))
    return ""


def test_without_a_model_a_turn_is_refused_in_words():
    log, _ = play(ask)
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "no_model" and "no model" in answered.reason and not of(log, events.Asked)
    profiled, _ = play(lambda problem: iter_of(Profile(1)))
    assert of(profiled, events.Answered)[0].refusal == "no_profiler"


def test_a_turn_is_logged_with_its_prompt_and_its_reply():
    def handler(verb, path, cancelled):
        assert (verb.role, path) == ("plan", "1")
        return Reply('{"tile": 64}', model="m", tokens={"in": 5, "out": 3}, cost=0.01, seconds=0.5, finish="stop")

    log, searching = play(ask, handlers={"ask": handler})
    (asked,), (answered,) = of(log, events.Asked), of(log, events.Answered)
    assert searching.blobs[asked.prompt] == "Which tile?" and (asked.role, asked.attempt) == ("plan", 1)
    assert searching.blobs[answered.text] == '{"tile": 64}' and answered.tokens == {"in": 5, "out": 3}
    assert (asked.path, asked.digest) == (answered.path, answered.digest)
    assert "tile 64" in searching.blobs.values()


def test_a_reply_that_fits_no_schema_says_what_is_wrong():
    log, _ = play(ask, handlers={"ask": lambda *_: Reply('{"tile": "big"}')})
    (answered,) = of(log, events.Answered)
    assert answered.refusal == "schema" and answered.reason.startswith("tile: ")


def test_a_turn_that_breaks_off_is_an_answer():
    def handler(*_):
        raise OSError("the line was cut")

    log, _ = play(ask, handlers={"ask": handler})
    assert of(log, events.Answered)[0].refusal == "broken" and "the line was cut" in of(log, events.Answered)[0].reason
    assert len(of(log, events.TrialProposed)) == 1


def test_an_answered_turn_is_never_asked_again_and_one_under_way_once_more():
    calls = []

    def handler(verb, path, cancelled):
        calls.append(path)
        return Reply('{"tile": 64}')

    log, searching = play(ask, handlers={"ask": handler})
    place = log.index(of(log, events.Answered)[0])
    for cut in range(place + 1, len(log) + 1):
        resumed(ask, searching, cut, handlers={"ask": handler})
    assert calls == ["1"]
    again, second = resumed(ask, searching, place, handlers={"ask": handler})
    assert calls == ["1", "1"] and [e.attempt for e in of(again, events.Asked)] == [1, 2]
    third, _ = resumed(ask, second, place + 1, handlers={"ask": handler})  # lost in the second attempt too
    assert calls == ["1", "1"] and of(third, events.Answered)[0].refusal == "lost"


def test_turns_of_together_wait_for_their_models_at_once():
    barrier = threading.Barrier(3, timeout=10)

    def handler(verb, path, cancelled):
        barrier.wait()
        return Reply(verb.prompt.upper())

    def script(problem):
        replies = yield Together(tuple(Ask("r", text) for text in "abc"))
        return " ".join(r.text for r in replies)

    _, searching = play(script, KernelDevice(1), handlers={"ask": handler})
    assert searching.reason == "A B C"


def test_a_stop_ends_each_open_turn_and_trial():
    """The frame of the session logs the ends; here the search lets go."""
    begun = threading.Event()

    def handler(verb, path, cancelled):
        begun.set()
        while not cancelled():
            time.sleep(0.001)
        return Reply("too late")

    def control():
        return [("stop", {})] if begun.is_set() else []

    with pytest.raises(Stopped):
        play(lambda problem: iter_of(Ask("r", "p")), handlers={"ask": handler}, control=control)
    asked = events.Asked("1", "d", "ask")
    assert turns.stopped(asked).refusal == "stopped"
