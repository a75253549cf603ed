"""Which operations a program may hold at all, by what they are and by the tensors that they read and make."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import FLOATS, has_rule, without_rule
from engine.strategies.planner.refusals import refuse
from sol.graph import Op, OpGraph

VARIES = "has a size that depends on values, and a program has one size"


def of_one_size(graph: OpGraph) -> OpGraph:
    """The graph, if every tensor has the same size in each call. Raises SessionRefused."""
    op = next((op for op in graph.live if any(graph.tensors[n].varies for n in op.outputs)), None)
    if op is not None:
        raise refuse(op, VARIES)
    return graph


def unsuitable(op: Op, graph: OpGraph) -> SessionRefused | None:
    """Why no program holds an operation, or None."""
    tensors = [graph.tensors[n] for n in (*op.inputs, *op.outputs)]
    if any(t.varies for t in tensors):
        return refuse(op, VARIES)
    if any(t.dtype == "f64" for t in tensors):
        return refuse(op, f"computes in float64, and programs in {FLOATS}")
    return None if has_rule(op, graph) else without_rule(op)


__all__ = ["VARIES", "of_one_size", "unsuitable"]
