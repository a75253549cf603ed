"""Norms that a module writes out, as the one operation that they are, so that the rule of the norm lowers them.

Models spell RMS norm as x * rsqrt(mean(x^2) + eps), layer norm as (x - mean(x)) / sqrt(var(x) + eps), softmax as
exp(x - max(x)) / sum(exp(x - max(x))), and its logarithm as x - logsumexp(x). Taken one by one, the statistics are
stages of their own and x is read once for each of them; a norm reads it once. Only spellings that equal the norm for
every x are taken: a softmax without its maximum overflows where the norm does not, and stays as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sol.graph import Op, OpGraph

_COPIES = ("clone", "contiguous", "detach", "alias", "lift_fresh_copy")
_CASTS = ("to", "_to_copy", "type_as")
_HALF = ("f16", "bf16")


@dataclass(frozen=True)
class Norm:
    """x normalised over its last `axes` axes; `eps` None for a softmax."""

    op: str
    x: str
    axes: int
    eps: float | None = None


@dataclass
class _Values:
    """The values of a graph's tensors: two that are computed alike from the same tensors have the same name."""

    graph: OpGraph
    of: dict[str, str] = field(default_factory=dict)  # tensor -> the first one of the same value
    ops: dict[str, Op] = field(default_factory=dict)  # that one -> its operation
    alike: dict[tuple, str] = field(default_factory=dict)

    def add(self, op: Op) -> None:
        once = op.op in ("mul", "div") and len(op.inputs) == 1 and op.attrs.get("other") == 1  # x * 1
        if len(op.outputs) == 1 and (op.op in _COPIES or once or self._widens(op)):
            self.of[op.outputs[0]] = self[op.inputs[0]]
            return
        key = (op.op, tuple(self[x] for x in op.inputs), repr(sorted(op.attrs.items())))
        for i, name in enumerate(op.outputs):
            value = self.alike.setdefault((*key, i), name)
            self.of[name] = value
            if i == 0:
                self.ops.setdefault(value, op)

    def __getitem__(self, name: str) -> str:
        return self.of.get(name, name)

    def _widens(self, op: Op) -> bool:
        if op.op not in _CASTS:
            return False
        before, after = (self.graph.tensors[names[0]].dtype for names in (op.inputs, op.outputs))
        return before == after or (before in _HALF and after == "f32")

    def made(self, name: str, *by: str) -> Op | None:
        """The operation that makes a value, if it is one of `by`."""
        op = self.ops.get(self[name])
        return op if op is not None and op.op in by else None

    # ---- parts of a norm ----

    def added(self, name: str) -> tuple[str, float] | None:
        """(t, eps) of t + eps."""
        op = self.made(name, "add")
        eps = op.attrs.get("other") if op is not None and len(op.inputs) == 1 else None
        if not isinstance(eps, int | float) or isinstance(eps, bool) or op.attrs.get("alpha", 1) != 1:
            return None
        return op.inputs[0], float(eps)

    def root(self, name: str) -> str | None:
        """t of sqrt(t)."""
        op = self.made(name, "sqrt", "pow")
        return op.inputs[0] if op is not None and (op.op == "sqrt" or _exponent(op) == 0.5) else None

    def over_root(self, name: str) -> tuple[str, str] | None:
        """(y, t) of y / sqrt(t), however it is spelled."""
        op = self.made(name, "div")
        if op is not None and len(op.inputs) == 2 and op.attrs.get("rounding_mode") is None:
            t = self.root(op.inputs[1])
            return None if t is None else (op.inputs[0], t)
        op = self.made(name, "mul")
        if op is None or len(op.inputs) != 2:
            return None
        for y, inverse in (op.inputs, op.inputs[::-1]):
            by = self.made(inverse, "rsqrt", "reciprocal", "pow")
            if by is None:
                continue
            if by.op == "rsqrt" or (by.op == "pow" and _exponent(by) == -0.5):
                return y, by.inputs[0]
            t = self.root(by.inputs[0]) if by.op == "reciprocal" else None
            if t is not None:
                return y, t
        return None

    def last(self, op: Op) -> int | None:
        """The number of last axes that an operation reduces, keeping them with size 1."""
        rank = len(self.graph.tensors[op.inputs[0]].shape)
        dims = op.attrs.get("dim")
        dims = dims if isinstance(dims, list | tuple) else [dims]
        if not op.attrs.get("keepdim") or not dims or not all(type(d) is int for d in dims):
            return None
        places = sorted(d % rank for d in dims)
        return len(places) if places == list(range(rank - len(places), rank)) else None

    def mean(self, name: str) -> tuple[str, int] | None:
        """(t, axes) of the mean of t over its last axes."""
        op = self.made(name, "mean")
        axes = self.last(op) if op is not None and op.attrs.get("dtype") in (None, "f32") else None
        return None if axes is None else (op.inputs[0], axes)

    def squared(self, name: str) -> str | None:
        """t of t * t."""
        op = self.made(name, "square", "pow", "mul")
        if op is None:
            return None
        if op.op == "mul":
            return op.inputs[0] if len(op.inputs) == 2 and self[op.inputs[0]] == self[op.inputs[1]] else None
        return op.inputs[0] if op.op == "square" or _exponent(op) == 2 else None

    def centred(self, name: str) -> tuple[str, int] | None:
        """(x, axes) of x - mean(x)."""
        op = self.made(name, "sub")
        if op is None or len(op.inputs) != 2 or op.attrs.get("alpha", 1) != 1:
            return None
        mean = self.mean(op.inputs[1])
        return mean if mean is not None and self[mean[0]] == self[op.inputs[0]] else None

    def variance(self, name: str) -> tuple[str, int] | None:
        """(x, axes) of the variance of x by its number of elements."""
        op = self.made(name, "var")
        if op is not None:
            biased = op.attrs.get("unbiased") is False or op.attrs.get("correction") == 0
            axes = self.last(op) if biased else None
            return None if axes is None else (op.inputs[0], axes)
        mean = self.mean(name)
        square = None if mean is None else self.squared(mean[0])
        centred = None if square is None else self.centred(square)
        return centred if centred is not None and centred[1] == mean[1] else None


