"""Losses and norms of vectors as the operations that they are made of, so that the other rules lower them.

Each formula is that of PyTorch's documentation of the function, with |x - y| and min() in place of cases. A loss with
weights of its elements or classes has no formula here and stays PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sol.graph import Op, OpGraph, Tensor

_MEAN, _SUM = 1, 2  # ATen's values of `reduction`; 0 keeps every element


@dataclass
class _Parts:
    """The operations of one composite, which all have its name: the rules blame an operation by it."""

    op: Op
    tensors: dict[str, Tensor]
    ops: list[Op]

    def __call__(
        self, op: str, *of: str | float, dims: list[int] | None = None, keepdim: bool = False, **attrs: Any
    ) -> str:
        """Add an operation. Numbers go where ATen takes a scalar: `other` of arithmetic. `dims`: of a reduction, from
        the end. Returns its result."""
        inputs = [x for x in of if isinstance(x, str)]
        number = next((x for x in of if not isinstance(x, str)), None)
        shape = _broadcast([self.tensors[x].shape for x in inputs])
        if number is not None:
            attrs |= {"other": number}
        if dims is not None:
            attrs |= {"dim": dims, "keepdim": keepdim, "dtype": None}
            sizes = ((i - len(shape) in dims, size) for i, size in enumerate(shape))
            shape = tuple(1 if over else size for over, size in sizes if keepdim or not over)
        elif op in ("mean", "sum"):
            attrs |= {"dtype": None}
            shape = ()
        name = f"{self.op.outputs[0]}__{len(self.ops)}"
        own = self.tensors[self.op.outputs[0]]
        self.tensors[name] = replace(own, name=name, shape=shape, kind="intermediate", strides=())
        self.ops.append(replace(self.op, op=op, inputs=tuple(inputs), outputs=(name,), attrs=attrs))
        return name

    def minus(self, x: str, y: str) -> str:
        return self("sub", x, y, alpha=1)

    def seen(self, x: str, shape: tuple[int, ...]) -> str:
        name = self("view", x, size=list(shape))
        self.tensors[name] = replace(self.tensors[name], shape=shape)
        return name

    def distance(self, x: str, y: str, eps: float) -> str:
        """The Euclidean distance of rows, as pairwise_distance adds its eps."""
        moved = self("add", self.minus(x, y), eps, alpha=1)
        return self("sqrt", self("sum", self("square", moved), dims=[-1]))


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def _squared(add: _Parts, x: str, y: str) -> str:
    return add("square", add.minus(x, y))


def _absolute(add: _Parts, x: str, y: str) -> str:
    return add("abs", add.minus(x, y))


def _huber(add: _Parts, x: str, y: str, delta: float) -> str:
    """delta (|d| - delta / 2), and d^2 / 2 below delta: m (|d| - m / 2) with m = min(|d|, delta)."""
    d = _absolute(add, x, y)
    m = add("clamp_max", d, max=delta)
    return add("mul", m, add.minus(d, add("mul", m, 0.5)))


def _huber_loss(add: _Parts, x: str, y: str) -> str:
    return _huber(add, x, y, float(add.op.attrs["delta"]))


def _smooth_l1(add: _Parts, x: str, y: str) -> str:
    beta = float(add.op.attrs["beta"])
    return _absolute(add, x, y) if beta == 0 else add("mul", _huber(add, x, y, beta), 1.0 / beta)


def _with_logits(add: _Parts, x: str, y: str) -> str:
    """relu(x) - x y + log(1 + exp(-|x|)), which no large x overflows."""
    rest = add("softplus", add("neg", add("abs", x)), beta=1, threshold=20)
    return add("add", add.minus(add("relu", x), add("mul", x, y)), rest, alpha=1)


def _soft_margin(add: _Parts, x: str, y: str) -> str:
    return add("softplus", add("neg", add("mul", x, y)), beta=1, threshold=20)


def _ranking(add: _Parts, x1: str, x2: str, y: str) -> str:
    apart = add("mul", add("neg", y), add.minus(x1, x2))
    return add("relu", add("add", apart, float(add.op.attrs["margin"]), alpha=1))


def _triplet(add: _Parts, anchor: str, positive: str, negative: str) -> str | None:
    a = add.op.attrs
    if a["p"] != 2 or a["swap"]:
        return None
    near, far = (add.distance(anchor, other, float(a["eps"])) for other in (positive, negative))
    return add("relu", add("add", add.minus(near, far), float(a["margin"]), alpha=1))


def _vector_norm(add: _Parts, x: str) -> str | None:
    """linalg_vector_norm of order 1, 2 or infinity."""
    a, rank = add.op.attrs, len(add.tensors[x].shape)
    order, dims = float(a.get("ord", 2)), a.get("dim")
    if order not in (1.0, 2.0, math.inf) or a.get("dtype") is not None or rank == 0:
        return None
    dims = [dims] if isinstance(dims, int) else list(dims or range(rank))
    over = {"dims": [d % rank - rank for d in dims], "keepdim": bool(a.get("keepdim"))}
    if order == 2:
        return add("sqrt", add("sum", add("square", x), **over))
    return add("sum" if order == 1 else "amax", add("abs", x), **over)


def _kl(add: _Parts, x: str, y: str) -> str:
    if add.op.attrs.get("log_target"):
        return add("mul", add("exp", y), add.minus(y, x))
    return add.minus(add("xlogy", y, y), add("mul", y, x))


def _prelu(add: _Parts, x: str, slope: str) -> str:
    """max(x, 0) + slope min(x, 0), a slope for each channel."""
    sizes, one = add.tensors[x].shape, add.tensors[slope].shape
    if len(sizes) > 2 and one != (1,):
        slope = add.seen(slope, (*one, *(1,) * (len(sizes) - 2)))
    return add("add", add("relu", x), add("mul", slope, add("clamp_max", x, max=0.0)), alpha=1)


def _variance(add: _Parts, x: str) -> str | None:
    """The mean squared distance from the mean; divided by n - correction."""
    a, sizes = add.op.attrs, add.tensors[x].shape
    dims = a.get("dim")
    dims = [d % len(sizes) - len(sizes) for d in ([dims] if isinstance(dims, int) else dims or range(len(sizes)))]
    many, correction = math.prod(sizes[d] for d in dims), a.get("correction")
    correction = float(correction) if correction is not None else float(a.get("unbiased", True))
    if many <= correction:
        return None
    far = add.minus(x, add("mean", x, dims=dims, keepdim=True))
    total = add("sum", add("square", far), dims=dims, keepdim=bool(a.get("keepdim")))
    return add("mul", total, 1 / (many - correction))


def _deviation(add: _Parts, x: str) -> str | None:
    of = _variance(add, x)
    return of and add("sqrt", of)


_FORMULAS: dict[str, tuple[int, Callable[..., str | None]]] = {  # (tensors without weights, formula)
    "mse_loss": (2, _squared),
    "l1_loss": (2, _absolute),
    "huber_loss": (2, _huber_loss),
    "smooth_l1_loss": (2, _smooth_l1),
    "binary_cross_entropy_with_logits": (2, _with_logits),
    "soft_margin_loss": (2, _soft_margin),
    "margin_ranking_loss": (3, _ranking),
    "triplet_margin_loss": (3, _triplet),
    "kl_div": (2, _kl),
}
LOSSES = tuple(_FORMULAS)
_FORMULAS |= {"linalg_vector_norm": (1, _vector_norm), "prelu": (2, _prelu)}
_SPREADS = {"var": (1, _variance), "std": (1, _deviation)}
COMPOSITES = (*_FORMULAS, *_SPREADS)


def expanded(graph: OpGraph, spreads: bool = False) -> OpGraph:
    """The graph with each composite that has a formula written out; other operations are as they were. `spreads`: those
    of variances and deviations, which may be parts of a norm before (rules.written_norms)."""
    formulas = _SPREADS if spreads else _FORMULAS
    if not any(op.op in formulas for op in graph.ops):
        return graph
    add = _Parts(graph.ops[0], dict(graph.tensors), [])
    ops: list[Op] = []
    for op in graph.ops:
        many, formula = formulas.get(op.op, (0, None))
        add.op, add.ops = op, []
        each = formula(add, *op.inputs) if formula is not None and len(op.inputs) == many else None
        if each is None:
            ops.append(op)
            continue
        how = int(op.attrs.get("reduction", _MEAN)) if op.op in LOSSES else 0
        if how:
            add("mean" if how == _MEAN else "sum", each)
        ops += [*add.ops[:-1], replace(add.ops[-1], outputs=op.outputs)]
    written = {name for op in ops for name in op.outputs}
    tensors = {n: t for n, t in add.tensors.items() if n in graph.tensors or n in written}
    return replace(graph, tensors=tensors, ops=tuple(ops))


__all__ = ["COMPOSITES", "LOSSES", "expanded"]
