"""Our own warm processes as forks of one that has imported torch, CuTe DSL and quack already.

    forks = of(environment)                        # one server for each set of import-time settings
    process = forks.start("engine.build.cute_worker", (), env, stderr)    # a Forked, with the interface of a Popen

Importing them takes each process 9 to 16 s, and a machine that starts for a class has twenty; a fork takes a twentieth
of a second and shares the memory. The server never starts CUDA, which no fork of it could use then. Where it cannot
fork, `start` raises Unable and the caller starts a Python of its own. (Untrusted code has its own fork server, in
engine.sandbox.)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from engine import cores, descriptors, start

logger = logging.getLogger("engine")

MOST = 1 << 16  # bytes of an order
BUSY = 75  # the status of a fork that was not made, because threads of its server were working
ENDS = 3  # of servers of the same settings, after which processes start by themselves
# Settings that the imported modules read while they are imported: forks can only have the server's.
IMPORTED = ("QUACK_CACHE_DIR", "QUACK_CACHE_ENABLED", "QUACK_ARCH", "CUTE_DSL_ARCH")


class Unable(Exception):
    """This process cannot be a fork. The message says why."""


class Forked:
    """One fork, with the part of subprocess.Popen's interface that engine.jsonprocess uses. Its server may still be
    importing: then it has no process id yet, and starts later."""

    def __init__(self, report: socket.socket, stdin: IO[bytes], stdout: IO[bytes]):
        self.stdin, self.stdout = stdin, stdout
        self._report: socket.socket | None = report  # gets the process id and a pidfd, later the status
        self._pid, self._handle = 0, -1
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """0 before it has started."""
        self._read()
        return self._pid

    @property
    def never_ran(self) -> bool:
        """Return True if it ended without having started: its server was lost, or could not fork."""
        return self.poll() is not None and not self._pid

    def poll(self) -> int | None:
        """None while it lives or waits for its start; else its status, negative for a signal."""
        self._read()
        if self._status is None and self._report is None and (self._handle < 0 or _readable(self._handle)):
            self._end(1)  # its server ended first, so nobody knows the status
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork", timeout)
            descriptors.readable(self._report if self._report is not None else self._handle, seconds=0.1)
        return status

    def kill(self) -> None:
        """End it and all that it started. One that has not started yet ends as soon as it does: its input is closed."""
        self._read()
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        if not self._pid:
            self._end(-signal.SIGKILL)
        elif self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def _read(self) -> None:
        while self._report is not None and _readable(self._report):
            try:
                data, fds, _, _ = socket.recv_fds(self._report, 64, 1)
            except OSError:
                data, fds = b"", []
            if fds:
                self._pid, self._handle = int(data), fds[0]
            elif data:
                self._end(int(data))
            else:
                self._report.close()
                self._report = None

    def _end(self, status: int) -> None:
        self._status = status
        if self._report is not None:
            self._report.close()
        if self._handle >= 0:
            os.close(self._handle)
        self._report, self._handle = None, -1


def _readable(one: int | socket.socket) -> bool:
    return bool(descriptors.readable(one, seconds=0))


class Forks:
    """The server of one set of settings. From several threads."""

    def __init__(self, environment: Mapping[str, str]):
        self.environment = dict(environment)
        self._lock = threading.Lock()
        self._way: socket.socket | None = None
        self._server: subprocess.Popen | None = None
        self._why = ""  # it cannot fork
        self._ends = 0  # servers that ended before the engine did

    def start(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str], stderr: int, fds: Sequence[int] = ()
    ) -> Forked:
        """A process that runs the `main` of one of our modules with these environment variables; it has the descriptors
        `fds` under their numbers here. Its cores and priority are this thread's. Raises Unable."""
        different = [name for name in IMPORTED if env.get(name) != self.environment.get(name)]
        if different:
            raise Unable(f"the server has another {different[0]}")
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passed = [stdin, stdout, stderr, theirs.fileno(), *fds]
        order = {
            "module": module, "arguments": list(arguments), "environment": dict(env), "fds": list(fds),
            "cores": sorted(os.sched_getaffinity(0)), "nice": os.getpriority(os.PRIO_PROCESS, 0),
        }  # fmt: skip
        try:
            with self._lock:
                self._serving()
                socket.send_fds(self._way, [json.dumps(order).encode()], passed)
        except (OSError, Unable) as e:
            for fd in (to_child, from_child):
                os.close(fd)
            report.close()
            raise e if isinstance(e, Unable) else Unable(f"its server does not take orders: {e}") from None
        finally:
            os.close(stdin), os.close(stdout)
            theirs.close()
        return Forked(report, os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb"))

    def failed(self, why: str) -> None:
        """A fork did not work: processes start by themselves from now on."""
        if not self._why:
            logger.warning("processes that build and run programs are not forked, each imports by itself: %s", why)
        self._why = why

    def close(self) -> None:
        """End the server. Its forks go on."""
        with self._lock:
            if self._way is not None:
                self._way.close()
            if self._server is not None:
                self._server.kill()
                self._server.wait()
            self._way = self._server = None

    def _serving(self) -> None:
        if self._why:
            raise Unable(self._why)
        if self._server is not None and self._server.poll() is not None:
            self._ends += 1
            why = f"their server ended with status {self._server.returncode}"
            if self._ends >= ENDS:
                self.failed(why)
                raise Unable(self._why)
            logger.warning("processes that build and run programs get another server to be forks of: %s", why)
            self._way.close()
            self._way = self._server = None
        if self._server is None:
            self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._way.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * MOST)
            env = {**os.environ, **start.UNASKED, **self.environment, "OPENBLAS_NUM_THREADS": "1"}
            command = start.command("engine.forks.server", str(theirs.fileno()))
            with cores.aside():
                self._server = subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),), start_new_session=True,
                )  # fmt: skip
            theirs.close()


_servers: dict[tuple[tuple[str, str], ...], Forks] = {}
_lock = threading.Lock()


def of(environment: Mapping[str, str]) -> Forks | None:
    """The server for these settings of the process's environment; None where processes cannot be forked so."""
    if not hasattr(os, "pidfd_open") or os.environ.get("UCUTLASS_FORKS") == "none":
        return None
    own = {name: environment[name] for name in (*IMPORTED, "PYTHONPATH") if name in environment}
    with _lock:
        return _servers.setdefault(tuple(sorted(own.items())), Forks(own))


def close() -> None:
    """End every server."""
    with _lock:
        for forks in _servers.values():
            forks.close()
        _servers.clear()


atexit.register(close)

__all__ = ["Forked", "Forks", "Unable", "close", "of"]
