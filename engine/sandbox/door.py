"""The way of descriptors into a sandbox: a Unix socket whose other end the child inherits."""

from __future__ import annotations

import contextlib
import socket


class Door:
    """`inside`: the descriptor that the child inherits, with the same number there."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.inside = self._theirs.fileno()

    def started(self) -> None:
        """Close the child's end here, once the child has it."""
        self._theirs.close()

    def give(self, fd: int) -> None:
        """Send a descriptor; the child gets one of its own. Raises OSError if the child has ended."""
        self._ours.settimeout(5.0)
        socket.send_fds(self._ours, [b"m"], [fd])

    def close(self) -> None:
        for end in (self._ours, self._theirs):
            with contextlib.suppress(OSError):
                end.close()
