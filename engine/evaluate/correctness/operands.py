"""Inputs that show which bits the operands of a product keep, for raw kernels (see engine.evaluate.correctness.inputs).

    powers       `normal`, with each of the K columns of a product's first operand times a power of two from 2^-20 to
                 2^20, and the second operand's divided by it. The terms of each sum are those of `normal` bit by bit in
                 every type with the exponent of f32 (f32, tf32, bf16), in any order of the sum. A type with less range
                 overflows or loses the small ones, also when a whole row or tensor has one scale.
    terms        Sums that need no rounding of their own, so that the operands' rounding shows alone. The even rows have
                 one term: a number of f32 times a number of ten bits. The odd rows have four pairs of terms that cancel
                 up to their last bits: numbers of ten bits, whose sums f32 holds exactly in any order.

Both need a product whose operands are inputs or parameters, directly or through a transposition. A module without one
has neither family. `parts` says which rows are compared apart, because one norm of all rows would hide some of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from sol.graph import Op, OpGraph

OPERAND_FAMILIES = ("powers", "terms")
WIDEST = 20  # powers of two of `powers`
STEPS, PAIRS = 512, 4  # `terms`: numbers are multiples of 1 / STEPS below 1, and a row has so many pairs
LEAST = 32  # elements of a part; fewer say too little about an error

# Indices of the operands among an op's tensors, the axis of K in each, and the index of a bias.
_PRODUCTS = {
    "linear": (0, -1, 1, -1, 2), "matmul": (0, -1, 1, -2, None), "mm": (0, -1, 1, -2, None),
    "bmm": (0, -1, 1, -2, None), "addmm": (1, -1, 2, -2, 0), "baddbmm": (1, -1, 2, -2, 0),
}  # fmt: skip
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_TURNS, _COPIES = ("t", "mT", "numpy_T", "transpose"), ("to", "_to_copy", "contiguous", "clone", "detach")


@dataclass(frozen=True)
class Product:
    """One product of two tensors of the graph; `axis` and `other_axis`: of K, counted from the end; `rows`: a row of
    `first` along its last axis is one side of each sum."""

    first: str
    axis: int
    second: str
    other_axis: int
    depth: int
    bias: str | None
    rows: bool


def products(graph: OpGraph) -> list[Product]:
    """The products whose operands the harness can write: each is a float32 input or parameter."""
    roots = _roots(graph)
    chosen: list[Product] = []
    for op in graph.ops:
        product = _product(op, graph, roots)
        if product is not None and all(product.second not in (p.first, p.second) for p in chosen):
            chosen.append(product)
    seconds = {p.second for p in chosen}
    return [p for p in chosen if p.first not in seconds]


def families(graph: OpGraph) -> tuple[str, ...]:
    """Those of OPERAND_FAMILIES that this graph has."""
    every = products(graph)
    return tuple(f for f, has in zip(OPERAND_FAMILIES, (every, [p for p in every if p.rows]), strict=True) if has)


def adjust(graph: OpGraph, family: str, values: dict[str, Any], seed: int) -> None:
    """Turn the values of `normal` into those of one of OPERAND_FAMILIES, in place."""
    done: set[str] = set()
    for p in products(graph):
        for name in (p.first, p.second):
            if name in values and name not in done:
                (_scale if family == "powers" else _terms)(p, name, values[name], seed)
                done.add(name)
        if family == "terms" and p.rows and p.bias in values:
            values[p.bias].zero_()


def parts(family: str, rows: int) -> list[slice]:
    """The rows that are compared apart; [] for one comparison of all."""
    # The rows of `terms` that cancel are not compared apart: a kernel that scales an operand first is honest, and then
    # their sums are as far off as their terms are rounded.
    return [slice(0, rows - 1), slice(rows - 1, rows)] if family == "uneven" and rows > 1 else []


def parts_by_rows(graph: OpGraph, family: str, values: dict[str, Any]) -> dict[int, list[slice]]:
    """`parts` of results with as many rows as the first input has, by this number; {} if there is no such input."""
    lead = values[graph.inputs[0]].shape[:1] if graph.inputs else ()
    return {lead[0]: parts(family, lead[0])} if lead else {}


def _roots(graph: OpGraph) -> dict[str, tuple[str, bool]]:
    """tensor -> (the input or parameter that it shows, whether its last two axes are exchanged)."""
    roots = {
        t.name: (t.name, False)
        for t in graph.tensors.values()
        if t.kind in ("input", "parameter") and t.dtype == "f32" and t.shape
    }
    for op in graph.ops:
        if len(op.inputs) != 1 or len(op.outputs) != 1 or op.inputs[0] not in roots:
            continue
        name, turned = roots[op.inputs[0]]
        was, now = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
        if op.op in _COPIES and was.shape == now.shape and was.dtype == now.dtype:
            roots[op.outputs[0]] = (name, turned)
        elif op.op in _TURNS and _last_two(op, len(was.shape)):
            roots[op.outputs[0]] = (name, not turned)
    return roots


def _last_two(op: Op, rank: int) -> bool:
    """Return True if a transposition exchanges the last two axes of a tensor of this rank."""
    axes = {op.attrs.get(name) for name in ("dim0", "dim1")} - {None}
    return rank == 2 or op.op == "mT" or {a % rank for a in axes if isinstance(a, int)} == {rank - 2, rank - 1}


def _product(op: Op, graph: OpGraph, roots: dict[str, tuple[str, bool]]) -> Product | None:
    if op.op in _CONVOLUTIONS and len(op.inputs) > 1:
        axis = 1 - len(graph.tensors[op.inputs[1]].shape)
        where = (0, axis, 1, axis, None)
    elif op.op in _PRODUCTS:
        where = _PRODUCTS[op.op]
    else:
        return None
    i, axis, j, other, bias = where
    if max(i, j) >= len(op.inputs) or op.inputs[i] not in roots or op.inputs[j] not in roots:
        return None
    a, b = graph.tensors[op.inputs[i]], graph.tensors[op.inputs[j]]
    if len(a.shape) < -axis or len(b.shape) < -other or a.shape[axis] != b.shape[other] or a.shape[axis] < 2:
        return None  # groups of a convolution, or a product with a vector
    (first, turned), (second, turned_too) = roots[op.inputs[i]], roots[op.inputs[j]]
    if first == second:
        return None
    offset = roots.get(op.inputs[bias], (None,))[0] if bias is not None and bias < len(op.inputs) else None
    return Product(
        first, _turned(axis, turned), second, _turned(other, turned_too), a.shape[axis], offset,
        op.op in _PRODUCTS and not turned,
    )  # fmt: skip


def _turned(axis: int, turned: bool) -> int:
    return {-1: -2, -2: -1}.get(axis, axis) if turned else axis


def _generator(product: Product, name: str, seed: int, device: Any) -> Any:
    import torch

    key = hashlib.sha256(f"{seed}:operands:{name}:{product.depth}".encode()).digest()
    return torch.Generator(device=device).manual_seed(int.from_bytes(key[:8], "little") >> 1)


def _scale(p: Product, name: str, x: Any, seed: int) -> None:
    import torch

    drawn = _generator(p, p.first, seed, x.device)  # of the first operand on both sides
    powers = torch.randint(-WIDEST, WIDEST + 1, (p.depth,), device=x.device, generator=drawn).float()
    axis = p.axis if name == p.first else p.other_axis
    sign = 1 if name == p.first else -1
    x.mul_(torch.exp2(sign * powers).view([p.depth if d == x.dim() + axis else 1 for d in range(x.dim())]))


def _terms(p: Product, name: str, x: Any, seed: int) -> None:
    import torch

    if not p.rows:
        return
    options = {"device": x.device, "generator": _generator(p, name, seed, x.device)}
    if name == p.second:
        whole = torch.randint(1 - STEPS, STEPS, tuple(x.shape), **options).to(x.dtype) / STEPS
        x.copy_(whole)
        rows = x.movedim(p.other_axis, 0)  # a view
        even = p.depth // 2 * 2
        rows[1:even:2] = rows[0:even:2]  # the same factor for both terms of a pair
        return
    first = x.view(1, -1) if x.dim() == 1 else x
    at = torch.randint(0, p.depth, (*first.shape[:-1], 1), **options)
    first.mul_(torch.zeros_like(first).scatter_(-1, at, 1.0))
    odd = first[1::2]
    if not odd.numel():
        return
    lead = (*odd.shape[:-1], PAIRS)
    pair = 2 * torch.randint(0, p.depth // 2, lead, **options)
    much = torch.randint(3 - STEPS, STEPS - 2, lead, **options)
    little = torch.randint(-2, 3, lead, **options)
    odd.zero_()
    for i in range(PAIRS):  # in turn, so that of two pairs at one place the later has both of its terms
        odd.scatter_(-1, pair[..., i : i + 1], much[..., i : i + 1].to(x.dtype) / STEPS)
        odd.scatter_(-1, pair[..., i : i + 1] + 1, (little - much)[..., i : i + 1].to(x.dtype) / STEPS)
