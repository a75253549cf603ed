"""What a confined child leaves besides its answers: the text that it printed, and the stack that it wrote.

Both are its own words and are bounded: of the text the beginning and the end are kept, of the stack the lines that lie
in the pasted text are read.
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
KEPT = 16 << 10  # of what was printed: this much of the beginning and of the end
STACK = 1 << 16  # bytes of the stacks' end that are searched
STACK_SECONDS = 0.3  # that a child has to write where it is
_PASTED = re.compile(rf'File "{re.escape(channel.PASTED)}", line (\d+)')


class Printed:
    """`total`: bytes so far, those that were not kept included."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.total = 0
        self._head, self._tail = b"", b""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-KEPT:] if len(data) > room else self._tail

    @property
    def too_much(self) -> bool:
        return self.total > MAX_PRINTED

    @property
    def text(self) -> str:
        """The beginning and the end of it."""
        return (self._head + self._tail).decode(errors="replace")


class Stacks:
    """Memory that the child inherits as `fd`, into which its C code writes the stack on SIGUSR1 and on a crash,
    whatever Python is doing."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("ucutlass-stacks", os.MFD_CLOEXEC)

    def line(self) -> int | None:
        """The innermost pasted line of the last stack that was written (the most recent call stands first)."""
        size = os.fstat(self.fd).st_size
        text = os.pread(self.fd, STACK, max(0, size - STACK)).decode(errors="replace")
        found = _PASTED.search(text, max(text.rfind("most recent call first"), 0))
        return int(found[1]) if found else None

    def line_now(self, members: Iterable[int], inner: int) -> int | None:
        """Asks the child where it is: the one of `members` that knows itself as process `inner`."""
        before = os.fstat(self.fd).st_size
        for pid in members:
            if tree.inner_pid(pid) == inner:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGUSR1)
        end = time.monotonic() + STACK_SECONDS
        while time.monotonic() < end and os.fstat(self.fd).st_size == before:
            time.sleep(0.005)
        time.sleep(0.005)
        return self.line()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)
