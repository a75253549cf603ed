"""Output of a confined child besides its answers: printed text, and the stack that it writes on a signal.

Both are untrusted and bounded. Of the text, the beginning and the end are stored. Of the stack, only line numbers of
the pasted text are read.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterable

from engine.sandbox import channel, tree

MAX_PRINTED = 16 << 20
STORED = 16 << 10  # bytes stored of the beginning and of the end of the printed text
STACK = 1 << 16  # bytes of the stacks' end that are searched
STACK_SECONDS = 0.3  # time for a child to write its stack, while it may still take memory
PATIENT_SECONDS = 2.0  # and for one past its time: it has a low priority, so that others may run long before it does
# A text may write its stack itself. No pasted text has a line of eight digits, and of thousands int() makes an error.
_PASTED = re.compile(rf'File "{re.escape(channel.PASTED)}", line ([1-9][0-9]{{0,6}})(?![0-9])')


class Printed:
    """Printed text. `total`: bytes so far, also those that are not stored."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.total = 0
        self._head, self._tail = b"", b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = STORED - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-STORED:] if len(data) > room else self._tail

    @property
    def too_much(self) -> bool:
        return self.total > MAX_PRINTED

    @property
    def text(self) -> str:
        """The stored beginning and end, without unprintable characters."""
        return channel.printable((self._head + self._tail).decode(errors="replace"))


class Stacks:
    """Memory that the child inherits as `fd`. Its C code (faulthandler) writes the stack there on SIGUSR1 and on a
    crash, also while Python is busy."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("ucutlass-stacks", os.MFD_CLOEXEC)

    def line(self) -> int | None:
        """The innermost pasted line of the last stack that was written (the most recent call comes first)."""
        size = os.fstat(self.fd).st_size
        text = os.pread(self.fd, STACK, max(0, size - STACK)).decode(errors="replace")
        match = _PASTED.search(text, max(text.rfind("most recent call first"), 0))
        return int(match[1]) if match else None

    def line_now(self, members: Iterable[int], inner: int, seconds: float = STACK_SECONDS) -> int | None:
        """Ask the child for its current line: the process of `members` with the inner process id `inner`. Waits for its
        answer for `seconds` at most."""
        before = os.fstat(self.fd).st_size
        for pid in members:
            if tree.inner_pid(pid) == inner:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGUSR1)
        end = time.monotonic() + seconds
        while time.monotonic() < end and os.fstat(self.fd).st_size == before:
            time.sleep(0.005)
        time.sleep(0.005)
        return self.line()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)
