"""A module of several programs and a rest: what is expected of it as a whole, and how its workers are told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from dsl.ir import Program
from engine.devices import Placed
from sol.attainable import predict, predict_eager
from sol.bounds import pytorch_class
from sol.cost.graph_costs import costs_of
from sol.graph import OpGraph
from sol.hardware import Hardware


def expected_ms(
    graph: OpGraph, placed: Iterable[tuple[Iterable[str], Program]], hw: Hardware, cls: str
) -> tuple[float, float]:
    """(the whole module, its programs alone) in ms: each program by the attainable model, every other operation as
    PyTorch runs it in the class. `placed`: (operations, resolved program)."""
    from engine.strategies.planner.regions.partition import subgraph

    inside: set[str] = set()
    covered = 0.0
    for ops, program in placed:
        inside.update(ops)
        covered += predict(program, hw).ms
    rest = [op for op in graph.live if op.name not in inside]
    moves = [op for op in rest if costs_of(graph)[op.name].kind not in ("view", "none")]
    if not moves:
        return covered, covered
    theirs = pytorch_class(cls, graph)
    return covered + predict_eager(subgraph(graph, rest), hw, theirs, cast_parameters=True).ms, covered


def to_json(placed: Placed, **more: object) -> dict:
    """A program in its place as a worker reads it; `more`: where its machine code lies."""
    types = placed.program.result_types
    outputs = [{**asdict(b), "dtype": t.dtype.value} for b, t in zip(placed.outputs, types, strict=True)]
    inputs = [asdict(b) for b in placed.inputs]
    return {"ops": list(placed.ops), "program": placed.text, "inputs": inputs, "outputs": outputs, **more}
