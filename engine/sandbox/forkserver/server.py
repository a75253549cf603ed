"""The fork server: a process that has loaded torch, and forks each process of a sandbox from itself.

`python -m engine.sandbox.forkserver.server SOCKET`; orders come over the socket (engine.sandbox.forkserver), each with
its descriptors. The server runs no pasted text and has an empty environment, so a fork of it knows no secret. It has
one thread: a lock that another thread held at the fork would stay locked for ever. Threads that wait for a file, as
those of CUDA's driver do, hold none: torch asks the driver whether there is a GPU even where none is visible.

What its forks would all do slowly for the first time, a copy of the server does beforehand: `before_forks` of the
modules that it has loaded. Then the copy serves instead. Whatever goes wrong there, the server itself goes on.

Each fork joins the sandbox of its order, drops all privileges and forks once more. That second fork has a process id
inside, and becomes engine.sandbox.child. The first one becomes a small program that waits for it, writes its id and
later its exit status to the report of the order, and then lets the sandbox end.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Callable

from engine import descriptors, start
from engine.sandbox import child, confine
from engine.sandbox.forkserver import join

ORDER = 1 << 16  # bytes
DESCRIPTORS = 64
PREPARE_SECONDS = 300  # some 5 s on two cores
TORCH_SEED = 67280421310721  # of its default generator when it is imported
WAIT = (
    "import json, os, sys\n"
    "status = os.waitstatus_to_exitcode(os.waitpid(int(sys.argv[1]), 0)[1])\n"
    "os.write(int(sys.argv[2]), json.dumps({'status': status}).encode() + b'\\n')\n"
)


def main() -> None:
    way = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # others of its threads would be missing in the forks
    descriptors.allow_many()  # one may have any number that the engine's has
    copy: int | None = None  # where the copy that prepares itself says that it serves; -1: there is none
    while True:
        if copy is not None and copy >= 0 and copy in descriptors.readable(way, copy):
            copy = _replaced(copy)
        data, fds, _, _ = socket.recv_fds(way, ORDER, DESCRIPTORS)
        if not data:
            os._exit(0)  # at once: torch's own libraries report what nobody freed
        order = json.loads(data)
        named = dict(zip(order["descriptors"], fds, strict=True))
        try:
            _load(order["preload"])
            pid = os.fork()
        except BaseException as e:
            _report(named["report"], error=f"{type(e).__name__}: {e}")
            pid = -1
        if pid == 0:
            way.close()
            _serve(order, named)
        for fd in fds:
            os.close(fd)
        if copy is None and (works := _before_forks(order["preload"])):
            copy = _copied(works)


def _before_forks(preload: list[str]) -> list[Callable[[], object]]:
    modules = [sys.modules[name] for name in preload if name in sys.modules]
    return [module.before_forks for module in modules if hasattr(module, "before_forks")]


def _copied(works: list[Callable[[], object]]) -> int:
    """Let a copy of this server do these works. Returns the pipe over which it says that it serves from now on; -1 if
    there can be no copy, and in the copy, once it can serve."""
    try:
        reader, writer = os.pipe()
        other = os.fork()
    except OSError as e:  # too many processes, or no memory
        _unprepared(e)
        return -1
    if other:
        os.close(writer)
        return reader
    os.close(reader)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PREPARE_SECONDS)  # one that hangs would outlive the engine
    try:
        before = _gpu_files()
        with start.importing():
            for work in works:
                work()
            gc.collect()
        start.may_fork()
        if opened := _gpu_files() - before:
            raise RuntimeError(f"it has started CUDA ({', '.join(sorted(opened))})")
    except BaseException as e:
        _unprepared(e)
        os._exit(1)
    signal.alarm(0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        os.write(writer, b"1")  # and closed when this copy ends
    except BrokenPipeError:  # the engine ended meanwhile, and so did the server
        os._exit(0)
    return -1


def _unprepared(e: BaseException) -> None:
    print(f"forks of the sandbox's server are not prepared: {type(e).__name__}: {e}", file=sys.stderr, flush=True)


def _replaced(reader: int) -> int:
    """The copy that serves instead ends when the engine does, and this process with it. Returns -1 if it could not be
    prepared."""
    if os.read(reader, 1):
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    return -1


def _gpu_files() -> set[str]:
    """The devices of NVIDIA that this process has open."""
    files = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            files.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {name for name in files if name.startswith("/dev/nvidia")}


def _load(preload: list[str]) -> None:
    """Import what is new. Raises ImportError, and RuntimeError if a thread may hold a lock afterwards."""
    if new := [name for name in preload if name not in sys.modules]:
        with start.importing():
            for name in new:
                importlib.import_module(name)
    start.may_fork()


def _report(fd: int, **what: object) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(what).encode() + b"\n")


def _serve(order: dict, named: dict[str, int]) -> None:
    """In the first fork; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        arguments = _placed(order, named)
        report, holder = named["report"], named["holder"]
        program = os.pread(named["filter"], 1 << 20, 0)
        join.join({name: named[name] for name in ("user", *join.SPACES) if name in named}, order["uid"])
        for name in ("user", *join.SPACES, "filter"):
            if name in named:
                os.close(named[name])
        join.drop(program)
        if reached := join.reach(order["hidden"]):
            raise RuntimeError(f"inside, it could still reach: {', '.join(reached)}")
        pid = os.fork()
    except BaseException as e:
        _report(named["report"], error=f"{type(e).__name__}: {e}")
        os._exit(70)
    if pid == 0:
        os.close(report)
        os.close(holder)
        try:
            _inside(order, arguments)
        finally:
            os._exit(1)
    _report(report, pid=pid, parent=os.getpid())
    for fd in (report, holder):
        os.set_inheritable(fd, True)
    os.closerange(0, min(report, holder))
    try:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", WAIT, str(pid), str(report)], {})
    except OSError as e:  # wait here instead, and hold torch's memory meanwhile
        _report(report, waits=f"{type(e).__name__}: {e}")
        _report(report, status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)


