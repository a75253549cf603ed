"""Rows of a stage split into the axes of the module, where an operand spans some of them.

A norm, a reduction and a scan read a tensor as rows: the axes beside those that they work over are merged into one. An
operand with one element for each head, token or channel spans a part of these rows. Then the stage reads the same
tensor with these axes apart, which costs nothing: a kernel merges again what no operand tells apart.

A product of merged rows becomes a batch of products where their rows fill its tiles. What can not be split is stored,
and elementwise work on its result goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from dsl.ir import Call, Expr, Load, loads
from engine.strategies.planner.lowering.drafts import (
    OVER_ELEMENTS,
    Draft,
    Elementwise,
    Leaf,
    Normalization,
    Product,
    Rearrangement,
    Reduction,
    Result,
    Source,
    Value,
    groups_of,
    image_names,
    stage_of,
)
from engine.strategies.planner.lowering.lowering_context import MAX_RANK, LoweringContext, key, unkey

BY_ROWS = ("softmax", "log_softmax", "layernorm", "rmsnorm")  # norms whose other axes have no meaning of their own
TILE, WASTE = 128, 1.15  # rows of a product's tile, and the most that a batch may have it compute for one row


def roomy(walk: LoweringContext, values: list[Value], shape: tuple[int, ...]) -> list[Value]:
    """The values of an operation whose result has `shape`, after the stage that computes the latest of them was split
    where the others need it."""
    results = [v for v in values if isinstance(v, Result) and prod(v.shape) == prod(shape)]
    if not results:
        return values
    target = replace(max(results, key=lambda r: r.stage), shape=shape)
    others = [v.shape for v in values if not isinstance(v, float) and not (v in results and v.stage == target.stage)]
    draft = walk.drafts[target.stage]
    wanted = _wanted(draft, target.shape, others)
    if not wanted or isinstance(draft, Elementwise):
        return values
    if not draft.outs and isinstance(draft, Product) and _batched(walk, draft, wanted, target, others):
        return values
    renamed = None
    if not draft.outs and isinstance(draft, OVER_ELEMENTS):
        renamed = _split(walk, draft, wanted, target)
    if renamed is not None:
        walk.values = {name: renamed(v) for name, v in walk.values.items()}
        return [renamed(v) for v in values]
    if len(shape) > MAX_RANK:
        return values
    whole = Leaf.whole(walk.see(walk.store(target), shape).of, shape)
    begun = walk.elementwise(whole, shape)
    return [begun if isinstance(v, Result) and v.stage == target.stage and v.expr == target.expr else v for v in values]


def _batched(
    walk: LoweringContext, draft: Product, wanted: dict[str, tuple[int, ...]], target: Result,
    operands: Sequence[tuple[int, ...]],
) -> bool:  # fmt: skip
    """Make a product of merged rows a batch of products, whose operands have one value for each row of one of them.
    Returns whether it could: its expressions so far know no rows, and the tiles of a product waste little."""
    *lead, rows = wanted.get("m", (0,))
    before = [i for i, size in enumerate(target.shape[:-1]) if size != 1][:-1]  # the axes that become the batch
    padded = [(1,) * (len(target.shape) - len(shape)) + shape for shape in operands]
    apart = any(shape[i] != 1 for shape in padded for i in before)
    values = [v.expr for v in walk.values.values() if isinstance(v, Result) and v.stage == target.stage]
    knows = any("m" in x.axes for e in (target.expr, *values) for x in loads(e))
    if len(draft.shape) != 2 or not lead or apart or knows or draft.a.transposed:
        return False
    if -(-rows // TILE) * TILE > WASTE * rows:
        return False
    draft.a = _seen(walk, draft.a, draft, (prod(lead), rows, draft.k))
    draft.shape = (prod(lead), rows, draft.shape[-1])
    return True


def _split(
    walk: LoweringContext, draft: Draft, wanted: dict[str, tuple[int, ...]], target: Result
) -> Callable[[Value], Value] | None:
    """Split axes of the target's stage. Returns what renames the axes in a value; None if the stage cannot change."""
    if isinstance(draft, Normalization) and draft.op not in BY_ROWS:
        return None
    inside = draft.inside if isinstance(draft, Reduction) else draft.names
    parts = [wanted.get(name, (size,)) for name, size in zip(inside, draft.x.shape, strict=True)]
    shape = tuple(size for part in parts for size in part)
    if len(shape) > MAX_RANK:
        return None
    fresh = iter(image_names(len(shape)))
    axes = {name: tuple(next(fresh) for _ in part) for name, part in zip(inside, parts, strict=True)}
    values = [v for v in walk.values.values() if isinstance(v, Result) and v.stage == target.stage]
    exprs = {e: _renamed(e, axes, wanted) for e in (draft.of, target.expr, *(v.expr for v in values))}
    if None in exprs.values():
        return None
    draft.x = _seen(walk, draft.x, draft, shape)
    draft.over = tuple(new for name in draft.over for new in axes[name])
    draft.of = exprs[draft.of]
    if isinstance(draft, Reduction):
        draft.inside = image_names(len(shape))
        extents = zip(draft.inside, shape, strict=True)
        draft.shape = tuple(size for name, size in extents if name not in draft.over)
    else:
        draft.shape = shape

    def renamed(value: Value) -> Value:
        own = isinstance(value, Result) and value.stage == target.stage
        return replace(value, expr=exprs[value.expr]) if own else value

    return renamed


def _wanted(draft: Draft, shape: tuple[int, ...], operands: Sequence[tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """{axis of a stage: the sizes to split it into}, for operands that span a part of it where its result is seen as
    `shape`; {} also if that is more than one axis in other groups."""
    groups = groups_of(shape, draft.sizes)
    wanted: dict[str, tuple[int, ...]] = {}
    for seen, own in groups or ():
        sizes = tuple(shape[i] for i in seen)
        for operand in operands:
            padded = (1,) * (len(shape) - len(operand)) + operand
            part = tuple(padded[i] for i in seen) if len(padded) == len(shape) else sizes
            if prod(part) != 1 and part != sizes:
                if len(own) != 1:
                    return {}
                wanted[draft.names[own[0]]] = sizes
    return wanted


def _renamed(e: Expr, axes: dict[str, tuple[str, ...]], wanted: dict[str, tuple[int, ...]]) -> Expr | None:
    """An expression on the new axes; None if it reads a part of a tensor, or a stored result, along one that is
    split."""
    if isinstance(e, Call):
        args = tuple(_renamed(a, axes, wanted) for a in e.args)
        return None if None in args else replace(e, args=args)
    if not isinstance(e, Load) or not e.axes:
        return e
    source, sizes = unkey(e.name)
    if any(a in wanted for a in e.axes) and (stage_of(source) is not None or e.starts):
        return None
    seen = tuple(size for a, own in zip(e.axes, sizes, strict=True) for size in wanted.get(a, (own,)))
    return replace(e, name=key(source, seen), axes=tuple(new for a in e.axes for new in axes[a]))


def _seen(walk: LoweringContext, x: Source, draft: Draft, shape: tuple[int, ...]) -> Source:
    """What the draft reads as `x`, seen as `shape`. A stage's result is viewed so, which moves no byte."""
    at = stage_of(x.of)
    view = None if at is None else walk.drafts[at]
    alone = not any(x.of in other.read() for other in walk.drafts if other is not draft)
    if isinstance(view, Rearrangement) and view.permute is None and alone:
        view.shape = shape
        return replace(x, shape=shape)
    return walk.see(Leaf.whole(x.of, x.shape), shape)


__all__ = ["roomy"]
