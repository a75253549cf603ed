"""The process that our warm processes are forks of: it imports, then forks for each order until the engine ends.

`python -m engine.start engine.forks.server SOCKET`; each order comes with the descriptors of the fork's standard input,
output and error, of its report, and of what else it has. The report gets the fork's process id with a pidfd.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import socket
import sys
import time

# What most of their imports is. Where one is missing, the modules that need it say so.
for _name in ("torch", "tvm_ffi", "cutlass.cute", "quack.gemm_runtime.host", "quack.epilogue.frontend"):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)

from engine import start  # noqa: E402
from engine.forks import BUSY, MOST  # noqa: E402

DESCRIPTORS = 16
PATIENCE = 10.0  # seconds for threads that work to rest
REPORT = 3  # place of the report among the descriptors of an order
_reports: dict[int, int] = {}  # process id of a fork -> where its status goes


def main() -> None:
    way = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(way, MOST, DESCRIPTORS)
        except OSError:
            data = b""
        if not data:
            os._exit(0)  # at once: torch's own libraries report what nobody freed
        if busy := _busy():
            print(f"this fork is not made: {busy}", file=sys.stderr, flush=True)
            _tell(fds[REPORT], str(BUSY))
            for fd in fds:
                os.close(fd)
            continue
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            way.close()
            _become(json.loads(data), fds)
        _reports[pid] = os.dup(fds[REPORT])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for fd in fds:
            os.close(fd)


def _busy() -> str:
    """Why no fork can be made, even after some seconds; "" if it can. Threads of a library work for a moment, but one
    that never rests makes this fork's process start by itself, and no other one's."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            start.may_fork()
            return ""
        except RuntimeError as e:
            if time.monotonic() > until:
                return str(e)
        time.sleep(0.01)


def _reap(*_: object) -> None:
    """Report the status of each fork that has ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            report = _reports.pop(pid)
            _tell(report, str(os.waitstatus_to_exitcode(status)))
            os.close(report)


def _tell(report: int, text: str, *handles: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(report)) as way:
        socket.send_fds(way, [text.encode()], handles)
    for handle in handles:
        os.close(handle)


def _become(order: dict, fds: list[int]) -> None:
    """In the fork; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    os.setsid()
    for report in _reports.values():
        os.close(report)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, order["cores"])
        os.setpriority(os.PRIO_PROCESS, 0, order["nice"])
    # By the fork itself, so that whoever has its first answer also knows its number.
    _tell(fds[REPORT], str(os.getpid()), os.pidfd_open(os.getpid()))
    os.close(fds[REPORT])
    _place(fds[:REPORT] + fds[REPORT + 1 :], [0, 1, 2, *order["fds"]])
    os.environ.clear()
    os.environ.update(order["environment"])
    random.seed()
    sys.argv = [order["module"], *order["arguments"]]
    status = 1
    try:
        if threads := order["environment"].get("OMP_NUM_THREADS"):  # OpenMP read the server's
            sys.modules["torch"].set_num_threads(int(threads))
        importlib.import_module(order["module"]).main()
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _place(fds: list[int], numbers: list[int]) -> None:
    """Give each descriptor its number; first out of the way of all of them."""
    high = max(*numbers, *fds) + 1
    safe = []
    for fd in fds:
        safe.append(os.dup2(fd, high + len(safe), inheritable=True))
        os.close(fd)
    for fd, number in zip(safe, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
