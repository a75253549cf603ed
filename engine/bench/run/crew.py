"""Threads that the main thread waits for in such a way that an interrupt ends the wait.

`Thread.join` serves badly there. A signal that another thread was handed leaves it waiting until the thread ends, and
on Python 3.11 and 3.12 an interrupted join takes the thread for ended (bpo-45274), so that a second one does not wait.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

LOOK = 0.5  # seconds after which an interrupt is seen at the latest


class Crew:
    """Daemon threads with their ends."""

    def __init__(self) -> None:
        self._ends: list[threading.Event] = []

    def start(self, work: Callable[..., Any], *args: Any, name: str | None = None) -> None:
        """Run work(*args) in a thread. What it raises goes to threading.excepthook."""
        end = threading.Event()

        def run() -> None:
            try:
                work(*args)
            except BaseException:  # reported first: a process may leave once all have ended
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            finally:
                end.set()

        self._ends.append(end)  # first, because an interrupt may come while the thread starts
        try:
            threading.Thread(target=run, daemon=True, name=name).start()
        except RuntimeError:  # the system has no thread left
            end.set()
            raise

    def wait(self) -> None:
        """Return when all have ended. May be called again after an interrupt, and waits for the rest."""
        for end in self._ends:
            while not end.wait(LOOK):
                pass
