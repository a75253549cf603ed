"""The engine's side of the candidate's process (engine.evaluate.candidate.worker_main): start it warm, send requests,
replace it.

    worker = Worker(environment); worker.start()      # returns at once; the imports take 9 s
    worker.ask("validate", "check", timeout=60, family="normal", seed=7)

A program that breaks the GPU's context costs only its own trial and a fresh process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from engine import cores, forks, start
from engine.devices import TrialError
from engine.evaluate import shared_memory
from engine.jsonprocess import JsonProcess, WorkerLost, python_path

WARM_SECONDS = 180.0
GRACE = 1.5  # seconds that a stop waits for the current request, because a fresh process takes longer
_WORDS = {
    "illegal_address": "the program read or wrote memory that is not its own (illegal address)",
    "out_of_memory": "the GPU's memory is too small for this program and its data",
    "cuda_error": "the GPU reported an error while the program ran",
}


class Worker:
    """`device`: cuda, or cpu for the tests. `generation` counts processes; a new process has none of the old one's
    data. `command`: another program with the protocol of worker_main."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, device: str = "cuda", command: list[str] | None = None
    ):
        self.environment, self.device = dict(environment or {}), device
        self._command = command or start.command("engine.evaluate.candidate.worker_main", "--device", device)
        ours = command is None and device == "cuda"
        self._forks = forks.of(self.environment | {"PYTHONPATH": python_path()}) if ours else None
        self.generation = 0
        self.about: dict | None = None  # the process's description of its GPU, once it is warm
        self._process: JsonProcess | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self, *, fork: bool = True) -> None:
        """Start the process unless one runs, as a fork if it may be one. Does not wait for its imports."""
        if self.alive:
            return
        self.close()
        env = {**os.environ, **self.environment, "PYTHONPATH": python_path()}
        with cores.aside():
            self._process = JsonProcess(
                self._command, env=env, name="process that runs the programs", door=shared_memory.DOOR,
                forks=self._forks if fork else None,
            )  # fmt: skip
        self.generation += 1

    def warm(self, cancelled: Callable[[], bool] = lambda: False) -> dict:
        """{name, uuid, total_bytes, capability} of its GPU, once everything is imported. Raises WorkerLost."""
        self.start()
        if self.about is None:
            process = self._process
            try:
                self.about = self._opened(cancelled)
            except WorkerLost as e:
                if not process.forked or e.why == "cancelled":
                    raise
                if not process.never_ran:
                    self._forks.failed(str(e))  # no fork works here
                self.start(fork=False)
                self.about = self._opened(cancelled)
        return self.about

    def _opened(self, cancelled: Callable[[], bool]) -> dict:
        reply = self._process.request({"op": "warm"}, timeout=WARM_SECONDS, cancelled=cancelled)
        if "error" in reply or "wrong" in reply:
            self.close()
            raise WorkerLost("died", f"the GPU could not be opened: {reply['message']}")
        return reply

    def to_all_cores(self) -> None:
        """It is timed from now on (engine.cores)."""
        if self.alive:
            cores.everywhere([self._process.pid])

    def ask(
        self, step: str, op: str, *, timeout: float, cancelled: Callable[[], bool] = lambda: False, **arguments: object
    ) -> dict:
        """The answer to one request. Raises TrialError(step) with the reason, and replaces the process if it is
        lost."""
        if not self.alive:
            raise TrialError(step, "worker_lost", "the process that runs the programs was lost")
        patience = time.monotonic() + GRACE
        try:
            reply = self._process.request(
                {"op": op, **arguments}, timeout=timeout, cancelled=lambda: time.monotonic() > patience and cancelled()
            )
        except WorkerLost as e:
            self.restart()
            code = {"timeout": "timeout", "cancelled": "cancelled"}.get(e.why, "worker_lost")
            words = {
                "timeout": f"the program did not come to an end within {timeout:.0f} s",
                "cancelled": "stopped on request",
            }
            raise TrialError(step, code, words.get(e.why, f"the program was lost: {e}"), e.log or None) from None
        if "wrong" in reply:
            code, message = reply["wrong"], reply["message"]
            log = self._process.log()
            if reply["lost"]:
                self.restart()
            log = f"{message}\n\n{log}".strip() if reply["lost"] or code in _WORDS else None
            raise TrialError(step, code, _WORDS.get(code, message), log)
        if "error" in reply:
            first = next((line for line in reply["message"].splitlines() if line.strip()), "")
            raise TrialError(
                step, "run_failed", f"the program could not be run: {reply['error']}: {first[:300]}", reply["message"]
            )
        return reply

    def block(self, step: str, size: int) -> int:
        """Let the process make a block of memory (engine.evaluate.shared_memory). Its descriptor, which the caller
        closes. Raises TrialError(step), NotShared."""
        self.ask(step, "share", timeout=60.0, size=size)
        return self.descriptor()

    def descriptor(self) -> int:
        """A descriptor that the process sent, which the caller closes. Raises NotShared."""
        return shared_memory.take(self._process.door.ours)

    def request(self, message: dict, timeout: float) -> dict:
        """The answer to one message of the judge in this process (engine.evaluate.integrity.process.judge.Host). Raises
        WorkerLost if the process is lost, and replaces it."""
        self.start()
        try:
            reply = self._process.request(message, timeout=timeout)
        except WorkerLost:
            self.restart()
            raise
        if "wrong" not in reply:
            return reply
        if reply["lost"]:
            self.restart()
            raise WorkerLost("died", f"the process that judges was lost: {reply['message']}")
        return {"error": reply["wrong"], "message": reply["message"]}

    def restart(self) -> None:
        """End the process and start another, which imports in the background."""
        self.close()
        self.start()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process, self.about = None, None