def _exponent(op: Op) -> float | None:
    return op.attrs.get("exponent") if len(op.inputs) == 1 else None


def _rms_norm(values: _Values, name: str) -> Norm | None:
    parts = values.over_root(name)
    shifted = None if parts is None else values.added(parts[1])
    mean = None if shifted is None else values.mean(shifted[0])
    x = None if mean is None else values.squared(mean[0])
    if x is None or values[x] != values[parts[0]] or values.centred(x) is not None:
        return None
    return Norm("rms_norm", x, mean[1], shifted[1])


def _layer_norm(values: _Values, name: str) -> Norm | None:
    parts = values.over_root(name)
    shifted = None if parts is None else values.added(parts[1])
    variance = None if shifted is None else values.variance(shifted[0])
    if variance is None or (near := values.centred(parts[0])) is None:
        return None
    same = values[near[0]] == values[variance[0]] and near[1] == variance[1]
    return Norm("layer_norm", variance[0], variance[1], shifted[1]) if same else None


def _softmax(values: _Values, name: str) -> Norm | None:
    op = values.made(name, "div")
    if op is None or len(op.inputs) != 2 or op.attrs.get("rounding_mode") is not None:
        return None
    exp, total = values.made(op.inputs[0], "exp"), values.made(op.inputs[1], "sum")
    if exp is None or total is None or values[total.inputs[0]] != values[op.inputs[0]]:
        return None
    moved = values.made(exp.inputs[0], "sub")
    if moved is None or len(moved.inputs) != 2 or moved.attrs.get("alpha", 1) != 1:
        return None
    most = values.made(moved.inputs[1], "amax", "max")
    if most is None or values[most.inputs[0]] != values[moved.inputs[0]] or "dim" not in most.attrs:
        return None
    alone = values.last(most) == values.last(total) == 1
    return Norm("softmax", moved.inputs[0], 1) if alone else None


def _log_softmax(values: _Values, name: str) -> Norm | None:
    op = values.made(name, "sub")
    if op is None or len(op.inputs) != 2 or op.attrs.get("alpha", 1) != 1:
        return None
    total = values.made(op.inputs[1], "logsumexp")
    if total is None or values[total.inputs[0]] != values[op.inputs[0]] or values.last(total) != 1:
        return None
    return Norm("log_softmax", op.inputs[0], 1)


_SPELLINGS: tuple[Callable[[_Values, str], Norm | None], ...] = (_rms_norm, _layer_norm, _softmax, _log_softmax)
_LASTS = ("div", "mul", "sub")  # the last operation of a spelling


def recognised(graph: OpGraph) -> OpGraph:
    """The graph with each written-out norm as one operation; what only such a norm read is gone.

    Where the norm's one reader rounds it to f16 or bf16, the norm does: so PyTorch's own norms of such tensors do.
    """
    if not any(op.op in ("mean", "var", "exp", "logsumexp") for op in graph.ops):
        return graph
    values = _Values(graph)
    norms: dict[str, Norm] = {}
    for op in graph.ops:
        values.add(op)
        if op.op in _LASTS:
            tries = (spelling(values, op.outputs[0]) for spelling in _SPELLINGS)
            norm = next((n for n in tries if n is not None), None)
            if norm is not None and graph.tensors[norm.x].shape == graph.tensors[op.outputs[0]].shape:
                norms[op.name] = norm
    if not norms:
        return graph
    ops, rounded = [], {}
    for op in graph.ops:
        if op.name in norms:
            cast = _rounding(graph, op)
            one = _one(graph, op, norms[op.name])
            ops.append(one if cast is None else replace(one, outputs=cast.outputs))
            rounded |= {} if cast is None else {cast.name: op.name}
        elif op.name not in rounded:
            ops.append(op)
    whole = replace(graph, ops=tuple(ops))
    return replace(whole, ops=whole.live)


def _rounding(graph: OpGraph, op: Op) -> Op | None:
    """The cast to a half type that alone reads a result."""
    readers = graph.readers.get(op.outputs[0], [])
    if len(readers) != 1 or op.outputs[0] in graph.outputs or readers[0].op not in _CASTS:
        return None
    return readers[0] if graph.tensors[readers[0].outputs[0]].dtype in _HALF else None


def _one(graph: OpGraph, op: Op, norm: Norm) -> Op:
    attrs: dict[str, Any] = {"dim": -1, "dtype": None}
    if norm.eps is not None:
        shape = graph.tensors[norm.x].shape
        attrs = {"normalized_shape": list(shape[len(shape) - norm.axes :]), "weight": None, "bias": None}
        attrs["eps"] = norm.eps
    return replace(op, op=norm.op, inputs=(norm.x,), attrs=attrs)


__all__ = ["Norm", "recognised"]
