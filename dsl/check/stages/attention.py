"""attention: the shapes of queries, keys and values, and its clauses (E104, E105, E107, E112, E113, E115, E123)."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from dsl.arch import DEFAULT
from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.space import shape_text
from dsl.fixes import Help, SetArch, help_of, leave_clause, transform_first, write_clause
from dsl.ir import NCHW, ORDERS, Attention, DType, TensorType
from dsl.tree import NumberNode, StageNode, Word

ATTENTION_CLAUSES = ("scale", "causal", "order", "heads")
ELEMENTS = (DType.F16, DType.BF16)
STEP, WIDEST = 8, 256  # of a head's size: 16 bytes, and what one block's accumulators and shared memory hold


def attention(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Attention:
    """The typed stage; `type` is None after an error."""
    order = ctx.word(clauses, "order", tuple(ORDERS)) or "bhmd"
    heads = _heads(ctx, node, clauses, len(operands))
    names = [o for o, _ in operands]
    stage = Attention(
        node.name.text, *(*names, None, None)[:3], causal="causal" in clauses, order=order, heads=heads,
        span=node.span, clauses=spans(node),
    )  # fmt: skip
    if ctx.arch is not None and ctx.arch.name != DEFAULT:
        message = f"attention is written for {DEFAULT} alone, not for {ctx.arch.name}"
        ctx.error("E201", message, node.span, help_of(f"arch {DEFAULT}", SetArch(DEFAULT)))
    result = _result(ctx, node, stage, operands, clauses) if _readable(ctx, node, operands) else None
    scale = _scale(ctx, clauses)
    if result is None:
        return stage
    size = operands[0][1].shape[-1]
    return replace(stage, scale=1 / sqrt(size) if scale is None else scale, type=result)


def _readable(ctx: Context, node: StageNode, operands: list[Typed]) -> bool:
    """Report the operands that no attention reads, and those of another type than the first."""
    ok = all(t is not None for _, t in operands)
    for o, t in operands:
        if t is None:
            continue
        help: Help | str | None = None
        if o.transposed:
            message = f"attention reads {o.name} as it is, without .T"
            ctx.error("E104", message, o.span, "q is [b, h, m, d], k [b, g, n, d] and v [b, g, n, e]")
        elif len(t.shape) != 4:
            message = f"q, k and v have four axes, as [b, h, m, d]; {o.name} is {t}"
            ctx.error("E104", message, o.span, "a transform gives it another view")
        elif t.dtype not in ELEMENTS:
            help = transform_first(o.name, ("to", "f16"))
            ctx.error("E123", f"attention multiplies f16 and bf16; {o.name} is {t}", o.span, help)
        elif t.layout != NCHW:
            help = transform_first(o.name, ("layout", NCHW))
            ctx.error("E115", f"attention reads row-major operands; {o.name} is {t}", o.span, help)
        else:
            continue
        ok = False
    if ok and len({t.dtype for _, t in operands}) > 1:
        first, other = operands[0][1], next(x for x in operands if x[1].dtype is not operands[0][1].dtype)
        message = f"{operands[0][0].name} is {first.dtype.value} and {other[0].name} is {other[1].dtype.value}"
        help = transform_first(other[0].name, ("to", first.dtype.value))
        ctx.error("E107", f"{message}; q, k and v are of one type", other[0].span, help)
        return False
    return ok


def _heads(ctx: Context, node: StageNode, clauses: Clauses, count: int) -> tuple[int, int] | None:
    """(heads of q, heads of k and of v) in the one operand; None where there are more, or after an error."""
    c = clauses.get("heads")
    if count > 1:
        if c is not None:
            message = f"heads divides one operand among q, k and v; here there are {count}"
            ctx.error("E124", message, c.span, leave_clause("heads"))
        return None
    if c is None or (isinstance(c.value, Word) and c.value.text == "auto"):
        if count == 1:
            message = "attention of one tensor needs its heads: those of q, and those of k and of v"
            ctx.error("E120", message, node.span, write_clause("heads", "8x8"))
        return None
    sizes = ctx.sizes(clauses, "heads", 2, 1, "those of q, and those of k and of v,")
    return None if sizes is None else (sizes[0], sizes[1])


def _result(
    ctx: Context, node: StageNode, stage: Attention, operands: list[Typed], clauses: Clauses
) -> TensorType | None:
    """The type of the result; None, with the error reported, if the shapes fit no attention."""
    shapes = tuple(stage.by_head(t.shape) for _, t in operands)
    every = shapes[-1][1]
    if len(shapes) == 1:
        if stage.heads is None:
            return None
        h, g = stage.heads
        if every != h + 2 * g:
            message = f"{h} heads of q and twice {g} of k and v are {h + 2 * g}; {stage.q.name} has {every}"
            ctx.error("E105", message, clauses["heads"].span, _divided(every))
            return None
    elif len(shapes) == 2 and every % 2:
        message = f"{stage.k.name} holds as many heads of k as of v; it has {every}"
        ctx.error("E105", message, stage.k.span, "or give v as a third tensor")
        return None
    parts = stage.parts(shapes)
    at = [operands[i][0].span for i, _, _ in parts]
    sides = [(shapes[i][0], count, *shapes[i][2:]) for i, _, count in parts]
    (b, h, m, d), (bk, g, n, dk), (bv, gv, nv, e) = sides
    problem = _unequal(
        [("batches", b, bk), ("sizes of a head", d, dk), ("batches", b, bv), ("heads", g, gv), ("positions", n, nv)]
    )
    if problem is not None:
        code, place, message = problem
        note = ", ".join(f"{o.name} is {shape_text(t.shape)}" for o, t in operands)
        ctx.error(code, message, at[place], f"in the order {stage.order}", (note,))
        return None
    if h % g:
        message = f"{h:,} heads of queries do not divide among {g:,} heads of keys"
        ctx.error("E105", message, at[1], f"a multiple of {g:,} heads of queries")
        return None
    for size, span in ((d, at[0]), (e, at[2])):
        if size % STEP or size > WIDEST:
            message = f"a head of {size:,} elements; it has a multiple of {STEP}, at most {WIDEST}"
            ctx.error("E113", message, span, "a transform can pad the last axis; give scale then")
            return None
    if stage.causal and m != n:
        message = f"causal is for as many queries as keys; there are {m:,} and {n:,}"
        ctx.error("E105", message, clauses["causal"].span, leave_clause("causal"))
        return None
    return TensorType(operands[0][1].dtype, stage.in_order((b, h, m, e)))


def _unequal(pairs: list[tuple[str, int, int]]) -> tuple[str, int, str] | None:
    """The first sizes that must be equal and are not: (code, operand at fault, message)."""
    between = (("q", "k"), ("q", "k"), ("q", "v"), ("k", "v"), ("k", "v"))
    for (what, one, other), (left, right) in zip(pairs, between, strict=True):
        if one != other:
            code = "E103" if what.startswith("sizes") else "E105"
            return code, 1 if right == "k" else 2, f"{left} has {one:,} {what}, and {right} {other:,}"
    return None


def _divided(every: int) -> Help | str:
    """What the heads of a packed operand may be."""
    if every % 3 == 0:
        return write_clause("heads", f"{every // 3}x{every // 3}")
    return f"the heads of q and twice those of k are {every}"


def _scale(ctx: Context, clauses: Clauses) -> float | None:
    c = clauses.get("scale")
    if c is None:
        return None
    if not isinstance(c.value, NumberNode):
        if c.value.text != "auto":
            ctx.error("E112", f"`{c.value.text}` is not a value of scale", c.span, write_clause("scale", "0.125"))
        return None
    return c.value.value


__all__ = ["ATTENTION_CLAUSES", "attention"]
