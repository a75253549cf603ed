"""cat: tensors one after another along an axis, as a stage in which the work on their elements joins."""

from __future__ import annotations

from math import prod

from dsl.axes import single_axes
from dsl.check.stages.concat import MOST
from engine.strategies.planner.lowering.drafts import Concatenation, Slice, Value
from engine.strategies.planner.lowering.lowering_context import LoweringContext

CONCATENATIONS = ("cat", "concat", "concatenate")
_FLOATS = ("f32", "f16", "bf16")


def concatenation(walk: LoweringContext) -> Value:
    """A stage over the module's own axes; axes after the joined one may be seen as one, and those before it too."""
    op, out = walk.op, walk.out()
    tensors = [walk.graph.tensors[name] for name in op.inputs]
    # PyTorch lets an empty tensor of one axis pass.
    values, tensors = zip(*((v, t) for v, t in zip(walk.arguments(), tensors, strict=True) if t.elements), strict=True)
    axis = int(op.attrs.get("dim", 0)) % len(out.shape)
    if len(values) == 1 and not isinstance(values[0], float):
        return values[0]
    if any(isinstance(v, float) for v in values):
        raise walk.refuse("of a tensor whose elements are all one number is not covered yet")
    if not 2 <= len(values) <= MOST:
        raise walk.refuse(f"of {len(values)} tensors is not covered yet; covered are 2 to {MOST}")
    if out.dtype not in _FLOATS or {walk.graph.tensors[n].dtype for n in op.inputs} != {out.dtype}:
        raise walk.refuse("of other elements than floats of one type is not covered yet")
    sizes = _sizes(out.shape, axis)
    names = {at: name for name, at in single_axes(len(sizes[0])).items()}
    parts = []
    for value, tensor in zip(values, tensors, strict=True):
        if isinstance(value, Slice):
            raise walk.copied(value)
        leaf = walk.leaf(value)
        shape = (*sizes[0][: sizes[1]], tensor.shape[axis], *sizes[0][sizes[1] + 1 :])
        parts.append(walk.see(leaf, _repeated(leaf.shape, shape, sizes[1]) or shape))
    whole = [max(part.shape[i] for part in parts) for i in range(len(sizes[0]))]
    if any(i != sizes[1] and a != b for i, (a, b) in enumerate(zip(whole, sizes[0], strict=True))):
        raise walk.refuse("of tensors that are all expanded is not covered yet")
    draft = Concatenation(sizes[0], out.dtype, parts=tuple(parts), over=names[sizes[1]])
    return walk.add(draft, out.shape)


def _repeated(own: tuple[int, ...], shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    """The sizes of an expanded tensor, seen with one element along the axes that it repeats; None if it repeats none,
    or its own axis."""
    if prod(own) == prod(shape) or len(own) > len(shape):
        return None
    padded = (1,) * (len(shape) - len(own)) + own
    fits = padded[axis] == shape[axis] and all(a in (1, b) for a, b in zip(padded, shape, strict=True))
    return padded if fits else None


def _sizes(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """The shape in which a stage joins tensors, of at most five axes, and the axis there."""
    if len(shape) <= 5:
        return shape, axis
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    return (before, shape[axis], after), 1


__all__ = ["CONCATENATIONS", "concatenation"]
