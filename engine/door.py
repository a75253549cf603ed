"""The way of descriptors into a process: a Unix socket whose other end the child inherits."""

from __future__ import annotations

import contextlib
import socket


class Door:
    """`ours`: this process's end; `inside`: the descriptor that the child inherits, with the same number there."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.inside = self._theirs.fileno()

    def started(self) -> None:
        """Close the child's end here, once the child has it."""
        self._theirs.close()

    def give(self, fd: int) -> None:
        """Send a descriptor; the child gets one of its own. Raises OSError if the child has ended."""
        give(self.ours, fd, 5.0)

    def close(self) -> None:
        for end in (self.ours, self._theirs):
            with contextlib.suppress(OSError):
                end.close()


def give(way: socket.socket, fd: int, seconds: float) -> None:
    """Send a descriptor; the receiver gets one of its own. Raises OSError."""
    way.settimeout(seconds)
    socket.send_fds(way, [b"m"], [fd])
