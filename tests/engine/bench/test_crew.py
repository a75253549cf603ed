"""Whoever waits for threads of a bench sees an interrupt at once, and can wait for the rest afterwards."""

import signal
import threading
import time

import pytest

from engine.bench.run.crew import Crew


@pytest.fixture
def interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_another_thread_was_handed_ends_the_wait_and_the_next_one_waits_for_the_rest(interrupts):
    go_on, ended = threading.Event(), []

    def work():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # as the kernel may choose this thread
        go_on.wait(60)
        time.sleep(0.1)
        ended.append(1)

    crew = Crew()
    with pytest.raises(KeyboardInterrupt):
        crew.start(work)
        crew.wait()
    assert not ended
    go_on.set()
    crew.wait()
    assert ended == [1]


def test_what_a_thread_raises_is_reported_before_the_wait_ends(monkeypatch):
    raised = []

    def hook(args):
        time.sleep(0.2)  # a slow report, which the wait includes
        raised.append((args.thread.name, args.exc_value))

    monkeypatch.setattr(threading, "excepthook", hook)
    crew = Crew()
    crew.start(lambda: 1 / 0, name="one")
    crew.wait()
    ((name, error),) = raised
    assert name == "one" and isinstance(error, ZeroDivisionError)
