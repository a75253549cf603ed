"""Processes that Nsight Compute watches (launch_main), started ahead: importing takes them 12 s, a profile then 2 s.

    launchers = of(ncu, environment)      # of one GPU, shared by the sessions of this engine
    launcher = launchers.take()           # the one that waits, or a new one
    launcher.ask(request, 60.0, cancelled); launchers.ahead(); launcher.ask({"count": True}, 60.0, cancelled)
    text, log = launcher.report(60.0, cancelled)
    launcher.close()

A launcher runs one program. Before its request it has no CUDA context, holds none of the GPU's memory and takes no time
of a core.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engine import cores, descriptors, start
from engine.build import limited
from engine.evaluate.profiling import ncu

ROOT = Path(__file__).resolve().parents[3]
MEMORY = 16 << 30  # resident bytes
LOOK = 0.05  # seconds between two looks at `cancelled` and at the process
MEMORY_LOOK = 0.5  # the same for its memory
MODULE = "engine.evaluate.profiling.launch_main"
NOTICES = ("pid", "imported")  # replies to no request


class Lost(Exception):
    """The launcher gave no answer, and was ended. `why`: died | timeout | memory | cancelled | failed (it sent an
    error, which is the message); `log`: what Nsight Compute and the process printed."""

    def __init__(self, why: str, message: str, log: str = ""):
        super().__init__(message)
        self.why, self.log = why, log


class Launcher:
    """One process under ncu. For one caller at a time, but `close` may come from any thread. `imported`: None before it
    has imported everything, then the seconds that it took."""

    def __init__(self, tool: Path, environment: Mapping[str, str]):
        self._temporary = tempfile.TemporaryDirectory(prefix="ucutlass-profile-")
        self.folder = Path(self._temporary.name)
        self._report, self.imported = self.folder / "report.csv", None
        self._pipes = [self._pipe("requests"), self._pipe("replies")]
        self._buffer, self._handle, self._closing = b"", -1, threading.Lock()
        command = ncu.command(tool, self._report, start.command(MODULE, str(self.folder)))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        with cores.aside():
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **start.UNASKED, **environment}, stdin=subprocess.DEVNULL,
                stdout=self._log, stderr=self._log, start_new_session=True,
            )  # fmt: skip

    def _pipe(self, name: str) -> int:
        """A pipe that this process holds open on both sides: its end is the only end that the other one sees."""
        os.mkfifo(self.folder / name, 0o600)
        return os.open(self.folder / name, os.O_RDWR | os.O_NONBLOCK)

    @property
    def alive(self) -> bool:
        return bool(self._pipes) and self._process.poll() is None

    def ask(self, request: Mapping[str, object], seconds: float, cancelled: Callable[[], bool]) -> dict:
        """The answer to a request. Raises Lost."""
        until, looked = time.monotonic() + seconds, time.monotonic()
        os.write(self._pipes[0], json.dumps(request).encode() + b"\n")
        while True:
            alive = self.alive
            for reply in self._read():
                if "error" in reply:
                    self._lose("failed", f"the program failed under it: {reply['error'].rstrip('.')}")
                return reply
            if not alive:
                self._lose("died", f"it ended with status {self._process.returncode} and counted nothing")
            now = time.monotonic()
            if now - looked > MEMORY_LOOK:
                looked = now
                if limited.resident(self._process.pid, MEMORY) > MEMORY:
                    self._lose("memory", f"it needed more than {MEMORY >> 30} GiB of memory")
            self._look(until, seconds, cancelled)
            descriptors.readable(self._pipes[1], seconds=LOOK)

    def wait_imported(self, seconds: float) -> bool:
        """Wait for its imports. Returns False if they take longer, or if it ended."""
        until = time.monotonic() + seconds
        while self.imported is None and self.alive and time.monotonic() < until:
            self._notice()
            time.sleep(LOOK)
        return self.imported is not None

    def report(self, seconds: float, cancelled: Callable[[], bool]) -> tuple[str, str]:
        """(the report, what was printed) once ncu has ended. Raises Lost."""
        until = time.monotonic() + seconds
        while self._process.poll() is None:
            self._look(until, seconds, cancelled)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK)
        return self._written(), self._printed()

    def close(self) -> None:
        """End ncu and the process. Safe to call twice."""
        with self._closing:
            if not self._pipes:
                return
            pipes, self._pipes = self._pipes, []
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._handle >= 0:  # ncu may have started it in a group of its own
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                os.close(self._handle)
            self._process.wait()
            for pipe in pipes:
                os.close(pipe)
            self._log.close()
            self._temporary.cleanup()

    def _look(self, until: float, seconds: float, cancelled: Callable[[], bool]) -> None:
        if cancelled():
            self._lose("cancelled", "it was stopped on request")
        if time.monotonic() > until:
            self._lose("timeout", f"it took longer than {seconds:.0f} s")

    def _lose(self, why: str, message: str) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if why in ("died", "failed"):
                self._process.wait(1.0)  # for what ncu prints at the end
        log = f"{self._written()}\n{self._printed()}"
        self.close()
        raise Lost(why, message, log)

    def _written(self) -> str:
        return self._report.read_text(encoding="utf-8", errors="replace") if self._report.is_file() else ""

    def _printed(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - (1 << 20)))
        return self._log.read().decode(errors="replace")

    def _notice(self) -> None:
        """Read what it says without a request."""
        for reply in self._read():
            raise Lost("failed", f"it sent {reply} without a request")

    def _read(self) -> list[dict]:
        """The replies that have come, without the notices."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._pipes[1], 1 << 16):
                self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        replies = [json.loads(line) for line in lines]
        for notice in replies:
            if "pid" in notice:
                with contextlib.suppress(OSError):  # it has ended
                    self._handle = os.pidfd_open(notice["pid"])
            self.imported = notice.get("imported", self.imported)
        return [reply for reply in replies if not any(name in reply for name in NOTICES)]


