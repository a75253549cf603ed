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
        sides = _einsum(walk, args)
        if sides is None:
            return _contraction(walk, args)
        a, b = sides
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


def _einsum(walk: LoweringContext, args: list[Value]) -> tuple[Value, Value] | None:
    """`...k,kn->...n` and `bmk,bkn->bmn`, with any letters and with either side's last axes swapped; None for another
    equation."""
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
    return None


def _contraction(walk: LoweringContext, args: list[Value]) -> Result | Leaf:
    """Any einsum of two tensors that is one product: each index is of a batch (in both and in the result), a row (in
    the first), a column (in the second) or summed (in both). Sides that lie in another order are copied, and the result
    is seen in the order of the equation."""
    terms = _terms(str(walk.op.attrs.get("equation", "")), args)
    refusal = walk.refuse(
        f'with "{walk.op.attrs.get("equation", "")}" is not covered yet; covered are products such as "bmk,kn->bmn"'
    )
    if terms is None:
        raise refusal
    left, right, out = terms
    batch = "".join(c for c in out if c in left and c in right)
    m, n = ("".join(c for c in out if c in own and c not in other) for own, other in ((left, right), (right, left)))
    k = "".join(c for c in left if c in right and c not in out)
    kinds = (batch + m + k, left), (batch + k + n, right), (batch + m + n, out)
    sizes = dict(zip(left, args[0].shape, strict=True))
    whole = all(sizes.setdefault(c, d) == d for c, d in zip(right, args[1].shape, strict=True))
    if not (m and n and k and whole) or any(sorted(a) != sorted(b) for a, b in kinds):
        raise refusal
    a, b = _arranged(walk, args[0], left, (batch, m, k)), _arranged(walk, args[1], right, (batch, k, n))
    result = replace(_product(walk, a, b), shape=tuple(sizes[c] for c in batch + m + n))
    if batch + m + n == out:
        return result
    leaf = walk.leaf(result)
    return Leaf(leaf.source, leaf.base, tuple((batch + m + n).index(c) for c in out))


def _terms(equation: str, args: list[Value]) -> tuple[str, str, str] | None:
    """The indices of the two factors and of the result; those of an ellipsis are capital letters."""
    ends = equation.replace(" ", "").split("->")
    factors = ends[0].split(",")
    if len(factors) != 2 or len(args) != 2 or any(isinstance(a, float) for a in args):
        return None
    rest = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    counts = [len(a.shape) - len(f.replace("...", "")) for f, a in zip(factors, args, strict=True)]
    dots = "".join(rest[: max(counts)])
    left, right = (f.replace("...", dots[len(dots) - n :]) for f, n in zip(factors, counts, strict=True))
    if len(ends) > 1:
        out = ends[1].replace("...", dots)
    else:
        out = dots + "".join(sorted(c for c in set(left + right) - set(dots) if (left + right).count(c) == 1))
    fits = len(left) == len(args[0].shape) and len(right) == len(args[1].shape)
    return (left, right, out) if fits and all(len(set(x)) == len(x) for x in (left, right, out)) else None


def _arranged(walk: LoweringContext, value: Value, own: str, groups: tuple[str, str, str]) -> Leaf:
    """A side of a product: its axes `own` in the order of `groups` (batch, then the two of the matrix), each of which
    becomes one axis; a batch without axes is left out. The last two may lie swapped."""
    leaf = walk.leaf(value)
    sizes = dict(zip(own, leaf.shape, strict=True))
    swapped = own == groups[0] + groups[2] + groups[1]
    order = (groups[0], groups[2], groups[1]) if swapped else groups
    leaf = Leaf(leaf.source, leaf.base, tuple(leaf.order[own.index(c)] for c in "".join(order)))
    shape = tuple(prod(sizes[c] for c in group) for group in order if group)
    leaf = walk.reshaped(leaf, shape)
    return leaf.swapped() if swapped else leaf