def _placed(order: dict, named: dict[str, int]) -> list[str]:
    """Give each descriptor of the child the number that it has in the engine, and the others numbers above them.
    Returns the child's arguments. Closes all other descriptors."""
    targets: dict[str, int] = order["targets"]
    above = max(targets.values()) + 1
    for name, fd in named.items():
        named[name] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(above, 3))
    join.close_all_but({0, 1, 2, *named.values()})
    for name, target in targets.items():
        os.dup2(named[name], target)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((nothing, 0), (named["printed"], 1), (named["printed"], 2)):
        os.dup2(fd, target)
    for fd in (nothing, named["printed"], *(named[name] for name in targets)):
        if fd not in targets.values():
            os.close(fd)
    return order["arguments"]


def _inside(order: dict, arguments: list[str]) -> None:
    """In the second fork: the process of the sandbox."""
    join.settle()
    with contextlib.suppress(OSError):  # of the thread that ordered it, engine.cores
        os.sched_setaffinity(0, order["cores"])
    os.environ.clear()
    os.environ.update(order["environment"], PWD=os.getcwd())
    tempfile.tempdir = None  # torch asked for it in the server, whose folder is not there inside
    _as_started(arguments)
    random.seed()
    if "torch" in sys.modules:
        import torch

        torch.default_generator.manual_seed(TORCH_SEED)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed()
    child.main(arguments)
    os._exit(0)


def _as_started(arguments: list[str]) -> None:
    """Make the interpreter as one that was started inside with these arguments."""
    ours, inside = str(confine.REPOSITORY), "/app"
    sys.argv[:] = [inside + child.__file__.removeprefix(ours), *arguments]
    sys.path[:] = [inside if folder == ours else folder for folder in sys.path]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in confine.CODE and hasattr(module, "__path__"):
            module.__path__ = [inside + folder.removeprefix(ours) for folder in module.__path__]
    sys.path_importer_cache.clear()


if __name__ == "__main__":
    main()
