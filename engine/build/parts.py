"""The stages of one `cute` module, compiled by several workers: each takes the next stage that no other has taken.

A whole model has 50 to 100 different kernels of 0.3 to 3 s each, most of them twice, plainly and in the precision that
rescues a guarded program, so one worker alone needs minutes. What each compiles is in quack's disk cache, where the
worker that owns the module then finds all of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from engine.build.limited import BuildError

MANY = 3  # stages from which on a module is shared


class Parts:
    """`compile_` of a worker takes a stage's name and raises BuildError. Any thread may call any method."""

    def __init__(self, stages: Sequence[str], cancelled: Callable[[], bool] = lambda: False):
        self.cancelled = cancelled
        self._left = deque(stages)
        self._running = 0
        self._error: BuildError | None = None
        self._ready = threading.Condition()

    @property
    def left(self) -> int:
        """Stages that nobody has taken."""
        return len(self._left)

    def work(self, compile_: Callable[[str], None]) -> None:
        """Compile stages until none is left. After the first error nobody takes another one."""
        while (stage := self._take()) is not None:
            error = None
            try:
                compile_(stage)
            except BuildError as e:
                error = e
            except Exception as e:
                error = BuildError("compile_failed", f"{type(e).__name__}: {e}")
            with self._ready:
                self._running -= 1
                if error is not None:
                    self._error = self._error or error
                    self._left.clear()
                self._ready.notify_all()

    def wait(self) -> None:
        """Wait until every stage that was taken is compiled. Raises the first BuildError."""
        with self._ready:
            self._ready.wait_for(lambda: not self._running)
        if self._error is not None:
            raise self._error

    def _take(self) -> str | None:
        with self._ready:
            if not self._left or self.cancelled():
                return None
            self._running += 1
            return self._left.popleft()
