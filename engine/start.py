"""The start of our processes: their imports, without the garbage collector, and what a fork of one needs.

    python -m engine.start MODULE ARGUMENT...    imports the module and calls its `main()`

The collector would visit each of the million objects of torch or CuTe DSL again and again while they are imported, a
quarter to a half of the time, and free nothing. They are not visited later either, so copies of a process share them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

WAITS = ("0", "7", "232", "271", "281")  # read, poll, epoll_wait, ppoll, epoll_pwait (x86-64)
# Settings with which importing CuTe DSL and quack starts no CUDA, which no fork could use then: torch asks NVML whether
# there is a GPU, and quack does not ask which one (all code of this project is for Hopper).
UNASKED = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "QUACK_ARCH": "sm_90"}


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Import modules inside."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def may_fork() -> None:
    """Raises RuntimeError if another thread of this process may hold a lock, which would stay locked in a fork."""
    if others := busy_threads():
        raise RuntimeError(f"the fork server has other threads ({', '.join(others)})")
    # Python 3.12 warns of every fork of a process with threads; busy_threads looks closer.
    warnings.filterwarnings("ignore", message=".* is multi-threaded", category=DeprecationWarning)


def busy_threads() -> list[str]:
    """Name and system call of each other thread of this process that does not wait for a file."""
    others = []
    for thread in os.listdir("/proc/self/task"):
        if int(thread) == os.getpid():
            continue
        with contextlib.suppress(FileNotFoundError):  # it has ended
            task = Path("/proc/self/task", thread)
            try:
                call = (task / "syscall").read_text().split()[0]
            except OSError:
                call = "unknown"
            if call not in WAITS:
                others.append(f"{(task / 'comm').read_text().strip()} in {call}")
    return sorted(others)


def command(module: str, *arguments: str) -> list[str]:
    """The command line of a process that runs the `main` of one of our modules."""
    return [sys.executable, "-m", "engine.start", module, *arguments]


def module_of(command: list[str]) -> list[str]:
    """The module and its arguments in what `command` returned."""
    return command[command.index("engine.start") + 1 :]


if __name__ == "__main__":
    del sys.argv[0]
    with importing():
        started = importlib.import_module(sys.argv[0])
    started.main()
