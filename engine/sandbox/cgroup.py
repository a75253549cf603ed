"""A cgroup (version 2) for each sandbox, where the engine may create one: the kernel then counts all memory itself.

A cgroup that has processes cannot divide its memory among others, so each sandbox's stands beside the engine's own, in
the parent. The engine may create it there as root of a machine, or as a systemd service with `Delegate=memory pids` and
`DelegateSubgroup=engine`. A container rarely allows it. engine.sandbox.holdings counts in every case.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from functools import lru_cache
from pathlib import Path

_serial = itertools.count()


@lru_cache(maxsize=1)
def parent() -> Path | str:
    """The folder in which the engine may create cgroups with limits of memory, or the reason why there is none."""
    try:
        own = next(line[3:].strip() for line in _lines("/proc/self/cgroup") if line.startswith("0::"))
        mounts = (line.split() for line in _lines("/proc/self/mountinfo"))
        root = next(Path(m[4]) for m in mounts if m[m.index("-") + 1] == "cgroup2" and m[3] == "/")
    except (OSError, StopIteration, ValueError):
        return "no cgroup file system of version 2"
    return _usable(root, own)


def _usable(root: Path, own: str) -> Path | str:
    if own == "/" or ".." in own:
        return "the engine's cgroup has no parent here, as in a container"
    folder = (root / own.lstrip("/")).parent
    try:
        if "memory" not in (folder / "cgroup.subtree_control").read_text().split():
            (folder / "cgroup.subtree_control").write_text("+memory +pids")
        trial = folder / f"ucutlass-trial-{os.getpid()}"
        trial.mkdir()
        usable = (trial / "memory.max").exists()
        trial.rmdir()
    except OSError as e:
        return f"cgroups cannot be created in {folder} ({e.strerror})"
    return folder if usable else f"{folder} does not divide its memory"


def _lines(path: str) -> list[str]:
    with open(path) as f:
        return f.read().splitlines()


class Cgroup:
    """The cgroup of one sandbox. Raises OSError if it cannot be created."""

    def __init__(self, folder: Path, memory_bytes: int, processes: int):
        self.path = folder / f"ucutlass-{os.getpid()}-{next(_serial)}"
        self.path.mkdir()
        try:
            (self.path / "memory.max").write_text(str(memory_bytes))
            with contextlib.suppress(OSError):  # a machine without swap has no such file
                (self.path / "memory.swap.max").write_text("0")
            (self.path / "memory.oom.group").write_text("1")  # all its processes end, not one of them
            with contextlib.suppress(OSError):
                (self.path / "pids.max").write_text(str(processes))
        except OSError:
            self.path.rmdir()
            raise

    def add(self, pids: list[int]) -> None:
        """Move processes into it. Memory that they have already stays counted where they were."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.path / "cgroup.procs").write_text(str(pid))

    @property
    def exceeded(self) -> bool:
        """The kernel ended its processes because they asked for more memory."""
        try:
            events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
        except (OSError, ValueError):
            return False
        return int(events.get("oom_kill", 0)) + int(events.get("oom_group_kill", 0)) > 0

    def close(self, seconds: float = 2.0) -> None:
        """Remove it, and kill what is still in it."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                with contextlib.suppress(OSError):
                    (self.path / "cgroup.kill").write_text("1")
            if time.monotonic() > end:
                return
            time.sleep(0.01)
