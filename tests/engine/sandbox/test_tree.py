"""The processes below one: those of now, or shared by all who may look at a reading of a moment ago."""

import os
import subprocess
import sys
import threading
import time

import pytest

from engine.sandbox import tree


@pytest.fixture
def readings(monkeypatch):
    """The times at which /proc was read."""
    times = []

    class Counted(tree._Table):
        def __init__(self):
            times.append(time.monotonic())
            time.sleep(0.05)
            super().__init__()

    monkeypatch.setattr(tree, "_Table", Counted)
    monkeypatch.setattr(tree, "_last", None)
    return times


def test_a_child_is_there_at_once_and_gone_when_it_ended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.pid in tree.descendants(os.getpid())
    child.communicate(b"\n")
    assert child.pid not in tree.descendants(os.getpid())


def test_many_who_look_at_once_share_one_reading(readings):
    threads = [threading.Thread(target=tree.descendants, args=(os.getpid(), None, 1.0)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(readings) == 1


def test_who_asks_for_now_gets_no_reading_from_before(readings):
    tree.descendants(os.getpid())
    tree.descendants(os.getpid())
    assert len(readings) == 2


def test_a_process_and_all_below_it_are_killed():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 20
    while len(tree.descendants(child.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    members = tree.kill(child.pid)
    child.wait(5)
    tree.wait(members, 5.0)
    assert len(members) == 2 and not any(tree.exists(pid) for pid in members)
