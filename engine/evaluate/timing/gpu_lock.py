"""Whose turn it is on a GPU that several of a bench's processes share: nothing is timed while another one runs.

A lock on a file, so that a process that dies gives its turn back. The process that times takes its turn for each
request; those that compile ahead take theirs for what they run on the GPU, and give it back while they generate code.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path


class Turn:
    """`with turn:` waits for the GPU; may be nested. Without a file a process is alone and waits for nothing."""

    def __init__(self, path: Path | str | None):
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._mine = threading.RLock()
        self._depth = 0

    def __enter__(self) -> Turn:
        self._mine.acquire()
        if self._depth == 0:
            self._take()
        self._depth += 1
        return self

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._give()
        self._mine.release()

    @contextlib.contextmanager
    def given_back(self) -> Iterator[None]:
        """Inside of a turn: others may have the GPU meanwhile. A turn taken inside of this one is a new one."""
        depth, self._depth = self._depth, 0
        if depth:
            self._give()
        for _ in range(depth):
            self._mine.release()
        try:
            yield
        finally:
            for _ in range(depth):
                self._mine.acquire()
            if depth:
                self._take()
            self._depth = depth

    def _take(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _give(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
