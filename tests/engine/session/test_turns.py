"""Turns: what a model or a profiler answers is logged, and never asked again."""

import json
import threading
import time

import pytest
from pydantic import BaseModel

from engine.executors.local import Local
from engine.session import events
from engine.session.script import saying, turns
from engine.session.script.steps import Stopped
from engine.strategies.api import Ask, Candidate, Profile, Reply, Together, Try
from tests.engine.counting import PROGRAM
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
    def handler(verb, turn):
        assert (verb.role, turn.path) == ("plan", "1")
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

    def handler(verb, turn):
        calls.append(turn.path)
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


def test_the_text_of_a_second_attempt_has_its_own_pieces(monkeypatch):
    monkeypatch.setattr(saying, "EVERY", 0.0)

    def handler(verb, turn):
        for word in ("one", "two"):
            turn.say(f"{word} {turn.attempt} ")
            until = time.monotonic() + 60
            while turn.say.__self__._parts and time.monotonic() < until:  # until it is logged
                time.sleep(0.001)
        return Reply('{"tile": 64}')

    log, searching = play(ask, handlers={"ask": handler})
    pieces = of(log, events.Said)
    assert [(e.number, e.text) for e in pieces] == [(1, "one 1 "), (2, "two 1 ")]
    again, _ = resumed(ask, searching, log.index(pieces[0]) + 1, handlers={"ask": handler})
    assert "".join(e.text for e in of(again, events.Said)) == "one 1 one 2 two 2 "
    assert [(e.attempt, e.number) for e in of(again, events.Said)][:2] == [(1, 1), (2, 1)]


def test_turns_of_together_wait_for_their_models_at_once():
    barrier = threading.Barrier(3, timeout=60)

    def handler(verb, turn):
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

    def handler(verb, turn):
        begun.set()
        while not turn.cancelled():
            time.sleep(0.001)
        return Reply("too late")

    def control():
        return [("stop", {})] if begun.is_set() else []

    with pytest.raises(Stopped):
        play(lambda problem: iter_of(Ask("r", "p")), handlers={"ask": handler}, control=control)
    asked = events.Asked("1", "d", "ask")
    assert turns.stopped(asked).refusal == "stopped"


# ---- a profile ----


def test_without_a_profiler_a_profile_is_the_compiler_s_and_the_model_s_and_says_so():
    answers = []

    def script(problem):
        yield Try(Candidate(PROGRAM, "f16", "cute"))
        answers.append((yield Profile(1)))
        yield Try(kernel("a fail"))
        answers.append((yield Profile(2)))
        answers.append((yield Profile(9)))
        return ""

    play(script)
    right, wrong, absent = answers
    facts = json.loads(right.text)
    assert facts["source"].startswith("no profiler") and facts["limit_ms"] == 0.01 and facts["kind"] == "predicted"
    assert facts["stages"][0]["bound_by"] and facts["stages"][0]["ms"] > 0
    assert (wrong.refusal, absent.refusal) == ("no_profiler", "no_profiler") and "Trial 2 has no time" in wrong.reason


@pytest.mark.parametrize(
    ("reply", "text"),
    [(Reply("memory 91% of peak"), "memory 91%"), (Reply(refusal="no_profiler", reason="closed"), '"trial": 1')],
)
def test_a_scripts_profile_takes_the_place_of_the_gpu_and_is_described_where_it_counts_nothing(reply, text):
    answers = []

    def script(problem):
        yield Try(Candidate(PROGRAM, "f16", "cute"))
        answers.append((yield Profile(1)))
        return ""

    def profiler(*_):
        time.sleep(0.02)
        return reply

    _, searching = play(script, handlers={"profile": profiler})
    assert text in answers[0].text and not answers[0].refusal
    assert searching.lanes.spent.seconds()["profile"] >= 0.015, (
        "it is no turn of a model, which may run beside a timing"
    )


class Phased:
    """A profiler in phases. `refused`: the phase that ends it; `hangs`: the one that waits for a stop."""

    def __init__(self, refused="", hangs=""):
        self.refused, self.hangs, self.steps, self.places = refused, hangs, [], []

    def phases(self, verb, turn):
        self.turn = turn
        return self

    def _step(self, name):
        self.steps.append(name)
        while self.hangs == name and not self.turn.cancelled():
            time.sleep(0.001)
        return Reply(refusal="no_profiler", reason=f"could not {name}") if self.refused == name else None

    def prepare(self):
        return self._step("prepare")

    def count(self):
        return self._step("count")

    def reply(self):
        return self._step("reply") or Reply("memory 91% of peak")

    def close(self):
        self.steps.append("close")


class Placed(Local):
    """An executor that notes the places."""

    def __init__(self):
        super().__init__(2)
        self.places = []

    def turn(self, place, share):
        self.places.append(place)
        return super().turn(place, share)


def one_profile(handler, times=1, **more):
    answers = []

    def script(problem):
        yield Try(Candidate(PROGRAM, "f16", "cute"))
        for _ in range(times):
            answers.append((yield Profile(1)))
        return ""

    log, searching = play(script, handlers={"profile": handler}, **more)
    return answers, log, searching


def test_a_profile_prepares_on_a_core_and_has_the_gpu_only_while_it_counts():
    device, executor, handler = KernelDevice(1), Placed(), Phased()
    device.place = "gpu0"
    (answer,), _, _ = one_profile(handler, device=device, executor=executor)
    assert answer.text == "memory 91% of peak" and handler.steps == ["prepare", "count", "reply", "close"]
    assert executor.places[-3:] == ["core", "gpu0", "think"]


@pytest.mark.parametrize(
    ("refused", "steps"),
    [("prepare", ["prepare", "close"]), ("count", ["prepare", "count", "close"])],
)
def test_a_profile_that_fails_in_a_phase_is_described_and_says_why(refused, steps):
    handler = Phased(refused)
    (answer,), _, _ = one_profile(handler)
    facts = json.loads(answer.text)
    assert handler.steps == steps and facts["why"] == f"could not {refused}" and facts["trial"] == 1


@pytest.mark.parametrize("hangs", ["prepare", "count"])
def test_a_stop_ends_a_profile_in_each_phase(hangs):
    handler = Phased(hangs=hangs)
    with pytest.raises(Stopped):
        one_profile(handler, control=lambda: [("stop", {})] if hangs in handler.steps else [])
    assert handler.steps[-1] == "close"


def test_a_program_whose_profile_the_log_has_is_not_profiled_again():
    handler = Phased()
    answers, _, _ = one_profile(handler, times=2)
    assert handler.steps.count("count") == 1 and answers[0].text == answers[1].text
    failing = Phased("count")
    one_profile(failing, times=2)
    assert failing.steps.count("count") == 2
