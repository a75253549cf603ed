"""A session of which nothing runs until its owner or an agent says something tells its engine so, and asks for room
before it goes on."""

import time

from engine.session import events
from engine.strategies.api import Receive, Try
from tests.engine.session.scripted import Scripted, Searching, iter_of, of, tries


class Engine:
    """The owner's words and the engine's room. `words`: what the session was told or asked, in order."""

    def __init__(self, *spoken, refusals: int = 0):
        self.spoken, self.refusals, self.words = list(spoken), refusals, []

    def __call__(self):
        if not self.spoken or not self.spoken[0][0](self):
            return []
        return [self.spoken.pop(0)[1]]

    def rest(self):
        self.words.append("rest")

    def admitted(self):
        self.refusals -= 1
        self.words.append("refused" if self.refusals >= 0 else "admitted")
        return self.refusals < 0


def rested(times):
    return lambda engine: engine.words.count("rest") == times


MINE = ("try", {"program": "mine", "form": "kernel", "language": "cuda"})


def script_of_an_agent(problem):
    answer = yield Receive()
    yield Try(answer.candidate)
    return ""


def test_one_that_waits_for_an_agent_rests_and_goes_on_with_its_candidate():
    engine = Engine((rested(1), MINE), refusals=2)
    log = Searching(Scripted(script_of_an_agent, receives=True), control=engine).run()
    assert engine.words == ["rest", "refused", "refused", "admitted"]
    assert len(of(log, events.TrialProposed)) == 1


def test_one_that_is_paused_rests_until_it_is_resumed():
    engine = Engine((lambda _: True, ("pause", {})), (rested(1), ("resume", {})))
    log = Searching(Scripted(lambda problem: iter_of(*tries("bb", "cc"))), control=engine).run()
    assert engine.words == ["rest", "admitted"] and len(of(log, events.TrialProposed)) == 2


def test_one_that_works_does_not_rest():
    engine = Engine()
    Searching(Scripted(lambda problem: iter_of(*tries("bb", "cc"))), control=engine).run()
    assert engine.words == []


def test_it_says_that_it_waits_for_room(monkeypatch):
    monkeypatch.setattr("engine.session.script.lanes.WORTH_SAYING", 0.0)
    engine = Engine((lambda _: True, ("pause", {})), (rested(1), ("resume", {})), refusals=3)
    log = Searching(Scripted(lambda problem: iter_of(*tries("bb"))), control=engine).run()
    texts = [e.text for e in of(log, events.Progress) if "room in the engine" in e.text]
    assert texts[0] == "Waiting for room in the engine" and texts[1].endswith("working again")


def test_a_stop_ends_the_wait_for_room():
    engine = Engine((lambda _: True, ("pause", {})), (rested(1), ("resume", {})), refusals=10**9)
    engine.spoken.append((lambda e: "refused" in e.words, ("stop", {})))
    began = time.monotonic()
    searching = Searching(Scripted(lambda problem: iter_of(*tries("bb"))), control=engine)
    try:
        searching.run()
    except Exception as e:
        assert type(e).__name__ == "Stopped"
    assert time.monotonic() - began < 30 and not of(searching.journal.log, events.TrialProposed)
