"""Report attempts of pasted code to leave the sandbox, with the line of the attempt.

This is an audit hook in the child. It protects nothing: code can bypass it, and engine.sandbox.confine then stops it.
The hook gives a message that a person understands, where the sandbox alone would give "No such file or directory".
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import tokenize

from engine.sandbox.channel import PASTED

_WHAT = {
    "socket.connect": "opens a network connection",
    "socket.bind": "opens a network socket",
    "socket.getaddrinfo": "looks up a network address",
    "socket.gethostbyname": "looks up a network address",
    "socket.sendto": "sends to the network",
    "socket.__new__": "opens a socket",
    "subprocess.Popen": "starts another program",
    "os.system": "starts another program",
    "os.exec": "starts another program",
    "os.posix_spawn": "starts another program",
    "os.fork": "forks a process",
    "os.forkpty": "forks a process",
    "os.kill": "signals a process",
}


class Blocked(PermissionError):
    """The sandbox does not allow this. `code`: sandbox_network | sandbox_process | sandbox_file."""

    def __init__(self, code: str, reason: str, line: int | None):
        super().__init__(reason)
        self.code, self.reason, self.line = code, reason, line


def pasted_line() -> int | None:
    """The innermost line of the pasted text on this thread's stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == PASTED:
            return frame.f_lineno
        frame = frame.f_back
    return None


def for_a_traceback() -> bool:
    """Whether a file is opened now for the lines of a traceback. It names the code around the text, which a fork loaded
    from where the engine is; PyTorch formats one for each seed, too."""
    frame, files = sys._getframe(1), []
    while frame is not None and len(files) < 6:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back
    return any(pair == (tokenize.__file__, linecache.__file__) for pair in itertools.pairwise(files))


class Watch:
    """An audit hook, active from `on` until the process ends: Python cannot remove audit hooks.

    `allowed`: events that this text may cause (a candidate may start a compiler)."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        self.seen: list[Blocked] = []
        self._permitted = frozenset(allowed)
        self._busy = False
        allowed = {sys.prefix, sys.base_prefix, sys.exec_prefix, *(p for p in sys.path if p)}
        allowed |= {"/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", os.environ.get("HOME", "/scratch")}
        self._allowed = tuple({os.path.realpath(p) + "/" for p in allowed} - {"//"})

    def allow(self, *events: str) -> None:
        """Do not report these events from now on."""
        self._permitted |= frozenset(events)

    def on(self) -> None:
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple) -> None:
        what = _WHAT.get(event)
        if (what is None and event != "open") or self._busy or event in self._permitted:
            return
        self._busy = True
        try:
            line = pasted_line()
            if line is None:
                return
            if event == "open":
                path = self._outside(args[0])
                if path is None or (path.endswith(".py") and for_a_traceback()):
                    return
                blocked = Blocked("sandbox_file", f"opens {path[:200]!r}, which the sandbox does not show", line)
            elif event.startswith("socket"):
                blocked = Blocked("sandbox_network", f"{what}, and the sandbox has no network", line)
            else:
                blocked = Blocked("sandbox_process", f"{what}, which the sandbox does not allow", line)
            if len(self.seen) < 16:
                self.seen.append(blocked)
        finally:
            self._busy = False
        raise blocked

    def _outside(self, path: object) -> str | None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None  # an open descriptor
        text = os.fsdecode(path)
        real = os.path.realpath(text)
        return None if (real + "/").startswith(self._allowed) else text
