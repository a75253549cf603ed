"""A text that may never end gets a low priority after it has used its CPU time, and not because the machine is busy."""

import os
import subprocess
import sys
import time

import pytest

from engine.sandbox.patience import NICE, Patience, cpu_seconds


@pytest.fixture
def started():
    processes = []

    def start(code: str) -> int:
        processes.append(subprocess.Popen([sys.executable, "-c", code]))
        return processes[-1].pid

    yield start
    for process in processes:
        process.kill()
        process.wait()


def priority(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_a_process_that_computes_gets_a_low_priority_after_its_cpu_seconds(started):
    pid = started("while True: pass")
    patience = Patience(pid, None, 0.3)
    patience.look()
    assert priority(pid) == 0
    end = time.monotonic() + 30
    while priority(pid) == 0 and time.monotonic() < end:
        time.sleep(0.05)
        patience.look()
    assert priority(pid) == NICE and cpu_seconds(pid) >= 0.3


def test_a_process_that_waits_keeps_its_priority(started):
    pid = started("import time; time.sleep(60)")
    patience = Patience(pid, None, 0.3)
    for _ in range(10):
        time.sleep(0.1)
        patience.look()
    assert priority(pid) == 0
