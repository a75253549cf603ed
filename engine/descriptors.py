"""Wait for files and sockets, and have many of them open.

An engine with many sessions may have more than a thousand descriptors open. Linux allows a process 1,024 unless it asks
for more, and `select` cannot name those beyond; `poll` can.
"""

from __future__ import annotations

import contextlib
import math
import resource
import select
from typing import Protocol, TypeVar

MOST = 1 << 16


class _Open(Protocol):
    def fileno(self) -> int: ...


File = TypeVar("File", bound=int | _Open)


def allow_many() -> None:
    """Let this process have as many files open as the machine allows it, 65,536 at most. Its children inherit that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):  # a container may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def readable(*files: File, seconds: float | None = None) -> list[File]:
    """Those with something to read or at their end, after at most `seconds`; None waits for ever."""
    return _ready(files, select.POLLIN, seconds)


def writable(*files: File, seconds: float | None = None) -> list[File]:
    """Those that take something, or whose other side is closed, after at most `seconds`."""
    return _ready(files, select.POLLOUT, seconds)


def _ready(files: tuple[File, ...], event: int, seconds: float | None) -> list[File]:
    poll = select.poll()
    by_number = {file if isinstance(file, int) else file.fileno(): file for file in files}
    for number in by_number:
        poll.register(number, event)
    # A number that is not open counts as ready, so that whoever reads it gets the error.
    return [by_number[n] for n, _ in poll.poll(None if seconds is None else math.ceil(max(0.0, seconds) * 1000))]
