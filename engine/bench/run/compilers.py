"""Processes that compile modules by torch.compile ahead of the one that times them (engine.bench.run.precompile)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from engine.jsonprocess import JsonProcess, WorkerLost

COMPILE_SECONDS = 500.0
THREADS = 4  # of each one's own compilers


class Compilers:
    """`many` processes, each a `command` (engine.bench.run.child), take `todo`, pairs of a module and a baseline's
    name.

    They take them in order. A pair is `ready` when its turn is over, however it ended: who times it compiles what is
    not in the caches. `where`: module -> what the child opens it by.
    """

    def __init__(
        self, todo: Sequence[tuple[str, str]], many: int, command: Sequence[str], variables: dict[str, str],
        where: Mapping[str, dict], say: Callable[[str], None],
    ):  # fmt: skip
        self._todo, self._ready, self._where = list(todo), set(), where
        self._command, self._say, self._variables = command, say, variables
        self._known = set(todo)
        self._lock, self._stop = threading.Lock(), False
        self._threads = [
            threading.Thread(target=self._work, name=f"compiler {i + 1}", daemon=True)
            for i in range(min(many, len(self._todo)))
        ]
        for thread in self._threads:
            thread.start()

    def ready(self, pair: tuple[str, str]) -> bool:
        """One that was never to be compiled ahead is ready at once."""
        with self._lock:
            return pair in self._ready or pair not in self._known or not self._threads

    def close(self) -> None:
        """Ends what runs; takes a second."""
        self._stop = True
        for thread in self._threads:
            thread.join(timeout=10)

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            return self._todo.pop(0) if self._todo and not self._stop else None

    def _work(self) -> None:
        process = None
        try:
            while pair := self._next():
                module, name = pair
                try:
                    process = process or self._new()
                    answer = process.request(
                        {"op": "precompile", **self._where[module], "name": name},
                        timeout=COMPILE_SECONDS, cancelled=lambda: self._stop,
                    )  # fmt: skip
                    if why := answer.get("left_out") or answer.get("message"):
                        self._say(f"{module} ({name}) is not compiled ahead: {why[:160]}")
                except WorkerLost as e:
                    process = None
                    if not self._stop:
                        self._say(f"{module} ({name}) is not compiled ahead: {e}"[:200])
                with self._lock:
                    self._ready.add(pair)
        finally:
            with self._lock:
                self._ready.update(self._todo)  # nobody comes for these any more
            if process is not None:
                with contextlib.suppress(OSError):
                    process.close()

    def _new(self) -> JsonProcess:
        return JsonProcess(self._command, env={**os.environ, **self._variables}, name="process that compiles ahead")
