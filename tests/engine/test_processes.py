"""The machine's processes are read for all who look at them together, and not without a pause."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine import processes


@pytest.fixture
def readings(monkeypatch):
    """The times at which this test read /proc; each reading takes 50 ms. Watchers that earlier tests of this process
    left behind may read it too."""
    times, watchers = [], set(threading.enumerate()) - {threading.current_thread()}

    class Counted(processes.Table):
        def __init__(self, kernel):
            if threading.current_thread() not in watchers:
                times.append(time.monotonic())
            super().__init__(kernel)
            time.sleep(0.05)
            self.took = 0.05

    monkeypatch.setattr(processes, "Table", Counted)
    monkeypatch.setattr(processes, "_last", None)
    return times


def test_this_process_is_there_with_its_parent_session_threads_and_memory():
    me = processes.table().processes[os.getpid()]
    assert (me.parent, me.session) == (os.getppid(), os.getsid(0))
    assert me.resident > 1 << 20 and me.threads == len(os.listdir("/proc/self/task"))


def test_a_session_counts_with_the_memory_of_all_its_processes():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 20
    while len(processes.table().children.get(child.pid, ())) < 1 and time.monotonic() < end:
        time.sleep(0.02)
    table = processes.table()
    members = [p.resident for p in table.processes.values() if p.pid == child.pid or p.parent == child.pid]
    assert len(members) == 2 and table.of_session(child.pid) == sum(members) > max(members)
    child.communicate(b"\n")


def test_processes_whose_leader_is_outside_of_the_container_belong_to_nobodys_session():
    table = processes.Table()
    table.processes = {2: processes.Process(2, 1, 0, 1, 5 << 30), 7: processes.Process(7, 2, 7, 1, 1 << 20)}
    assert (table.of_session(0), table.of_session(7)) == (0, 1 << 20)


def test_many_who_look_at_once_share_one_reading(readings):
    threads = [threading.Thread(target=processes.table, args=(1.0,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(readings) == 1


def test_who_asks_for_now_gets_no_reading_from_before(readings):
    processes.table()
    processes.table()
    assert len(readings) >= 2  # those who watch a sandbox of another test may read meanwhile


def test_who_looks_again_and_again_takes_a_tenth_of_the_time_at_most(readings):
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        processes.table(0.001)
        time.sleep(0.001)
    assert 2 <= len(readings) <= 1.0 / (processes.SHARE * 0.05) + 1


def test_the_kernels_own_threads_are_left_out():
    def name(pid):
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/comm").read_text().strip()

    assert "kthreadd" not in {name(pid) for pid in processes.table().processes}


def test_a_process_is_listed_whatever_the_id_of_its_parent_is():
    table = processes.Table()
    table.kernel.clear()
    table._add(77, b"77 (make) S 2 77 77 0 -1 4194304 " + b"0 " * 40)
    assert table.processes[77].parent == 2 and 77 not in table.kernel
