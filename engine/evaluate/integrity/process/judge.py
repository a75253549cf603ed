"""The engine's side of the judge (judge_main): started once, asked in turn, started again when it is lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.evaluate.shared_tensors import Region
from engine.jsonprocess import JsonProcess, WorkerLost
from sol.graph import OpGraph

SECONDS = 120.0
_REPOSITORY = Path(__file__).resolve().parents[4]


class JudgeLost(Exception):
    """The judge itself failed: says nothing about the candidate."""


class Judge:
    """Holds one problem at a time. Raises JudgeLost."""

    def __init__(self, device: str = "cpu"):
        self.device = device
        self._process: JsonProcess | None = None
        self._open: dict | None = None

    def start(self) -> Judge:
        """Begins importing; does not wait."""
        if self._process is None or not self._process.alive:
            self.close()
            path = os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
            args = [sys.executable, "-m", "engine.evaluate.integrity.process.judge_main", "--device", self.device]
            self._process = JsonProcess(args, env={**os.environ, "PYTHONPATH": path}, name="judge")
        return self

    def open(self, graph: OpGraph, own: Region) -> None:
        self._open = {"graph": graph.to_json(), "own": own.to_json()}
        self.ask("open", **self._open)

    def ask(self, op: str, **arguments: object) -> dict:
        fresh = self._process is None or not self._process.alive
        self.start()
        try:
            if fresh and op != "open" and self._open is not None:
                self._process.request({"op": "open", **self._open}, timeout=SECONDS)
            reply = self._process.request({"op": op, **arguments}, timeout=SECONDS)
        except WorkerLost as e:
            raise JudgeLost(f"{e} {e.log[-300:]}".strip()) from None
        if "error" in reply:
            raise JudgeLost(f"{reply['error']}: {reply['message']}")
        return reply

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None
