"""The engine's side of the judge (judge_main): send requests, and the problem again after its process is replaced.

The judge runs in its own process (`OwnProcess`), or in one that a session has anyway and whose handlers include
`judge_main.handlers`.
"""

from __future__ import annotations

import os
from typing import Protocol

from engine import start
from engine.evaluate import shared_memory
from engine.evaluate.shared_tensors import Region
from engine.jsonprocess import JsonProcess, WorkerLost, python_path
from sol.graph import OpGraph

SECONDS = 120.0
BLOCK = "block"  # the path of a region in the memory that the judge shares with a candidate


class JudgeLost(Exception):
    """The judge itself failed, which says nothing about the candidate."""


class Host(Protocol):
    """A process of ours that answers the judge's requests. `generation` changes when it is replaced."""

    generation: int

    @property
    def alive(self) -> bool: ...

    def start(self) -> None:
        """Start in the background; does not wait."""

    def request(self, message: dict, timeout: float) -> dict:
        """The answer to one message. Raises WorkerLost; the next request starts another process."""

    def descriptor(self) -> int:
        """A descriptor that the process sent, which the caller closes. Raises NotShared."""

    def close(self) -> None: ...


class OwnProcess:
    """A judge in its own process. `device`: cuda | cpu."""

    def __init__(self, device: str = "cpu"):
        self.device, self.generation = device, 0
        self._process: JsonProcess | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        if self.alive:
            return
        self.close()
        args = start.command("engine.evaluate.integrity.process.judge_main", "--device", self.device)
        env = {**os.environ, "PYTHONPATH": python_path()}
        self._process = JsonProcess(args, env=env, name="judge", door=shared_memory.DOOR)
        self.generation += 1

    def request(self, message: dict, timeout: float) -> dict:
        self.start()
        return self._process.request(message, timeout=timeout)

    def descriptor(self) -> int:
        return shared_memory.take(self._process.door.ours)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None


class Judge:
    """Holds one problem at a time. Raises JudgeLost. `host`: the process that it runs in; None: its own."""

    def __init__(self, device: str = "cpu", host: Host | None = None):
        self.host = host if host is not None else OwnProcess(device)
        self._own = host is None
        self._open: tuple[dict, int] | None = None  # the problem, and the host's generation that has it

    def start(self) -> Judge:
        """Start to import; does not wait."""
        self.host.start()
        return self

    def open(self, graph: OpGraph, own: Region) -> None:
        """Start a problem: its graph, and the module's own tensors."""
        self._open = ({"graph": graph.to_json(), "own": own.to_json()}, -1)
        self._take_up()

    def ask(self, op: str, **arguments: object) -> dict:
        """The answer to one request of judge_main.REQUESTS."""
        if self._open is not None:
            self._take_up()
        return self._ask(op, arguments)

    def descriptor(self) -> int:
        """A descriptor that the judge's process sent with its last answer. Raises JudgeLost."""
        try:
            return self.host.descriptor()
        except shared_memory.NotShared as e:
            raise JudgeLost(str(e)) from None

    @property
    def holds(self) -> bool:
        """Return True if a problem is open."""
        return self._open is not None

    def forget(self) -> None:
        """Drop the problem, and free its memory if the process lives on."""
        if self._open is not None and self.host.alive and self._open[1] == self.host.generation:
            self._ask("forget", {})
        self._open = None

    def _take_up(self) -> None:
        self.host.start()
        problem, generation = self._open
        if generation != self.host.generation:
            self._ask("open", problem)
            self._open = (problem, self.host.generation)

    def _ask(self, op: str, arguments: dict) -> dict:
        try:
            reply = self.host.request({"op": f"judge_{op}", **arguments}, SECONDS)
        except WorkerLost as e:
            raise JudgeLost(f"{e} {e.log[-300:]}".strip()) from None
        if "error" in reply:
            raise JudgeLost(f"{reply['error']}: {reply['message']}")
        return reply

    def close(self) -> None:
        """End its own process. A host belongs to its owner."""
        if self._own:
            self.host.close()
        self._open = None
