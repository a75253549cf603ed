"""A module with programs in its regions, as a bench's child runs it: verified and timed with the interface of one
program (engine.evaluate.candidate.region_program). Needs torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from dsl.check.program import check
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.candidate.noop_probe import Launches
from engine.evaluate.candidate.region_program import Assembled
from engine.evaluate.candidate.region_runtime import Composed, Place
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.inputs import torch_dtype
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.suite.evidence import Loaded
from engine.suite.problem import Instance
from sol.graph import OpGraph


@dataclass
class Whole(Loaded):
    """`artifact` and `run` of a program are those of all of them here; `module` is the assembled one."""

    module: Assembled

    @staticmethod
    def load(graph: OpGraph, placed: list[dict], values: dict[str, torch.Tensor], device: str, cls: str) -> Whole:
        snapshot = Snapshot()
        made = Assembled(graph, placed, device, cls)
        inputs = [values[n] for n in made.composed.read]
        outputs = [Guarded(tuple(b["shape"]), torch_dtype(b["dtype"]), device) for b in made.outputs]
        return Whole(made, None, made.run, inputs, outputs, snapshot)

    def call(self) -> None:
        super().call()
        self.module.deliver()

    def first(self) -> tuple[str, str] | None:
        """One call, what programs hand on watched: (code, sentence) of a wrong write."""
        return self.module.watched(self.inputs, [o.tensor for o in self.outputs])

    def quiet(self) -> AbstractContextManager[tuple[Callable, Launches]]:
        return self.module.silenced()

    @property
    def runs(self) -> list[Callable]:
        return self.module.runs


def meaning(
    graph: OpGraph, placed: list[dict], values: dict[str, torch.Tensor], device: str, cls: str
) -> dict[str, torch.Tensor]:
    """The module's results where each program's meaning stands in the place of its machine code."""
    places = [
        Place(frozenset(p["ops"]), p["inputs"], p["outputs"], meaning=functools.partial(_meant, p["program"]))
        for p in placed
    ]
    return Composed(graph, places, device, cls).run(values)


def _meant(text: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return oracle.run(check(text).program, inputs)


def values(graph: OpGraph, problem: Instance) -> dict[str, torch.Tensor]:
    """Every tensor of the module that an operation reads, by its name in the graph. Raises LookupError."""
    state = problem.model.state_dict()
    found: dict[str, Any] = dict(zip(graph.inputs, problem.inputs, strict=True))
    for name, t in graph.tensors.items():
        if t.kind == "intermediate" or name in found or not graph.readers.get(name):
            continue
        found[name] = (state[t.path] if t.path in state else _attribute(problem.model, t.path)).detach()
    return found


def _attribute(model: torch.nn.Module, path: str) -> torch.Tensor:
    """A tensor that the module holds without having registered it."""
    held = functools.reduce(lambda at, name: getattr(at, name, None), path.split("."), model) if path else None
    if not isinstance(held, torch.Tensor):
        raise LookupError(f"the module holds no tensor {path!r}")
    return held
