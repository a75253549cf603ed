"""The processes below one: those of now."""

import os
import subprocess
import sys
import time
from pathlib import Path

from engine.sandbox import tree


def test_a_child_is_there_at_once_and_gone_when_it_ended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.pid in tree.descendants(os.getpid())
    child.communicate(b"\n")
    assert child.pid not in tree.descendants(os.getpid())


def test_a_process_and_all_below_it_are_killed():
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    end = time.monotonic() + 60
    while len(tree.descendants(child.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    members = tree.kill(child.pid)
    child.wait(60)
    tree.wait(members, 5.0)
    assert len(members) == 2 and not any(tree.exists(pid) for pid in members)


def test_mapped_areas_are_counted_no_further_than_asked():
    lines = len(Path("/proc/self/maps").read_bytes().splitlines())
    assert abs(tree.mappings([os.getpid()], 1 << 20) - lines) < 50
    assert 5 < tree.mappings([os.getpid()] * 9, 5) < lines + 50, "a part of the first one's is enough"
    assert tree.mappings([1 << 30], 5) == 0
