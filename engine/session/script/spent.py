"""Where a session's time goes: seconds by what it did and by what it waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

DOING = ("think", "trace", "prepare", "build", "trial", "pytorch", "turn", "profile")  # trial: verifying and timing
OWN = ("build", "report", "memory")  # what a session waits for by its own name; the rest is a GPU or a core


class Spent:
    """Pieces of work that run side by side each count with all of their time. From several threads."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = Lock()

    @contextmanager
    def on(self, doing: str, place: str = "") -> Iterator[None]:
        """The block's time, and beside it the seconds of a GPU's lane, whatever was done there."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            if doing:
                self._add(doing, seconds)
            if place.startswith("gpu"):
                self._add("gpu", seconds)

    def waited(self, place: str, seconds: float) -> None:
        """For a place of engine.executors, or the memory of a GPU. All GPUs count as one, and so do all
        work on cores but builds and reports."""
        name = "gpu" if place.startswith("gpu") else place if place in OWN else "core"
        self._add(f"wait_{name}", seconds)

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """{think, trace, ..., wait_gpu, wait_core, ..., gpu}, without what took under 10 ms."""
        with self._lock:
            return {name: round(s, 2) for name, s in sorted(self._seconds.items()) if s >= 0.01}
