"""Run a compiler with limits of time and memory. It can be cancelled, and its child processes end with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import processes
from engine.executors.local import cores_here
from engine.executors.memory import machine_bytes

SECONDS = 120.0
MEMORY = 6 << 30  # resident bytes over all passes; a plain sm_90a unit peaks at 3.4 GB, tf32 through registers at 4.0
UNIT_BYTES = 8 << 30  # of a machine's memory for each nvcc at once
LOG_LINES = 24
LOOK = 0.1  # seconds between two looks at a compiler's memory


def nvcc_at_once() -> int:
    """As many as there are cores and memory for, at least one and at most 32: 3 on a machine of 24 GB."""
    return max(1, min(32, cores_here(), round(machine_bytes() / UNIT_BYTES)))


_PLACES = threading.Semaphore(nvcc_at_once())  # of this process, for all units and their parts together


@contextlib.contextmanager
def nvcc_place(cancelled: Callable[[], bool]) -> Iterator[None]:
    """Wait until one more nvcc may run, and keep its place. Raises BuildError("cancelled")."""
    while not _PLACES.acquire(timeout=LOOK):
        if cancelled():
            raise BuildError("cancelled", "the build was stopped on request")
    try:
        yield
    finally:
        _PLACES.release()


class BuildError(Exception):
    """The unit did not become a library. `code`: compile_failed | timeout | memory | cancelled | no_toolchain;
    `reason`: one sentence for a person; `log`: the relevant lines of the compiler's output."""

    def __init__(self, code: str, reason: str, log: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.log = code, reason, log


@dataclass(frozen=True)
class Ended:
    """The end of a process. `why`: None for an exit with `code`, else timeout | memory | cancelled. `log`: both
    outputs."""

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
    """Run `args` in a new session, with at most `seconds` and `memory` resident bytes over all its processes.

    The limit is on resident memory, because cicc reserves far more virtual memory than it uses.
    """
    started, peak, why = time.monotonic(), 0, None
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(args), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while True:
                try:
                    process.wait(LOOK)
                    break
                except subprocess.TimeoutExpired:
                    peak = max(peak, resident(process.pid, memory))
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


def resident(session: int, limit: int) -> int:
    """Resident bytes of every process in a session, now or a moment ago; now if they exceed `limit`. None yet for 0,
    the id of a process that has not started."""
    memory = processes.table(LOOK).of_session(session)
    # A reading that others share may be from before this process, whose number another one had; so it ends nothing.
    return memory if memory <= limit else processes.table().of_session(session)


def _end(process: subprocess.Popen) -> None:
    """Kill the whole process group, also after a normal exit, because child processes may still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class Limits:
    """A compiler's limits, and the function that cancels it."""

    seconds: float = SECONDS
    memory: int = MEMORY
    cancelled: Callable[[], bool] = lambda: False

    def run(self, args: list[str], folder: Path) -> Ended:
        """Run a compiler in `folder`. Raises BuildError unless it succeeds."""
        name = Path(args[0]).name
        ended = run(args, cwd=folder, seconds=self.seconds, memory=self.memory, cancelled=self.cancelled)
        log = trim(ended.log)
        if ended.why == "timeout":
            raise BuildError("timeout", f"{name} took longer than {self.seconds:.0f} s and was ended", log)
        if ended.why == "memory":
            raise BuildError(
                "memory", f"{name} needed more than {self.memory >> 20:,} MiB of memory and was ended", log
            )
        if ended.why == "cancelled":
            raise BuildError("cancelled", "the build was stopped on request", log)
        if ended.code:
            first = next((line for line in log.splitlines() if "error" in line.lower()), f"exit status {ended.code}")
            raise BuildError("compile_failed", f"{name} failed: {first}", log)
        return ended


_WORTH = re.compile(r"error|fatal|static assertion|\(C75\d\d\)|Killed|No space|cannot find", re.IGNORECASE)
_PATH = re.compile(r"(?:/[\w.+-]+)+/([\w.+-]+\.(?:cu|cpp|hpp|h|inl|cuh))")


def trim(log: str) -> str:
    """The lines with errors, each once and at most 400 characters long, with file names in place of paths."""
    relevant: dict[str, None] = {}
    for line in log.splitlines():
        if _WORTH.search(line) and "Function properties" not in line and "errors detected" not in line:
            relevant[_PATH.sub(r"\1", line.strip())[:400]] = None
    return "\n".join(list(relevant)[:LOG_LINES])
