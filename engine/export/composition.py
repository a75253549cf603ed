"""A whole module as programs and the PyTorch operations between them: what is exported, and its JSON form.

This file is the meaning of `composition.json` in a package, which shipped/compose.py turns into a forward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsl.check.program import check
from engine.export import Exported, ExportError
from sol.bounds import pytorch_class
from sol.cost.runs import border, runs
from sol.figures import Figure
from sol.graph import Op, OpGraph

KINDS = ("input", "parameter", "buffer", "constant")


@dataclass(frozen=True)
class Placed:
    """A program in its module. `number`: of its region, 0 if it is all of the module; `ops`: the operations that it
    stands for; `inputs`: the module's tensors that its parameters are, [{name, tensor, shape, transposed}]; `outputs`:
    the tensors that its results are, in order."""

    program: Exported
    ops: tuple[str, ...]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[str, ...]
    number: int = 0

    @property
    def name(self) -> str:
        return f"region_{self.number}" if self.number else "program"


@dataclass(frozen=True)
class Whole:
    """A module to export.

    title     for a person; the package is named after it.
    cls       the class that all programs are in, and that PyTorch computes the rest in.
    module    the source of the original.
    graph     its traced operations; they need not all be in a program.
    placed    the programs, in the order of their regions.
    values    the arguments of forward that are no tensors, which the graph holds as numbers; None if unknown.
    results   JSON-ready facts of the session, or None; `figures` as in Exported.
    captured  whether its calls replay one CUDA graph, because that was the faster way in the session.
    fused     whether Inductor compiles what stays PyTorch, because that was the faster way in the session.
    """

    title: str
    cls: str
    module: str | None
    graph: OpGraph
    placed: tuple[Placed, ...]
    values: tuple[Any, ...] | None = None
    results: Mapping[str, Any] | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    captured: bool = False
    fused: bool = False

    @property
    def rest(self) -> tuple[Op, ...]:
        """The operations that stay PyTorch."""
        inside = {name for p in self.placed for name in p.ops}
        return tuple(op for op in self.graph.live if op.name not in inside)

    @property
    def stem(self) -> str:
        """The name of its package, without the prefix."""
        words = re.sub(r"\W+", "_", self.title.lower(), flags=re.ASCII).strip("_")[:40].strip("_")
        return words or "module"


def to_json(whole: Whole, digests: Mapping[str, str]) -> dict[str, Any]:
    """`composition.json`. `digests`: of each program by its name, for the name of its operator. Raises ExportError."""
    graph, steps = whole.graph, []
    groups = [p.ops for p in whole.placed]
    try:
        for at, ops in graph.steps(groups):
            rows = [_operation(op) for op in ops]
            steps.append(rows[0] if at is None else _program(whole, whole.placed[at], rows, digests))
        if whole.fused:
            steps = _fused(steps, runs(graph, groups), graph)
    except ValueError as e:
        raise ExportError(f"the programs have no order: {e}") from None
    read = {n for step in steps for n in _names(step)} | {*graph.inputs, *graph.outputs, *graph.writes}
    return {
        "class": whole.cls,
        "rest": pytorch_class(whole.cls, graph),
        "settled": graph.settled,
        "captured": whole.captured,
        "arguments": len(graph.inputs),
        **({"values": list(whole.values)} if whole.values is not None else {}),
        "inputs": list(graph.inputs),
        "returned": list(graph.returned),
        "written": [list(pair) for pair in graph.written.items()],
        "tensors": {
            n: {"shape": list(t.shape), "dtype": t.dtype, "kind": t.kind, "path": t.path}
            for n, t in graph.tensors.items()
            if n in read
        },
        "steps": steps,
    }


def _operation(op: Op) -> dict[str, Any]:
    return {"op": op.op, "reads": list(op.inputs), "makes": list(op.outputs), "attrs": op.attrs}


def _fused(steps: list[dict[str, Any]], parts: list[tuple[Op, ...]], graph: OpGraph) -> list[dict[str, Any]]:
    """The steps, each run of PyTorch's operations as one of them: {fused: its operations, reads, makes}."""
    for run in parts:
        at = steps.index(_operation(run[0]))
        mine, others = steps[at : at + len(run)], [*steps[:at], *steps[at + len(run) :]]
        own, beside = [(step["reads"], step["makes"]) for step in mine], [(_names(step), ()) for step in others]
        reads, makes = border(own, beside, [*graph.outputs, *graph.written.values()])
        one = {"fused": mine, "reads": list(reads), "makes": list(makes)}
        steps = [*others[:at], one, *others[at:]]
    return steps


def _program(whole: Whole, placed: Placed, ops: list[dict], digests: Mapping[str, str]) -> dict[str, Any]:
    """Inputs as [tensor, shape, transposed, element type], results as [tensor, shape, element type]."""
    program = check(placed.program.text).program
    if program is None:
        raise ExportError(f"the program of {placed.name} does not pass its checks")
    types = {p.name: p.type for p in program.params}
    if len(placed.outputs) != len(program.results) or {b["name"] for b in placed.inputs} != set(types):
        raise ExportError(f"the session does not say which of the module's tensors the program of {placed.name} reads")
    bindings = {b["name"]: b for b in placed.inputs}
    reads = [
        [
            bindings[p.name]["tensor"],
            list(p.type.shape),
            bool(bindings[p.name].get("transposed")),
            p.type.dtype.value,
        ]
        for p in program.params
    ]
    makes = [
        [tensor, list(t.shape), t.dtype.value] for tensor, t in zip(placed.outputs, program.result_types, strict=True)
    ]
    name = f"{whole.stem}_{placed.name}_{digests[placed.name][:12]}"
    return {"program": placed.name, "operator": name, "reads": reads, "makes": makes, "ops": ops}


def _names(step: dict[str, Any]) -> list[str]:
    if "program" not in step:
        return [*step["reads"], *step["makes"], *(n for op in step.get("fused", ()) for n in _names(op))]
    return [row[0] for row in (*step["reads"], *step["makes"])] + [n for op in step["ops"] for n in _names(op)]


__all__ = ["Placed", "Whole", "to_json"]
