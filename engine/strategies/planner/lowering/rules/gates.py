"""Gated linear units as the operations that they are made of, so that the other rules lower them: `glu` cuts its tensor
in two along one axis, and multiplies the first half by the sigmoid of the second."""

from __future__ import annotations

from dataclasses import replace

from sol.graph import OpGraph, Tensor

GATES = ("glu",)


def without_gates(graph: OpGraph) -> OpGraph:
    """The graph with each gate written out; other operations are as they were. All parts of a gate have its name, by
    which the rules blame an operation."""
    if not any(op.op in GATES for op in graph.ops):
        return graph
    tensors, ops = dict(graph.tensors), []
    for op in graph.ops:
        if op.op not in GATES:
            ops.append(op)
            continue
        out = tensors[op.outputs[0]]
        axis = int(op.attrs.get("dim", -1)) % len(out.shape)
        first, second, gate = (f"{out.name}__{part}" for part in ("first", "second", "gate"))
        tensors |= {n: Tensor(n, out.shape, out.dtype, "intermediate") for n in (first, second, gate)}
        half = out.shape[axis]
        for name, start in ((first, 0), (second, half)):
            attrs = {"dim": axis, "start": start, "end": start + half, "step": 1}
            ops.append(replace(op, op="slice", outputs=(name,), attrs=attrs))
        ops.append(replace(op, op="sigmoid", inputs=(second,), outputs=(gate,), attrs={}))
        ops.append(replace(op, op="mul", inputs=(first, gate), attrs={}))
    return replace(graph, tensors=tensors, ops=tuple(ops))


__all__ = ["GATES", "without_gates"]