class Launchers:
    """The launchers of one GPU; at most one waits. `refused`: why ncu cannot count here, or "". From several
    threads."""

    def __init__(self, tool: Path, environment: Mapping[str, str]):
        self.tool, self.environment = tool, dict(environment)
        self.refused = ""
        self._spare: Launcher | None = None
        self._lock = threading.Lock()

    @property
    def spare(self) -> Launcher | None:
        """The one that waits or imports."""
        with self._lock:
            return self._spare if self._spare is not None and self._spare.alive else None

    def take(self) -> tuple[Launcher, bool]:
        """A launcher for the caller, who closes it, and whether it was started ahead."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.alive:
            return spare, True
        if spare is not None:
            spare.close()
        return self.start(), False

    def start(self) -> Launcher:
        return Launcher(self.tool, self.environment)

    def ahead(self) -> None:
        """Start one for the next profile, unless one waits."""
        with self._lock:
            if (self._spare is not None and self._spare.alive) or self.refused:
                return
            before, self._spare = self._spare, self.start()
        if before is not None:
            before.close()

    def refuse(self, why: str) -> None:
        """ncu is not tried again."""
        self.refused = why
        self.close()

    def close(self) -> None:
        """End the one that waits."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()


_all: dict[tuple, Launchers] = {}
_lock = threading.Lock()


def of(tool: Path, environment: Mapping[str, str]) -> Launchers:
    """The launchers with this ncu and these variables beside the engine's."""
    with _lock:
        return _all.setdefault((tool, *sorted(environment.items())), Launchers(tool, environment))


def close() -> None:
    """End all that wait."""
    with _lock:
        for launchers in _all.values():
            launchers.close()
        _all.clear()


atexit.register(close)

__all__ = ["Launcher", "Launchers", "Lost", "close", "of"]
