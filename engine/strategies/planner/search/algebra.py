"""Rewrites that omit work of the module: legal mathematics, but another algorithm than the pasted one.

    sum of a product's columns   (A @ B + b).sum(-1) is A @ B.sum(-1) + b.sum(): a matrix times a vector
    order of a chain             (A @ B) @ C is A @ (B @ C) where that takes fewer FLOPs

A rewrite's result is called `algebraic` wherever it is shown, is compared with the limit of what it computes, and is
never the best unless the user allows it. Rewrites that do the module's own work in another way do not count here:
lowering makes them without asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from sol.graph import Op, OpGraph, Tensor

_PRODUCTS = ("mm", "matmul", "bmm")
_WORTH = 0.75  # share of a chain's FLOPs above which another order is not worth proposing


@dataclass(frozen=True)
class Rewritten:
    """`graph`: the same inputs and outputs, less work; `words`: the rewrite, for a person."""

    graph: OpGraph
    words: str


def rewritten(graph: OpGraph) -> Rewritten | None:
    """The graph with every such rewrite applied, or None if there is none."""
    words: list[str] = []
    while True:
        rewrite = _column_sum(graph) or _chain(graph)
        if rewrite is None:
            break
        graph = rewrite.graph
        words.append(rewrite.words)
    return Rewritten(graph, "; ".join(dict.fromkeys(words))) if words else None


class _Edit:
    """A graph in which new operations replace one operation and compute the same tensor."""

    def __init__(self, graph: OpGraph, gone: list[Op], at: Op):
        self.graph, self.gone, self.at = graph, {op.name for op in gone}, at
        self.tensors, self.ops = dict(graph.tensors), []

    def op(self, op: str, inputs: list[str], shape: tuple[int, ...], name: str = "", **attrs: Any) -> str:
        """Add an operation; `name`: of its result, if it replaces an old tensor."""
        out, dtype = name, self.graph.tensors[self.at.outputs[0]].dtype
        if not out:
            i = len(self.tensors)
            while (out := f"{op}_alg{i}") in self.tensors:
                i += 1
        self.tensors[out] = Tensor(out, shape, dtype, "intermediate")
        self.ops.append(Op(out, op, tuple(inputs), (out,), attrs, self.at.line, self.at.module))
        return out

    def done(self) -> OpGraph:
        ops = []
        for op in self.graph.ops:
            if op.name == self.at.name:
                ops += self.ops
            elif op.name not in self.gone:
                ops.append(op)
        used = {n for op in ops for n in (*op.inputs, *op.outputs)} | {*self.graph.inputs, *self.graph.outputs}
        tensors = {n: t for n, t in self.tensors.items() if n in used}
        return OpGraph(tensors, tuple(ops), self.graph.inputs, self.graph.outputs)


def _alone(graph: OpGraph, name: str) -> Op | None:
    """The only reader of a tensor that the module does not return."""
    readers = graph.readers.get(name, [])
    return readers[0] if len(readers) == 1 and name not in graph.outputs else None


def _dims(op: Op, rank: int) -> list[int] | None:
    dims = op.attrs.get("dim")
    if dims is None:
        return None
    return sorted({d % rank for d in ([dims] if isinstance(dims, int) else dims)})


def _column_sum(graph: OpGraph) -> Rewritten | None:
    for op in graph.ops:
        if op.op not in ("linear", *_PRODUCTS[:2]):
            continue
        out = graph.tensors[op.outputs[0]]
        total = _alone(graph, out.name)
        if total is None or total.op not in ("sum", "mean") or _dims(total, len(out.shape)) != [len(out.shape) - 1]:
            continue
        a, b = (graph.tensors[n] for n in op.inputs[:2])
        if len(b.shape) != 2 or len(a.shape) != 2 or out.dtype != a.dtype or total.attrs.get("dtype") is not None:
            continue
        n, axis = out.shape[-1], 0 if op.op == "linear" else 1
        return Rewritten(
            _summed(graph, op, total, n, axis), "a sum over a product's columns as a matrix-vector product"
        )
    return None


def _summed(graph: OpGraph, op: Op, total: Op, n: int, axis: int) -> OpGraph:
    edit = _Edit(graph, [op], total)
    (m, k), keep = graph.tensors[op.inputs[0]].shape, bool(total.attrs.get("keepdim"))
    result, shape = total.outputs[0], (m, 1) if keep else (m,)
    steps: list[tuple[str, list[str], dict]] = []  # after the product, in order; the last one computes the result
    vector = edit.op("sum", [op.inputs[1]], (k,), dim=[axis], keepdim=False)
    if len(op.inputs) > 2:
        bias = edit.op("sum", [op.inputs[2]], (1,), dim=[0], keepdim=True)
        steps.append(("add", [bias], {"alpha": 1}))
    if total.op == "mean":
        steps.append(("mul", [], {"other": 1 / n}))
    if keep:
        steps.append(("view", [], {"size": [m, 1]}))
    at = edit.op("mv", [op.inputs[0], vector], (m,), "" if steps else result)
    for i, (name, more, attrs) in enumerate(steps):
        last = i == len(steps) - 1
        at = edit.op(name, [at, *more], shape if last else (m,), result if last else "", **attrs)
    return edit.done()


def _chain(graph: OpGraph) -> Rewritten | None:
    for inner in graph.ops:
        outer = _alone(graph, inner.outputs[0]) if inner.op in _PRODUCTS else None
        if outer is None or outer.op not in _PRODUCTS:
            continue
        first, second = (graph.tensors[n] for n in inner.inputs)
        left = outer.inputs[0] == inner.outputs[0]
        other = graph.tensors[outer.inputs[1 if left else 0]]
        if not left and outer.inputs[1] != inner.outputs[0]:
            continue
        a, b, c = (first, second, other) if left else (other, first, second)
        if not len(a.shape) == len(b.shape) == len(c.shape) or not a.shape[:-2] == b.shape[:-2] == c.shape[:-2]:
            continue
        if len(a.shape) < 2:
            continue
        (m, k), (n, p) = a.shape[-2:], c.shape[-2:]
        forward, backward = m * k * n + m * n * p, k * n * p + m * k * p
        now, then = (forward, backward) if left else (backward, forward)
        if then > _WORTH * now:
            continue
        edit = _Edit(graph, [inner], outer)
        lead = a.shape[:-2]
        if left:
            middle = edit.op(inner.op, [b.name, c.name], (*lead, k, p))
            edit.op(outer.op, [a.name, middle], (*lead, m, p), outer.outputs[0])
        else:
            middle = edit.op(inner.op, [a.name, b.name], (*lead, m, n))
            edit.op(outer.op, [middle, c.name], (*lead, m, p), outer.outputs[0])
        saved = 2 * prod(lead) * (now - then)
        words = f"a chain of products in another order, {saved / 1e9:.3g} GFLOP fewer"
        return Rewritten(edit.done(), words)
    return None


__all__ = ["Rewritten", "rewritten"]
