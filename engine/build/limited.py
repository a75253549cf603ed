"""Runs a compiler under a clock, a memory cap and a stop button; whatever it started ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ended:
    """`why` is None for a plain exit with `code`, else timeout | memory | cancelled. `log`: both outputs together."""

    code: int
    log: str
    seconds: float
    peak_bytes: int
    why: str | None = None

    @property
    def ok(self) -> bool:
        return self.why is None and self.code == 0


def run(
    args: Sequence[str],
    *,
    cwd: Path,
    seconds: float,
    memory: int,
    env: Mapping[str, str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Ended:
    """Run `args` in a session of its own, at most `seconds` and `memory` resident bytes over all its processes.

    Resident and not virtual memory is counted: cicc reserves far more address space than it touches.
    """
    started, peak, why = time.monotonic(), 0, None
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(args), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while True:
                try:
                    process.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    peak = max(peak, resident(process.pid))
                if time.monotonic() - started > seconds:
                    why = "timeout"
                elif peak > memory:
                    why = "memory"
                elif cancelled():
                    why = "cancelled"
                if why:
                    break
        finally:
            _end(process)
        log.seek(0)
        text = log.read(4 << 20).decode(errors="replace")
    return Ended(process.returncode, text, time.monotonic() - started, peak, why)


def resident(session: int) -> int:
    """Resident bytes of every process in a session."""
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session:
            total += int(fields[21]) * _PAGE
    return total


def _end(process: subprocess.Popen) -> None:
    """Kill the whole group; also after a plain exit, for what the compiler may have left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
