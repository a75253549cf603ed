"""transform: interleave, view, permute, pad or crop, layout, cast, in that order."""

from __future__ import annotations

from math import prod

from dsl import arch as arches
from dsl.check.context import LAYOUTS, MAX_RANK, Clauses, Context, Typed, dims, spans
from dsl.check.space import shape_text
from dsl.diagnostics import listing
from dsl.fixes import (
    Help,
    InTwo,
    LeaveClauses,
    SetClauses,
    help_of,
    leave_clause,
    or_else,
    transform_first,
    write_clause,
)
from dsl.ir import NCHW, DType, TensorType, Transform
from dsl.ir.views import view_strides
from dsl.tree import StageNode, Word

TRANSFORM_CLAUSES = ("interleave", "view", "permute", "pad", "crop", "layout", "to", "prepack")
CHANGES = tuple(c for c in TRANSFORM_CLAUSES if c != "prepack")
IN_TWO = help_of("two transforms, one after the other", InTwo())
CASTS = (*arches.FLOATS, DType.E4M3, DType.E5M2)


def transform(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Transform:
    """The typed stage; `type` is None after an error."""
    (x, tx), *rest = operands
    other = rest[0][0] if rest else None
    for o, _ in operands:
        if o.transposed:
            ctx.error("E104", f"transform reads {o.name} as it is", o.span, "permute 1x0 transposes a matrix")
    prepack = "prepack" in clauses
    if prepack:
        _prepack(ctx, node, operands, clauses)
    word = _word(clauses, "to")
    to = ctx.dtype(word) if word else None
    layout = ctx.word(clauses, "layout", LAYOUTS, "E115")
    view = ctx.sizes(clauses, "view", None, 1, "")
    permute = ctx.sizes(clauses, "permute", None, 0, "")
    pad = ctx.sizes(clauses, "pad", None, 1, "")
    crop = ctx.sizes(clauses, "crop", None, 1, "")
    t = tx
    words = [c.keyword.text for c in node.clauses]
    twice = any(words.count(w) > 1 for w in CHANGES)  # reported; the type of the result is open
    ok = not (word and to is None) and not twice and not any(o.transposed for o, _ in operands)
    if rest and "interleave" not in clauses:
        ctx.error(
            "E104",
            "transform takes one tensor, or two with interleave",
            node.span,
            help_of("{ interleave }", SetClauses((("interleave", ""),))),
        )
        ok = False
    elif "interleave" in clauses:
        t = _interleave(ctx, node, operands, clauses)
    changes = any(v is not None for v in (view, permute, pad, crop, layout, to)) or "interleave" in clauses
    if not set(clauses) & set(CHANGES):
        ctx.error("E116", "this transform changes nothing", node.span, "for example { to f16 } or { layout nhwc }")
    if t is not None:
        t = _reshaped(ctx, clauses, x.name, t, view, permute, pad, crop)
    if t is not None and layout is not None and not ctx.layout_fits(clauses["layout"].value, len(t.shape)):
        t = None
    if to is not None and t is not None:
        t = _cast(ctx, x.name, t, to, word)
    result = None
    if t is not None and ok and changes:
        natural = t.layout if 3 <= len(t.shape) <= 5 and view is None and permute is None else NCHW
        result = ctx.sized(TensorType(t.dtype, t.shape, layout or natural), node.span)
        if result is not None and result == tx and "interleave" not in clauses and not (view or permute or pad or crop):
            clause = "to" if word else "layout"
            description = f"{tx.dtype.value}" if word and not layout else f"{tx}" if word else f"{tx.layout}"
            ctx.error("E116", f"{x.name} is {description} already", clauses[clause].span, f"read {x.name} itself")
            result = None
    return Transform(
        name=node.name.text, x=x, to=to, prepack=prepack, view=view, permute=permute, pad=pad, crop=crop, other=other,
        store_layout=layout, type=result, span=node.span, clauses=spans(node),
    )  # fmt: skip


def _word(clauses: Clauses, name: str) -> Word | None:
    c = clauses.get(name)
    return c.value if c is not None and c.value.text != "auto" else None


def _prepack(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> None:
    """Check that the operands are parameters or were prepacked from parameters."""
    for o, _ in operands:
        if o.name in ctx.types and o.name not in ctx.params and o.name not in ctx.prepacked:
            ctx.error("E407", f"prepack is for parameters; {o.name} changes at every call",
                      clauses["prepack"].span, leave_clause("prepack"))  # fmt: skip
            return
    ctx.prepacked.add(node.name.text)


def _interleave(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> TensorType | None:
    span = clauses["interleave"].span
    if len(operands) != 2:
        ctx.error("E104", "interleave takes two tensors", span, "transform(a, b) { interleave }")
        return None
    (a, ta), (b, tb) = operands
    if ta is None or tb is None:
        return None
    if ta != tb:
        ctx.error("E117", f"interleave takes equal tensors; {a.name} is {ta}, {b.name} is {tb}", b.span)
        return None
    if not ta.shape or ta.layout != NCHW:
        ctx.error("E117", f"interleave takes row-major tensors with rows; {a.name} is {ta}", a.span)
        return None
    for name in ("view", "permute", "pad", "crop"):
        if name in clauses:
            ctx.error(
                "E117",
                f"a transform has either interleave or {name}",
                clauses[name].span,
                "two transforms, one after the other",
            )
            return None
    row = max(0, len(ta.shape) - 2)
    return TensorType(ta.dtype, tuple(2 * d if i == row else d for i, d in enumerate(ta.shape)))


def _reshaped(ctx: Context, clauses: Clauses, x: str, t: TensorType, view, permute, pad, crop) -> TensorType | None:
    """The type after view, permute, pad and crop; None, with an error reported, if one of them does not fit."""
    shape = t.shape
    for name in ("view", "permute", "pad", "crop"):
        if name in clauses and isinstance(clauses[name].value, tuple) and len(clauses[name].value) > MAX_RANK:
            ctx.error("E113", f"{name} has {len(clauses[name].value)} axes; at most {MAX_RANK}", clauses[name].span)
            return None
    if view is not None:
        if prod(view) != t.elements:
            message = f"view {dims(view)} has {prod(view):,} elements; {shape_text(shape)} has {t.elements:,}"
            ctx.error("E117", message, clauses["view"].span, _nearest_view(view, t.elements))
            return None
        if view_strides(shape, t.strides, view) is None:
            message = f"view {dims(view)} joins channels with other axes, and channels lie last in {t}"
            ctx.error("E117", message, clauses["view"].span, transform_first(x, ("layout", NCHW)))
            return None
        shape = view
    if permute is not None:
        if sorted(permute) != list(range(len(shape))):
            axes = listing(range(len(shape))) if shape else "none"
            message = f"permute {dims(permute)} does not name each axis of {shape_text(shape)} once"
            ctx.error("E117", message, clauses["permute"].span, f"axes are {axes}")
            return None
        shape = tuple(shape[i] for i in permute)
    if pad is not None and crop is not None:
        later = max((clauses["pad"].span, clauses["crop"].span), key=lambda s: (s.line, s.col))
        ctx.error("E117", "a transform pads or crops, not both", later, IN_TWO)
        return None
    for name, to in (("pad", pad), ("crop", crop)):
        if to is None:
            continue
        if len(to) != len(shape):
            message = f"{name} gives {len(to)} size{'s'[: len(to) != 1]}; {shape_text(shape)} has {len(shape)}"
            help = help_of(f"{name} {dims(shape)} changes nothing", LeaveClauses((name,)))
            ctx.error("E117", message, clauses[name].span, help)
            return None
        wrong = [(a, b) for a, b in zip(shape, to, strict=True) if (a > b if name == "pad" else a < b)]
        if wrong:
            message = (
                f"{name} makes an axis of {wrong[0][0]:,} {'smaller' if name == 'pad' else 'larger'}: {wrong[0][1]:,}"
            )
            other = "crop" if name == "pad" else "pad"
            help = or_else(f"{other} does that", write_clause(name, dims(shape)))
            ctx.error("E117", message, clauses[name].span, help)
            return None
        shape = to
    return TensorType(t.dtype, shape, t.layout if len(shape) == len(t.shape) else NCHW)


def _nearest_view(view: tuple[int, ...], elements: int) -> Help | None:
    """The view with one size changed so that it has all the elements; None if there is none."""
    for i in reversed(range(len(view))):
        rest = prod(view) // view[i]
        if rest and elements % rest == 0:
            return write_clause("view", dims((*view[:i], elements // rest, *view[i + 1 :])))
    return None


def _cast(ctx: Context, name: str, t: TensorType, to: DType, word: Word) -> TensorType | None:
    for dtype in (t.dtype, to):
        if dtype not in CASTS and t.dtype is not to:
            message = f"transform casts among {listing([c.value for c in CASTS])}, not {dtype.value}"
            ctx.error("E123", message, word.span)
            return None
    return TensorType(to, t.shape, t.layout)
