"""Rewrites that omit work of the module: legal mathematics, but another algorithm than the pasted one.

    sum of a product's columns   (A @ B + b).sum(-1) is A @ B.sum(-1) + b.sum(): a matrix times a vector
    sum of a product's rows      (A @ B).sum(0) is A.sum(0) @ B; the same holds for the channels of a convolution
    order of a chain             (A @ B) @ C is A @ (B @ C) where that takes fewer FLOPs

A mean is a sum. Between the product and the sum may stand anything that is linear and the same for all that is summed:
a division by a number, a scale of each row, an addition.

A rewrite's result is called `algebraic` wherever it is shown, is compared with the limit of what it computes, and is
never the best unless the user allows it. Rewrites that do the module's own work in another way do not count here:
lowering makes them without asking.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from sol.graph import Op, OpGraph, Tensor

_PRODUCTS = ("mm", "matmul", "bmm")
_CONVOLUTIONS = tuple(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3))
_FLOATS = ("f64", "f32", "f16", "bf16")
_WORTH = 0.75  # share of a chain's FLOPs above which another order is not worth proposing

# Rewrites of one graph: a chain of n products has n * n of them, and each looks through the whole graph again.
_MOST = 200


@dataclass(frozen=True)
class Rewritten:
    """`graph`: the same inputs and outputs, less work; `words`: the rewrite, for a person."""

    graph: OpGraph
    words: str


def rewritten(graph: OpGraph) -> Rewritten | None:
    """The graph with every such rewrite applied, up to `_MOST`, or None if there is none."""
    words: list[str] = []
    while len(words) < _MOST:
        rewrite = _sum(graph) or _chain(graph)
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
        return replace(self.graph, tensors=tensors, ops=tuple(ops))


def _alone(graph: OpGraph, name: str) -> Op | None:
    """The only reader of a tensor that the module does not return."""
    readers = graph.readers.get(name, [])
    return readers[0] if len(readers) == 1 and name not in graph.outputs else None


# ---- sums that move before a product ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Linear:
    """A product or convolution as a linear map: which of its result's axes each operand has alone.

    `axes`: axis of the result -> (number of the operand, its axis). A sum over such an axis can be taken of the operand
    instead. `added`: the input that is added to the product, aligned at the right unless it is a convolution's bias.
    """

    axes: dict[int, tuple[int, int]]
    operands: tuple[int, int] = (0, 1)
    added: int | None = None


def _linear_map(graph: OpGraph, op: Op) -> _Linear | None:
    """An operation as such a map, or None."""
    ins = [graph.tensors[n] for n in op.inputs]
    rank = len(graph.tensors[op.outputs[0]].shape)
    bias = 2 if len(ins) > 2 else None
    if op.op == "linear" and len(ins[1].shape) == 2:
        return _Linear({**{i: (0, i) for i in range(rank - 1)}, rank - 1: (1, 0)}, added=bias)
    if op.op == "addmm" and op.attrs.get("alpha", 1) == op.attrs.get("beta", 1) == 1:
        return _Linear({0: (1, 0), 1: (2, 1)}, (1, 2), added=0)
    if op.op in _PRODUCTS and min(len(ins[0].shape), len(ins[1].shape)) >= 2:
        a, b = len(ins[0].shape), len(ins[1].shape)
        own = {rank - 2: (0, a - 2), rank - 1: (1, b - 1)}
        batch = {} if a == b else {i: (0, i) if a > b else (1, i) for i in range(rank - 2 - (min(a, b) - 2))}
        return _Linear(batch | own)
    if op.op in _CONVOLUTIONS and op.attrs.get("groups", 1) == 1 and len(ins[0].shape) == rank:
        axes = {0: (0, 0), 1: (1, 1 if "transpose" in op.op else 0)}
        window = (op.attrs.get(name, default) for name, default in (("stride", 1), ("padding", 0)))
        stride, padding = (max(v) if isinstance(v, list) and v else v for v in window)
        if prod(ins[1].shape[2:]) == 1 and stride == 1 and padding == 0:  # each place has a product of its own
            axes |= {i: (0, i) for i in range(2, rank)}
        return _Linear(axes, added=bias)
    return None


def _dims(op: Op, rank: int) -> list[int]:
    dims = op.attrs.get("dim")
    if dims is None or dims == []:
        return list(range(rank))
    return sorted({d % rank for d in ([dims] if isinstance(dims, int) else dims)})


def _size_along(t: Tensor, rank: int, axes: list[int]) -> list[tuple[int, int]]:
    """(axis of t, size) for each of these axes of a result of this rank that t has, aligned at the right."""
    shift = rank - len(t.shape)
    return [(a - shift, t.shape[a - shift]) for a in axes if a >= shift]


def _between(graph: OpGraph, op: Op) -> tuple[list[tuple[Op, str]], Op] | None:
    """The linear operations from a product to a sum or mean, each with the tensor that it changes, and that sum."""
    links, name = [], op.outputs[0]
    t = graph.tensors[name]
    while (reader := _alone(graph, name)) is not None:
        if reader.op in ("sum", "mean"):
            return (links, reader) if reader.attrs.get("dtype") is None else None
        out = graph.tensors[reader.outputs[0]]
        if reader.op not in ("mul", "div", "neg", "add", "sub", "rsub") or (out.shape, out.dtype) != (t.shape, t.dtype):
            return None
        by_it = reader.op == "div" and reader.inputs[0] != name
        if by_it or reader.inputs.count(name) != 1 or reader.attrs.get("rounding_mode") is not None:
            return None
        if not all(isinstance(v, int | float) for k, v in reader.attrs.items() if k in ("other", "alpha")):
            return None  # infinity
        links.append((reader, name))
        name = reader.outputs[0]
    return None


def _sum(graph: OpGraph) -> Rewritten | None:
    """A sum after a product, taken before it."""
    for op in graph.ops:
        linear = _linear_map(graph, op)
        after = None if linear is None else _between(graph, op)
        if after is None:
            continue
        links, total = after
        out = graph.tensors[op.outputs[0]]
        dims = [d for d in _dims(total, len(out.shape)) if d in linear.axes and out.shape[d] > 1]
        dims = [d for d in dims if all(_same_along(graph, link, name, len(out.shape), d) for link, name in links)]
        operands = [graph.tensors[op.inputs[i]] for i in linear.operands]
        if not dims or out.dtype not in _FLOATS or any(t.dtype != out.dtype for t in operands):
            continue
        return Rewritten(_Summed(graph, op, linear, links, total, dims).graph(), _words(op, dims, len(out.shape)))
    return None


def _same_along(graph: OpGraph, link: Op, name: str, rank: int, dim: int) -> bool:
    """Return True if a sum over the axis can be taken before the operation: it adds, or all that is summed has one
    factor."""
    if link.op not in ("mul", "div"):
        return True
    others = [graph.tensors[n] for n in link.inputs if n != name]
    return all(size == 1 for t in others for _, size in _size_along(t, rank, [dim]))


def _words(op: Op, dims: list[int], rank: int) -> str:
    if op.op in _CONVOLUTIONS:
        return f"a sum over a convolution's {'channels' if 1 in dims else 'results'} before the convolution"
    if rank - 1 in dims:
        return "a sum over a product's columns as a matrix-vector product"
    return "a sum over a product's rows before the product"


class _Summed:
    """The rewritten graph of one sum after a product. `dims`: the summed axes that move before the product; every
    tensor on the way keeps them with size 1."""

    def __init__(self, graph: OpGraph, op: Op, linear: _Linear, links: list, total: Op, dims: list[int]):
        self.old, self.op, self.linear, self.links, self.total, self.dims = graph, op, linear, links, total, dims
        self.edit = _Edit(graph, [op, *(link for link, _ in links)], total)
        self.shape = graph.tensors[op.outputs[0]].shape
        # A bias whose axis is not summed stays in the product, once for each summed result.
        channel = 1 if op.op in _CONVOLUTIONS else len(self.shape) - 1
        self.biased = linear.added == 2 and channel not in dims
        self.reduced = tuple(1 if i in dims else n for i, n in enumerate(self.shape))

    def graph(self) -> OpGraph:
        edit, rank = self.edit, len(self.shape)
        at = self._product()
        steps: list[tuple[str, list[str], dict]] = []  # after the product, in order
        if self.linear.added is not None and not self.biased:
            name = self.op.inputs[self.linear.added]
            steps += self._added(name, 1, conv=self.op.op in _CONVOLUTIONS)
        for link, name in self.links:
            steps += self._link(link, name)
        every = _dims(self.total, rank)
        if self.total.op == "mean":
            steps.append(("mul", [], {"other": 1 / prod(self.shape[d] for d in every)}))
        result = self.old.tensors[self.total.outputs[0]]
        if [d for d in every if self.reduced[d] > 1]:
            steps.append(("sum", [], {"dim": every, "keepdim": bool(self.total.attrs.get("keepdim")), "dtype": None}))
        elif result.shape != self.reduced:
            steps.append(("view", [], {"size": list(result.shape)}))
        if not steps:
            steps.append(("view", [], {"size": list(result.shape)}))
        for i, (name, more, attrs) in enumerate(steps):
            last = i == len(steps) - 1
            inputs = [*more, at] if attrs.pop("second", False) else [at, *more]
            at = edit.op(name, inputs, result.shape if last else self.reduced, result.name if last else "", **attrs)
        return edit.done()

    def _sum_of(self, name: str, axes: list[int], keepdim: bool = True) -> str:
        t = self.edit.tensors[name]
        if keepdim:
            shape = tuple(1 if i in axes else n for i, n in enumerate(t.shape))
        else:
            shape = tuple(n for i, n in enumerate(t.shape) if i not in axes)
        return self.edit.op("sum", [name], shape, dim=axes, keepdim=keepdim, dtype=None)

    def _product(self) -> str:
        """The product of operands that are summed already, of the shape `reduced`."""
        edit, op, rank = self.edit, self.op, len(self.shape)
        names = [op.inputs[i] for i in self.linear.operands]
        vector = rank - 1 in self.dims and op.op not in _CONVOLUTIONS and len(edit.tensors[names[1]].shape) == 2
        for i, operand in enumerate(self.linear.operands):
            axes = sorted(axis for d in self.dims for o, axis in [self.linear.axes[d]] if o == operand)
            if axes:
                names[i] = self._sum_of(names[i], axes, keepdim=not (vector and i == 1))
        if vector:  # a matrix times a vector
            shape = edit.tensors[names[0]].shape[:-1]
            at = edit.op("mv" if len(shape) == 1 else "matmul", names, shape)
            return edit.op("view", [at], self.reduced, size=list(self.reduced))
        attrs = {} if op.op == "addmm" else dict(op.attrs)
        if self.biased:
            shape = edit.tensors[op.inputs[2]].shape
            times = prod(self.shape[d] for d in self.dims)
            names.append(edit.op("mul", [op.inputs[2]], shape, other=times))
        elif op.op in ("linear", *_CONVOLUTIONS):
            attrs["bias"] = None
        return edit.op("mm" if op.op == "addmm" else op.op, names, self.reduced, **attrs)

    def _added(self, name: str, factor: float, conv: bool = False) -> list[tuple[str, list[str], dict]]:
        """The addition of a tensor's sum, times `factor`. A dimension that the tensor has not counts too. `conv`: it is
        the bias of a convolution."""
        t, rank = self.old.tensors[name], len(self.shape)
        own = [(0, t.shape[0])] if conv else _size_along(t, rank, self.dims)
        axes = [axis for axis, size in own if size > 1]
        repeats = prod(self.shape[d] for d in self.dims) // prod(size for _, size in own)
        if axes:
            name = self._sum_of(name, axes)
        if repeats * factor != 1:
            shape = self.edit.tensors[name].shape
            name = self.edit.op("mul", [name], shape, other=repeats * factor)
        return [("add", [name], {"alpha": 1})]

    def _link(self, link: Op, name: str) -> list[tuple[str, list[str], dict]]:
        """One operation between product and sum, on the summed tensor."""
        others = [n for n in link.inputs if n != name]
        if link.op in ("mul", "div", "neg"):
            return [(link.op, others, dict(link.attrs))]
        alpha, first = link.attrs.get("alpha", 1), link.inputs[0] == name
        # add: self + alpha other; sub: self - alpha other; rsub: other - alpha self
        sign = 1 if link.op == "add" else -1
        of_it, of_other = (1, sign * alpha) if first else (sign * alpha, 1)
        if link.op == "rsub":
            of_it, of_other = (-alpha, 1) if first else (1, -alpha)
        steps: list[tuple[str, list[str], dict]] = [] if of_it == 1 else [("mul", [], {"other": of_it})]
        if others:
            return steps + self._added(others[0], of_other)
        number = link.attrs.get("other", 0) * of_other * prod(self.shape[d] for d in self.dims)
        return [*steps, ("add", [], {"other": number, "alpha": 1})]


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
