"""A step is in the log once; the owner's words count from the log and from now on, and a foolish budget does not."""

import threading

import pytest

from engine.session import events
from engine.session.journal import Journal
from engine.session.owner import Owner
from engine.session.script.lanes import Lanes
from engine.session.script.steps import Stopped
from tests.engine.counting import spec

CHECKED = events.TrialChecked(1, "a" * 64, 0.1)


def journal(*past, blobs=None):
    return Journal(past, (blobs or {}).__getitem__, lambda: 5.0)


def owner(*words, log=None):
    queue = list(words)
    return Owner(spec(trials=4), log or journal(), lambda: [queue.pop(0)] if queue else [])


def test_a_step_is_emitted_once_with_its_texts():
    log = journal()
    (emitted,) = log.emit(CHECKED, "program p")
    assert emitted.event is CHECKED and emitted.t == 5.0 and list(emitted.blobs.values()) == ["program p"]
    assert log.blob(events.blob_name("program p")) == "program p"
    assert list(log.emit(events.TrialChecked(1, "b" * 64, 0.2))) == []  # the same step of the same trial
    assert list(log.emit(events.TrialChecked(2, "b" * 64, 0.2)))


def test_what_a_lost_engine_logged_is_not_said_again():
    log = journal(CHECKED, blobs={"a" * 64: "its text"})
    assert log.past(events.TrialChecked, 1) is CHECKED and log.past(events.TrialChecked, 2) is None
    assert list(log.emit(CHECKED)) == [] and log.blob("a" * 64) == "its text"
    assert list(log.emit(events.Resumed("again"))) and list(log.emit(events.Resumed("again")))


def test_a_budget_keeps_what_a_spec_would_take_and_logs_that():
    person = owner(("budget", {"trials": 9, "eps": -1, "colour": "red"}))
    (emitted,) = person.hear()
    assert emitted.event.data == {"trials": 9} and person.budget["trials"] == 9 and person.budget["eps"] == 0.0


def test_words_in_the_log_count():
    person = owner(log=journal(events.Controlled("pause"), events.Controlled("budget", {"trials": 2})))
    assert person.paused and person.budget["trials"] == 2
    with pytest.raises(Stopped):
        list(Lanes(owner(log=journal(events.Controlled("stop")))).run())


def test_a_stop_is_heard_while_something_blocks_and_its_answer_is_dropped():
    release = threading.Event()

    def word():
        release.set()
        return [("stop", {})]

    person = Owner(spec(), journal(), word)
    with pytest.raises(Stopped):
        list(Lanes(person).call(lambda: release.wait(10)))


def test_closing_runs_the_last_thing_in_the_thread_of_all_others():
    lanes, threads = Lanes(owner()), []
    list(lanes.call(lambda: threads.append(threading.current_thread())))
    lanes.close(lambda: threads.append(threading.current_thread()))
    assert lanes.owner.stopped and threads[0] is threads[1]
