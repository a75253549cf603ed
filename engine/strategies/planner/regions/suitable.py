"""Which operations a program may hold at all, by what they are and by the tensors that they read and make."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import FLOATS, has_rule, without_rule
from engine.strategies.planner.refusals import refuse
from sol.graph import Op, OpGraph

VARIES = "has a size that depends on values, and a program has one size"
EMPTY = "reads or makes a tensor without elements, which no program does"


def of_one_size(graph: OpGraph) -> OpGraph:
    """The graph, if every tensor has elements, and as many in each call. Raises SessionRefused."""
    for op in graph.live:
        tensors = [graph.tensors[n] for n in (*op.inputs, *op.outputs)]
        if why := VARIES if any(t.varies for t in tensors) else EMPTY if any(0 in t.shape for t in tensors) else "":
            raise refuse(op, why)
    return graph


def unsuitable(op: Op, graph: OpGraph) -> SessionRefused | None:
    """Why no program holds an operation, or None."""
    tensors = [graph.tensors[n] for n in (*op.inputs, *op.outputs)]
    if any(t.varies for t in tensors):
        return refuse(op, VARIES)
    if any(0 in t.shape for t in tensors):
        return refuse(op, EMPTY)
    if any(t.dtype == "f64" for t in tensors):
        return refuse(op, f"computes in float64, and programs in {FLOATS}")
    return None if has_rule(op, graph) else without_rule(op)


__all__ = ["EMPTY", "VARIES", "of_one_size", "unsuitable"]
