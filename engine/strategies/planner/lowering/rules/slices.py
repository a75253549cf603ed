"""slice, narrow, chunk and split: parts of a tensor along one axis, which elementwise stages read where they lie.

Any other reader needs a tensor of its own. It refuses the operation that cuts, so PyTorch cuts, which moves nothing.
"""

from __future__ import annotations

from engine.strategies.planner.lowering.drafts import Leaf, Result, Slice, groups_of
from engine.strategies.planner.lowering.lowering_context import LoweringContext, collapsed
from sol.graph import Op


def slices(walk: LoweringContext) -> dict[str, Slice]:
    """The results of an operation that cuts its tensor along one axis."""
    op, value = walk.op, walk.arguments()[0]
    if op.attrs.get("step", 1) != 1 or isinstance(value, float) or len(op.inputs) != 1:
        raise walk.refuse("with a step, or by the values of a tensor, is not covered yet")
    cut = _whole(walk, value)
    axis = int(op.attrs.get("dim", 0)) % len(cut.shape)
    place = _own_axis(cut.shape, cut.size, axis)
    if place is None:
        raise walk.refuse(f"of axis {axis} of a result that is stored as {list(cut.size)} is not covered yet")
    begin, parts = _begin(op, cut.shape[axis]), {}
    for name in op.outputs:
        shape = walk.graph.tensors[name].shape
        start, size = list(cut.start), list(cut.size)
        start[place], size[place] = start[place] + begin, shape[axis]
        parts[name] = Slice(cut.source, cut.whole, tuple(start), tuple(size), shape, op)
        begin += shape[axis]
    return parts


def _whole(walk: LoweringContext, value: Leaf | Slice | Result) -> Slice:
    """A value as the slice that is all of it."""
    if isinstance(value, Slice):
        return value
    leaf = walk.plain(walk.leaf(value))
    whole = walk.stored_shape(leaf) or collapsed(leaf.shape)
    return Slice(leaf.source, whole, (0,) * len(whole), whole, leaf.shape, walk.op)


def _begin(op: Op, size: int) -> int:
    """The first element of the first result."""
    start = int(op.attrs.get("start") or 0)
    return min(size, start + size if start < 0 else start)


def _own_axis(seen: tuple[int, ...], stored: tuple[int, ...], axis: int) -> int | None:
    """The axis of `stored` that holds exactly the elements of an axis of `seen`; None if there is none."""
    groups = groups_of(seen, stored) or []
    return next((own[0] for at, own in groups if at == [axis] and len(own) == 1), None)


__all__ = ["slices"]
