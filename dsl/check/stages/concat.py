"""concat: tensors one after another along one axis (E105, E107, E119, E120)."""

from __future__ import annotations

from dsl.axes import single_axes
from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.space import Space, shape_text
from dsl.check.stages.generated import float_input
from dsl.check.tail import TAIL, is_auto, read_tail
from dsl.diagnostics import listing
from dsl.fixes import transform_first, write_clause
from dsl.ir import Concat, TensorType
from dsl.tree import StageNode

CONCAT_CLAUSES = ("over", *TAIL)
MOST = 64  # operands: each is a kernel of its own


def concat(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Concat:
    """The typed stage; `type` is None after an error."""
    types = [float_input(ctx, node, o, t) for o, t in operands]
    first = types[0]
    over = _over(ctx, node, clauses, first)
    natural = None
    if first is not None and over is not None and all(t is not None for t in types):
        natural = _joined(ctx, operands, single_axes(len(first.shape))[over])
    space = None if natural is None else Space(natural.shape, _places(natural), spoken="element")
    tail = read_tail(ctx, node, clauses, space, natural)
    return Concat(
        name=node.name.text, parts=tuple(o for o, _ in operands), over=over or "", span=node.span, clauses=spans(node),
        **tail.fields,
    )  # fmt: skip


def _places(t: TensorType) -> dict[str, tuple[int, ...]]:
    return {name: (at,) for name, at in single_axes(len(t.shape)).items()}


def _over(ctx: Context, node: StageNode, clauses: Clauses, t: TensorType | None) -> str | None:
    """The name of the axis along which the operands follow each other; None after an error."""
    c = clauses.get("over")
    if c is None or is_auto(c):
        ctx.error("E120", "concat needs its axis", node.span, write_clause("over", "n"))
        return None
    names = [w.text for w in c.value]
    if len(names) > 1:
        ctx.error("E119", "concat runs over one axis", c.span, write_clause("over", names[0]))
        return None
    if t is None:
        return names[0]
    axes = single_axes(len(t.shape))
    if names[0] not in axes:
        ctx.error("E119", f"`{names[0]}` is not an axis of {shape_text(t.shape)}", c.span, f"axes are {listing(axes)}")
        return None
    return names[0]


def _joined(ctx: Context, operands: list[Typed], at: int) -> TensorType | None:
    """The type of the result; None, with the error reported, if an operand does not fit the first one."""
    (o, first), *rest = operands
    shape, layout = list(first.shape), first.layout
    for other, t in rest:
        alike = len(t.shape) == len(shape)
        alike = alike and all(
            i == at or a == b or 1 in (a, b) for i, (a, b) in enumerate(zip(shape, t.shape, strict=True))
        )
        if not alike:
            message = f"{o.name} is {shape_text(first.shape)} and {other.name} {shape_text(t.shape)}"
            ctx.error("E105", f"{message}; they differ along that axis alone", other.span)
            return None
        if t.dtype is not first.dtype:
            message = f"{o.name} is {first.dtype.value} and {other.name} is {t.dtype.value}; all are of one type"
            ctx.error("E107", message, other.span, transform_first(other.name, ("to", first.dtype.value)))
            return None
        wider = any(i != at and a < b for i, (a, b) in enumerate(zip(shape, t.shape, strict=True)))
        layout = t.layout if wider else layout
        shape = [a + b if i == at else max(a, b) for i, (a, b) in enumerate(zip(shape, t.shape, strict=True))]
    return TensorType(first.dtype, tuple(shape), layout)


__all__ = ["CONCAT_CLAUSES", "MOST", "concat"]
