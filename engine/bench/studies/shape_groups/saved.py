"""What a study has so far, so that a run that is cut keeps it and the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any


class Saved:
    """Results by name; `write` stores all of them after each. From several threads."""

    def __init__(self, ended: dict[str, dict[str, Any]] | None = None, write: Callable[[], None] = lambda: None):
        self.ended, self._write, self._lock = {} if ended is None else ended, write, Lock()

    def once(self, name: str, play: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of this name: the saved one, or else that of `play`, whose errors are raised and not saved."""
        if name not in self.ended:
            result = play()
            with self._lock:
                self.ended[name] = result
                self._write()
        return self.ended[name]
