"""Builds stay off the cores of the lane, with a lower priority; what is timed may use all cores."""

import os
import subprocess
import sys
import threading

import pytest

from engine import cores

AFFINITY = "import os; print(sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0))"

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="affinity is Linux's")


@pytest.fixture
def few(monkeypatch):
    """A machine whose quiet cores are all but one, whatever it has."""
    here = os.sched_getaffinity(os.getpid())
    if len(here) < 2:
        pytest.skip("one core")
    monkeypatch.setattr(cores, "ENOUGH", 2)
    monkeypatch.setattr(cores, "QUIET", len(here) - 1)
    monkeypatch.setattr(cores, "_all", set())
    cores.reserve()
    return sorted(here)


def child() -> tuple[list[int], int]:
    out = subprocess.check_output([sys.executable, "-c", AFFINITY], text=True)
    affinity, _, nice = out.strip().rpartition(" ")
    return [int(c) for c in affinity.strip("[]").split(",")], int(nice)


def in_thread(work):
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_a_thread_that_builds_and_its_compilers_leave_the_quiet_cores_for_good(few):
    def builds():
        cores.stay_aside()
        return child()

    affinity, nice = in_thread(builds)
    assert affinity == few[-1:] and nice == cores.NICE
    assert child() == (few, os.getpriority(os.PRIO_PROCESS, 0))


def test_a_process_that_starts_aside_gets_all_cores_when_it_is_timed(few):
    def starts():
        with cores.aside():
            process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        return process, sorted(os.sched_getaffinity(0))

    process, back = in_thread(starts)
    try:
        assert back == few and sorted(os.sched_getaffinity(process.pid)) == few[-1:]
        cores.everywhere([process.pid])
        assert sorted(os.sched_getaffinity(process.pid)) == few
    finally:
        process.communicate(b"\n")


def test_nothing_moves_before_a_gpu_is_used(few, monkeypatch):
    monkeypatch.setattr(cores, "_all", set())

    def builds():
        cores.stay_aside()
        with cores.aside():
            return child()

    assert in_thread(builds)[0] == few
