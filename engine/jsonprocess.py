"""A child process that answers JSON lines, for the engine's own warm workers.

One request is one line to the child's descriptor 0, one reply is one line from its descriptor 1. Accidental prints of
the child go to descriptor 2, whose end becomes part of the message when it dies. (Untrusted code is not started here
but in engine.sandbox.)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine import descriptors, start
from engine.door import Door
from engine.forks import Forked, Forks, Unable

MAX_REPLY = 16 * 1024 * 1024
_REPOSITORY = Path(__file__).resolve().parents[1]


def python_path() -> str:
    """PYTHONPATH of a child that runs a module of this repository, wherever it is started."""
    return os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])


class WorkerLost(Exception):
    """The child died, hung or sent an invalid answer. `why`: died | timeout | cancelled | garbled; `log`: the end of
    its output."""

    def __init__(self, why: str, message: str, log: str = ""):
        super().__init__(message)
        self.why, self.log = why, log


class JsonProcess:
    """Starts `args` and exchanges JSON objects with it. Not thread safe: one caller at a time.

    The child leads its own session, so that `close` also ends every process that it started. `door`: it also gets a
    Unix socket for descriptors, whose number is in its environment under that name; `door` here is our side. `forks`:
    where this child may be a fork of one that has imported already; `args` are then engine.start's.
    """

    def __init__(
        self, args: Sequence[str], *, env: Mapping[str, str] | None = None, name: str = "worker", door: str = "",
        forks: Forks | None = None,
    ):  # fmt: skip
        self.name = name
        self.door = Door() if door else None
        if self.door is not None:
            env = {**(os.environ if env is None else env), door: str(self.door.inside)}
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child
        self._buffer = b""
        self._args, self._env = list(args), None if env is None else dict(env)
        self._process = self._start(self._args, self._env, forks)
        if self.door is not None:
            self.door.started()

    def _start(self, args: list[str], env: dict[str, str] | None, forks: Forks | None) -> subprocess.Popen | Forked:
        passed = () if self.door is None else (self.door.inside,)
        if forks is not None:
            module, *arguments = start.module_of(args)
            with contextlib.suppress(Unable):
                return forks.start(module, arguments, os.environ if env is None else env, self._stderr.fileno(), passed)
        return subprocess.Popen(
            args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env=env, start_new_session=True,
            pass_fds=passed,
        )  # fmt: skip

    def _by_itself(self) -> bool:
        """Start a fork that never ran as a process of its own, which has no request to lose. Not one with a door, whose
        other side is closed here."""
        process = self._process
        if not isinstance(process, Forked) or self.door is not None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        if not process.never_ran:
            return False
        process.kill()
        self._process = self._start(self._args, self._env, None)
        return True

    @property
    def pid(self) -> int:
        """0 for a fork that has not started yet."""
        return self._process.pid

    @property
    def forked(self) -> bool:
        return isinstance(self._process, Forked)

    @property
    def never_ran(self) -> bool:
        """Return True for a fork that ended before it started (engine.forks.Forked)."""
        return isinstance(self._process, Forked) and self._process.never_ran

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def request(self, message: dict, *, timeout: float, cancelled: Callable[[], bool] = lambda: False) -> dict:
        """The child's reply. Raises WorkerLost (and ends the child) on death, on silence beyond `timeout` seconds, when
        `cancelled()` turns true, on a reply that is not a JSON object or exceeds 16 MiB, and on output without a
        request, which would be taken for the answer."""
        if self._buffer or descriptors.readable(self._process.stdout, seconds=0):
            if not self._buffer and not os.read(self._process.stdout.fileno(), 1 << 20):
                if self._by_itself():
                    return self.request(message, timeout=timeout, cancelled=cancelled)
                self._lost("died")
            self._lost("garbled", "answered more than it was asked")
        deadline = time.monotonic() + timeout
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            if self._by_itself():
                return self.request(message, timeout=timeout, cancelled=cancelled)
            self._lost("died")
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self._lost("timeout", f"did not answer within {timeout:.0f} s")
            if cancelled():
                self._lost("cancelled", "was stopped on request")
            if len(self._buffer) > MAX_REPLY:
                self._lost("garbled", "answered with more than 16 MiB")
            if descriptors.readable(self._process.stdout, seconds=min(remaining, 0.2)):
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    if self._by_itself():
                        return self.request(message, timeout=deadline - time.monotonic(), cancelled=cancelled)
                    self._lost("died")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            self._lost("garbled", "answered something that is not a JSON object")
        return reply

    def _lost(self, why: str, message: str = "") -> None:
        code = self._process.poll()
        if why == "died":
            try:
                code = self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                code = None
            message = "died" if code is None else f"ended with {_exit_words(code)}"
        log = self.log()
        self.close()
        raise WorkerLost(why, f"the {self.name} {message}", log)

    def log(self, last: int = 8192) -> str:
        """The end of the child's standard error."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - last))
        return self._stderr.read().decode(errors="replace")

    def close(self) -> None:
        """End the child and everything in its session, which may outlive it. Safe to call twice."""
        if self._process.poll() is None:
            if self.forked:
                self._process.kill()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if (leader := self._process.pid) and not Path(f"/proc/{leader}").exists():
            # A number that still names a group is given to no new process, so these are what it started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(leader, signal.SIGKILL)
        for pipe in filter(None, (self._process.stdin, self._process.stdout, self.door)):
            with contextlib.suppress(OSError):
                pipe.close()


def _exit_words(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def serve(handlers: Mapping[str, Callable[[dict], dict]]) -> None:
    """The child's side: answer each request by the handler its `op` names, until standard input ends.

    Descriptor 1 is used for the replies, and `print` goes to standard error. A handler's exception becomes {"error":
    class name, "message": text}; the process lives on, and the caller decides whether it may.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in iter(os.fdopen(0, "rb").readline, b""):
        request = json.loads(line)
        try:
            reply = handlers[request["op"]](request)
        except Exception as e:
            reply = {"error": type(e).__name__, "message": str(e)[:4000]}
        out.write(json.dumps(reply).encode() + b"\n")
        out.flush()
