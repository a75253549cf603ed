"""The end of a sandboxed process as data: what ended it, and what the reason is about."""

from __future__ import annotations

import signal

KILLED = "was killed (by itself, or by the system because memory ran out)"


class SandboxEnded(Exception):
    """The child ended. `code`: slow_start | time_limit | memory_limit | process_limit | disk_limit | output_limit |
    cancelled | exited | crashed | lost (by us, not by its text) | garbled | no_cuda. `what`: what happened, a
    predicate; `part`: its subject, "" for the child, or process | processes | answer | copy of the child, or None where
    `what` names no subject. `reason`: both, for a person. `line` of the pasted text, if known; `log`: its printed
    text."""

    def __init__(self, code: str, what: str, line: int | None = None, log: str = "", part: str | None = None):
        self.code, self.what, self.line, self.log, self.part = code, what, line, log, part
        self.reason = what if part is None else f"its {part} {what}" if part else f"it {what}"
        super().__init__(self.reason)

    @property
    def blameless(self) -> bool:
        """Whether the text may have nothing to do with it, so that it is worth a second run."""
        return self.code == "lost" or (self.code == "crashed" and self.what == KILLED)


def of_status(status: int) -> tuple[str, str, str]:
    """(code, what, part) of SandboxEnded for the exit status of a child that ended by itself; a negative one is a
    signal."""
    number = -status if status < 0 else status - 128
    if number == signal.SIGXCPU:
        return "time_limit", "used all of its processor time", ""
    if number in (signal.SIGKILL, signal.SIGTERM):
        return "crashed", KILLED, "process"
    if 0 < number < 65 and number in set(signal.Signals):
        return "crashed", f"crashed ({signal.Signals(number).name})", "process"
    return "exited", f"ended the Python process with status {status} (for example by os._exit)", ""
