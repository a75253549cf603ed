"""A file of a strategy's memory: one JSON object a line, added to by many sessions."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from engine import atomic_write

MOST = 4000  # lines stored


def read(path: Path) -> str:
    """The newest lines; "" if there is no file."""
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(encoding="utf-8").splitlines()[-MOST:])
    return ""


def add(path: Path, text: str) -> None:
    """Add the lines that the file does not hold, all or none. The oldest beyond MOST are removed. Errors here do not
    affect a session."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            old = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
            if old and not old[-1].endswith("\n"):  # a line that another version's crash tore
                old[-1] += "\n"
            new = dict.fromkeys(text.splitlines(keepends=True))
            lines = [*old, *(line for line in new if line not in old)]
            atomic_write.write_text(path, "".join(lines[-MOST:]))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One writer at a time, over threads and processes: each reads what the previous one wrote."""
    with path.with_name(f"{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
