"""Warm processes that run programs, one for each session at work on a GPU.

A process takes 9 s to import torch and quack, so ended sessions leave theirs for the next ones. Each runs only our
compiler's output; the data of a session is dropped before another gets its process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from threading import Lock

from engine.devices import TrialError
from engine.evaluate.candidate.worker import Worker
from engine.executors.local import spares


class WorkerPool:
    """`environment`: of the processes, beside this one's."""

    def __init__(self, environment: Mapping[str, str] | None = None):
        self.environment = dict(environment or {})
        self._idle: list[Worker] = []
        self._lock = Lock()

    def warm(self, many: int) -> None:
        """Let `many` idle processes import, without waiting for them."""
        with self._lock:
            while len(self._idle) < many:
                self._idle.append(Worker(self.environment))
            idle = list(self._idle)
        for worker in idle:
            worker.start()

    def ready(self) -> None:
        """Wait until an idle process has imported everything. Raises WorkerLost."""
        worker = self.take()
        worker.warm()
        self.give_back(worker)

    def take(self) -> Worker:
        """An idle process, the one that imports longest, or a new one; the caller gives it back."""
        with self._lock:
            worker = self._idle.pop(0) if self._idle else Worker(self.environment)
        worker.start()
        return worker

    def give_back(self, worker: Worker) -> None:
        """Drop the session's data, and keep the process for another session if few wait."""
        with contextlib.suppress(TrialError):  # it was replaced already, and holds no data
            if worker.alive and worker.about is not None:
                worker.ask("close", "close", timeout=30.0)
        with self._lock:
            if worker.alive and len(self._idle) < spares():
                self._idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.close()
