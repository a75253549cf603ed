"""A compiler has a clock, a memory cap and a stop button, and leaves no process behind."""

import copy
import dataclasses
import os
import sys
import time

import pytest

from engine import processes
from engine.build import limited


def run(code: str, tmp_path, **limits):
    return limited.run([sys.executable, "-c", code], cwd=tmp_path, **{"seconds": 120, "memory": 1 << 30, **limits})


def test_output_and_exit_status_come_back(tmp_path):
    ended = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (ended.code, ended.why, ended.ok) == (3, None, False)
    assert "out" in ended.log and "err" in ended.log


def test_memory_of_all_its_processes_is_capped(tmp_path):
    child = "x = bytearray(400 << 20); import time; time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    ended = run(code, tmp_path, memory=200 << 20)
    assert ended.why == "memory" and ended.seconds < 50 and ended.peak_bytes > 200 << 20


def test_an_old_reading_of_proc_ends_nothing(tmp_path, monkeypatch):
    """One that others share may be from before the compiler, when another process had its number."""
    real = processes.table

    def old(age=0.0):
        table = real()
        if age:
            mine = table.processes[os.getpid()].resident
            shared = {p: dataclasses.replace(q, resident=q.resident + mine) for p, q in table.processes.items()}
            table = copy.copy(table)  # other threads may have read it
            table.processes = shared
        return table

    monkeypatch.setattr(processes, "table", old)
    mine = real().processes[os.getpid()].resident
    ended = run("import time; time.sleep(1)", tmp_path, memory=mine)
    assert (ended.why, ended.code) == (None, 0) and ended.peak_bytes < mine


def test_it_can_be_stopped(tmp_path):
    ended = run("import time; time.sleep(60)", tmp_path, cancelled=lambda: True)
    assert ended.why == "cancelled" and ended.seconds < 50


def test_children_end_with_it(tmp_path):
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "open('pid', 'w').write(str(p.pid)); time.sleep(60)"
    )
    ended = run(code, tmp_path, seconds=2)
    assert ended.why == "timeout"
    child = int((tmp_path / "pid").read_text())
    for _ in range(50):  # whoever adopts it needs a moment to bury it
        try:
            os.kill(child, 0)
            with open(f"/proc/{child}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.1)
    pytest.fail("the child lives on")
