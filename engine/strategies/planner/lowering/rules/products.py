"""linear, matmul, bmm, addmm, baddbmm and einsum as products; a product with a vector as a reduction; one matrix times
each of a batch as a convolution of one tap."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from dsl.ir import Acc, Call, Load
from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.drafts import (
    Convolution,
    Leaf,
    Product,
    Reduction,
    Result,
    Source,
    Value,
    stage_of,
)
from engine.strategies.planner.lowering.lowering_context import LoweringContext, key

PRODUCTS = ("linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "einsum")


def product(walk: LoweringContext) -> Value:
    op = walk.op
    alpha, beta = float(op.attrs.get("alpha", 1)), float(op.attrs.get("beta", 1))
    args = walk.arguments()
    bias: Value | None = None
    if op.op in ("addmm", "baddbmm"):
        bias, a, b = args
    elif op.op == "linear":
        a, b, bias = (*args, None)[:3]
    elif op.op == "einsum":
        a, b = _einsum(walk, args)
    else:
        a, b = args
    a, b = walk.leaf(a), walk.leaf(b)
    if op.op == "linear":
        b = b.swapped() if len(b.shape) == 2 else Leaf(b.source, (*b.base, 1), (*b.order, len(b.base)))
    result = _product(walk, a, b)
    result = replace(result, expr=pointwise.scale(result.expr, alpha))
    if bias is not None and beta != 0:
        result = _biased(walk, result, bias, beta)
    return result


def _biased(walk: LoweringContext, result: Result, bias: Value, beta: float) -> Result:
    term = walk.term(bias, result)
    return replace(result, expr=pointwise.binary("add", result.expr, pointwise.scale(term, beta)))


def _product(walk: LoweringContext, a: Leaf, b: Leaf) -> Result:
    out = walk.out()
    if not a.shape or not b.shape:
        raise walk.refuse("with a single number is not covered yet")
    if len(b.shape) == 1:
        b = Leaf(b.source, (*b.base, 1), (0, 1))
    if len(a.shape) == 1:
        a = Leaf(a.source, (1, *a.base), (0, 1))
    k, n = b.shape[-2:]
    m = a.shape[-2]
    if len(b.shape) == 2:
        rows = prod(a.shape[:-1])
        vector = _vector(walk, a, b, rows, k, n)
        if vector is not None:
            return vector
        sides = _side(walk, a, (rows, k)), _side(walk, b, (k, n))
        draft = Product((rows, n), out.dtype, a=sides[0], b=sides[1], k=k)
    elif len(a.shape) == 2:
        return _shared_left(walk, a, b)
    else:
        if a.shape[:-2] != b.shape[:-2]:
            raise walk.refuse(
                f"of {list(a.shape)} and {list(b.shape)} repeats one side over the batch; "
                "covered are equal batch axes, or one 2-D side"
            )
        lead = a.shape[:-2]
        if all(stage_of(x.source) is None for x in (a, b)):
            lead = (prod(lead),)
        sides = _side(walk, a, (*lead, m, k)), _side(walk, b, (*lead, k, n))
        draft = Product((*lead, m, n), out.dtype, a=sides[0], b=sides[1], k=k)
    return walk.add(draft, out.shape)


def _shared_left(walk: LoweringContext, a: Leaf, b: Leaf) -> Result:
    """One matrix times each of a batch, W @ X[b]: a convolution of one tap, whose channels are the rows of X."""
    (m, k), n = a.shape, b.shape[-1]
    x = walk.see(b if b.plain else walk.plain(b), (prod(b.shape[:-2]), k, n))
    w = walk.see(a if a.plain else walk.plain(a), (m, k, 1))
    draft = Convolution((x.shape[0], m, n), walk.out().dtype, x=x, w=w, stride=(1,), padding=(0,), dilation=(1,))
    return walk.add(draft, walk.out().shape)


def _side(walk: LoweringContext, leaf: Leaf, shape: tuple[int, ...]) -> Source:
    """A product's side of logical `shape` (..., rows, columns): in its memory order, as `.T`, or copied."""
    if leaf.plain:
        return walk.see(leaf, shape)
    last = leaf.swapped()
    if last.plain and (len(leaf.shape) == len(shape) or len(shape) == 3):
        source = walk.see(last, (*shape[:-2], shape[-1], shape[-2]))
        return replace(source, transposed=True)
    return walk.see(walk.plain(leaf), shape)


def _vector(walk: LoweringContext, a: Leaf, b: Leaf, rows: int, k: int, n: int) -> Result | None:
    """A matrix times a vector, for which tensor cores are no help: read the matrix once and sum each row."""
    if n != 1 and rows != 1:
        return None
    matrix, vector, size, axis = (a, b, (rows, k), 1) if n == 1 else (b, a, (k, n), 0)
    if not matrix.plain:
        matrix = matrix.swapped()
        if not matrix.plain or len(matrix.shape) != 2:
            return None
        size, axis = size[::-1], 1 - axis
    over = ("m", "n")[axis]
    flat = walk.plain(vector)
    stored = walk.stored_shape(flat)
    load = Load(key(flat.source, (k,)), (over,))
    if stored is not None and stored != (k,):
        load = Load(key(walk.see(flat, (k,)).of, (k,)), (over,))
    x = walk.see(matrix, size)
    draft = Reduction(
        (size[1 - axis],),
        walk.out().dtype,
        x=x,
        op="sum",
        over=(over,),
        of=Call("mul", (Acc(), load)),
        inside=("m", "n"),
    )
    return walk.add(draft, walk.out().shape)


def _einsum(walk: LoweringContext, args: list[Value]) -> tuple[Value, Value]:
    """`...k,kn->...n` and `bmk,bkn->bmn`, with any letters and with either side's last axes swapped."""
    equation = str(walk.op.attrs.get("equation", "")).replace(" ", "")
    match = re.fullmatch(r"([a-z]+),([a-z]+)->([a-z]+)", equation, re.I)
    if match and len(args) == 2:
        left, right, out = match.groups()
        if left[:-1] + right.strip(left[-1]) == out and len(right) == 2 and left[-1] in right:
            b = walk.leaf(args[1])
            return args[0], b.swapped() if right[1] == left[-1] else b
        batch = left[:-2]
        if len(left) == len(right) == len(out) >= 3 and right[:-2] == batch == out[:-2]:
            m, n = out[-2:]
            k = set(left[-2:]) - {m}
            if len(k) == 1 and m in left[-2:] and set(right[-2:]) == {n, *k}:
                a, b = walk.leaf(args[0]), walk.leaf(args[1])
                return a if left[-2] == m else a.swapped(), b if right[-1] == n else b.swapped()
    raise walk.refuse(f'with "{equation}" is not covered yet; covered are products such as "bmk,kn->bmn"')
