"""map, reduce, normalize and pool: the stages with generated kernels."""

from __future__ import annotations

from dataclasses import replace

from dsl import arch as arches
from dsl.axes import image_axes, matrix_axes
from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.space import Space, shape_text
from dsl.check.tail import TAIL, Tail, expressions, is_auto, read_tail, record_reads
from dsl.diagnostics import listing
from dsl.fixes import (
    ChangeStage,
    Clause,
    Help,
    LeaveOut,
    Rewrite,
    SetClauses,
    help_of,
    leave_clause,
    or_else,
    write_clause,
    written,
)
from dsl.ir import NCHW, NORMALIZATIONS, REDUCTIONS, Acc, DType, Map, Normalize, Operand, Pool, Reduce, TensorType
from dsl.tree import NumberNode, StageNode, Word

MAP_CLAUSES = ("crop", "from", *TAIL)
REDUCE_CLAUSES = ("op", "over", "of", "keepdim", *TAIL)
NORMALIZE_CLAUSES = ("op", "over", "of", "groups", "eps", *TAIL)
POOL_CLAUSES = ("op", "window", "stride", "padding", "dilation", *TAIL)
POOLS = ("max", "avg")
SCALED = (*arches.FLOATS, DType.E4M3, DType.E5M2)  # the element types that absmax stores
OVER_NAMED = ("softmax", "log_softmax", "layernorm", "rmsnorm", "absmax")  # the ops with an `over` clause


_GLOBAL = write_clause("window", "global")
_WINDOWS = or_else(write_clause("window", "2x2"), _GLOBAL)


def both_axes(rank: int) -> dict[str, tuple[int, ...]]:
    return {**matrix_axes(rank), **image_axes(rank)}


def number_input(ctx: Context, node: StageNode, x: Operand, t: TensorType | None) -> TensorType | None:
    """As float_input, of a stage that reads i8 as whole numbers: those are f32 from there on."""
    if t is not None and t.dtype is DType.I8:
        t = replace(t, dtype=DType.F32)
    return float_input(ctx, node, x, t)


def float_input(ctx: Context, node: StageNode, x: Operand, t: TensorType | None) -> TensorType | None:
    """The type of the stage's input; None, with an error reported, unless it is a float tensor without .T."""
    if x.transposed:
        help = help_of(f"write {x.name}", Rewrite(x.name))
        ctx.error("E104", f"{node.op.text} reads {x.name} as it is, without .T", x.span, help)
        return None
    if t is None:
        return None
    if t.dtype not in arches.FLOATS:
        ctx.error("E123", f"{node.op.text} works on f32, f16 and bf16; {x.name} is {t}", x.span)
        return None
    if not t.shape:
        ctx.error("E104", f"{node.op.text} works on tensors; {x.name} is a scalar", x.span)
        return None
    return t


def map_(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Map:
    """The typed stage; `type` is None after an error."""
    (x, stored) = operands[0]
    t = number_input(ctx, node, x, stored)
    crop, start = _part(ctx, clauses, t)
    if t is not None and "crop" in clauses:
        t = None if crop is None else TensorType(t.dtype, crop, t.layout)
    space = None if t is None else Space(t.shape, both_axes(len(t.shape)), parts=True, whole=True, spoken="element")
    tail = read_tail(ctx, node, clauses, space, t)
    same = t is None or t.dtype is stored.dtype
    if isinstance(tail.epilogue, Acc) and not tail.also and crop is None and same:
        _computes_nothing(ctx, node, x.name, t, tail)
    return Map(
        name=node.name.text, x=x, crop=crop, start=start, span=node.span, clauses=spans(node), **tail.fields
    )  # fmt: skip


def _computes_nothing(ctx: Context, node: StageNode, x: str, t: TensorType | None, tail: Tail) -> None:
    """Report a map without an expression: it does nothing, or what a transform is for."""
    clauses: list[Clause] = []
    if t is not None and tail.store_layout not in (None, t.layout):
        clauses.append(("layout", tail.store_layout))
    if t is not None and tail.store not in (None, t.dtype):
        clauses.append(("to", tail.store.value))
    if not clauses:
        help = or_else(_block(("epilogue", "relu(acc)")), "a transform for another type or layout")
        ctx.error("E116", "this map changes nothing", node.span, help)
        return
    what = " and ".join({"layout": "layout", "to": "type"}[word] for word, _ in clauses)
    stage = f"{node.name.text} = transform({x}) {{ {written(tuple(clauses))} }}"
    fix = ChangeStage("transform", tuple(clauses), ("epilogue", "store", "let"))
    message = f"this map computes nothing; it changes the {what} alone"
    ctx.error("E116", message, node.span, help_of(f"write it as a transform: {stage}", fix))


def reduce(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Reduce:
    """The typed stage; `type` is None after an error."""
    (x, t) = operands[0]
    t = number_input(ctx, node, x, t)
    op = operation(ctx, node, clauses, REDUCTIONS, ("op", "sum"), ("over", "n"))
    over, at = axes_over(ctx, node, clauses, t)
    of = element_expression(ctx, node, clauses, t)
    keepdim = "keepdim" in clauses
    space = natural = None
    dtype = DType.I32 if op == "argmax" else None
    if t is not None and at is not None and op is not None:
        names = {n: p for n, p in both_axes(len(t.shape)).items() if keepdim or not set(p) & at}
        if keepdim:
            shape = tuple(1 if i in at else d for i, d in enumerate(t.shape))
        else:
            left = [i for i in range(len(t.shape)) if i not in at]
            shape = tuple(t.shape[i] for i in left)
            names = {n: tuple(left.index(i) for i in p) for n, p in names.items()}
        space = Space(shape, names, whole=True, spoken="reduction")
        natural = TensorType(dtype or t.dtype, shape, t.layout if keepdim else NCHW)
    if op == "argmax":
        for word in ("epilogue", "let", "also", "store"):
            for c in node.clauses:
                if c.keyword.text == word and not (word == "epilogue" and is_auto(c)):
                    message = f"argmax gives i32 positions; it has no {word}"
                    ctx.error("E124", message, c.keyword.span, help_of("leave it out", LeaveOut()))
        if at is not None and len(at) > 1:
            help = write_clause("over", over[-1]) if len(over) > 1 else "view the axes as one first"
            ctx.error("E119", "argmax runs over one axis", clauses["over"].span, help)
            natural = None
        clauses = {k: c for k, c in clauses.items() if k not in TAIL}
        if any(c.keyword.text in TAIL and not is_auto(c) for c in node.clauses if c.keyword.text != "store"):
            natural = None
    tail = read_tail(ctx, node, clauses, space, natural)
    return Reduce(
        name=node.name.text, x=x, op=op or "sum", over=over, of=of, keepdim=keepdim, span=node.span,
        clauses=spans(node), **tail.fields,
    )  # fmt: skip


def normalize(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Normalize:
    """The typed stage; `type` is None after an error."""
    (x, t), *params = operands
    t = number_input(ctx, node, x, t)
    op = operation(ctx, node, clauses, NORMALIZATIONS, ("op", "softmax"), ("over", "n"))
    over: tuple[str, ...] = ()
    at: set[int] | None = set()
    if op in OVER_NAMED:
        over, at = axes_over(ctx, node, clauses, t)
        most = {"layernorm": 5, "rmsnorm": 5, "absmax": 1}.get(op)  # of the last axes
        if t is not None and at and most and (len(at) > most or at != set(range(len(t.shape) - len(at), len(t.shape)))):
            last = "last axis" if most == 1 else "last axes"
            message = f"{op} runs over the {last} of {shape_text(t.shape)}, not over {', '.join(over)}"
            nearest = write_clause("over", list(matrix_axes(len(t.shape)))[-1])
            ctx.error("E119", message, clauses["over"].span, nearest)
            at = None
    elif op is not None and "over" in clauses:
        ctx.error("E124", f"the axes of {op} are fixed", clauses["over"].span, leave_clause("over"))
    groups = ctx.count(clauses, "groups")
    eps = _eps(ctx, clauses)
    if op is not None and t is not None and op not in OVER_NAMED:
        least = 3 if op == "instancenorm" else 2
        if not least <= len(t.shape) <= 5:
            message = f"{op} works on {least} to 5 axes, with channels second; {x.name} is {t}"
            ctx.error("E104", message, x.span)
            at = None
        elif op == "groupnorm":
            if groups is None and "groups" not in clauses:
                ctx.error("E120", "groupnorm needs its number of groups", node.span, write_clause("groups", "16"))
            elif groups is not None and t.shape[1] % groups:
                message = f"{t.shape[1]:,} channels are not {groups:,} equal groups"
                ctx.error("E118", message, clauses["groups"].span, f"a divisor of {t.shape[1]:,}")
    if op not in (None, "groupnorm") and "groups" in clauses:
        ctx.error("E124", f"groups is for groupnorm, not {op}", clauses["groups"].span, leave_clause("groups"))
    if op in ("softmax", "log_softmax", "absmax") and "eps" in clauses:
        ctx.error("E124", f"{op} has no eps", clauses["eps"].span, leave_clause("eps"))
    of = element_expression(ctx, node, clauses, t)
    if op is not None and t is not None and at is not None:
        _params(ctx, node, op, t, at, params)
    else:
        at = None if t is None or op is None else at
    space = None
    if t is not None:
        space = Space(t.shape, both_axes(len(t.shape)), whole=True, spoken="normalised element", before=True)
    stores = arches.FLOATS
    if op == "absmax":
        stores = SCALED
        space = None if space is None else replace(space, scaled=True, before=False)
    tail = read_tail(ctx, node, clauses, space, t if at is not None else None, stores)
    return Normalize(
        name=node.name.text, x=x, op=op or "softmax", over=over, params=tuple(o for o, _ in params), of=of,
        groups=groups or 1, eps=1e-5 if eps is None else eps, span=node.span, clauses=spans(node), **tail.fields,
    )  # fmt: skip


def pool(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Pool:
    """The typed stage; `type` is None after an error."""
    (x, t) = operands[0]
    t = float_input(ctx, node, x, t)
    if t is not None and not 3 <= len(t.shape) <= 5:
        ctx.error("E104", f"pool works on [b, c, space] with 1 to 3 axes of space; {x.name} is {t}", x.span)
        t = None
    op = operation(ctx, node, clauses, POOLS, ("op", "max"), ("window", "2x2"))
    space_axes = len(t.shape) - 2 if t else None
    c = clauses.get("window")
    window = stride = padding = dilation = shape = None
    if c is None:
        help = _WINDOWS if space_axes in (2, None) else _GLOBAL
        ctx.error("E120", "pool needs its window", node.span, help)
    elif isinstance(c.value, Word) and c.value.text == "global":
        for name in ("stride", "padding", "dilation"):
            if name in clauses:
                ctx.error("E124", f"a global window has no {name}", clauses[name].span, leave_clause(name))
        shape = (*t.shape[:2], *(1,) * space_axes) if t else None
    elif isinstance(c.value, Word):
        ctx.error("E112", f"`{c.value.text}` is not a value of window", c.span, _WINDOWS)
    else:
        owner = f"{x.name} in space"
        window = ctx.sizes(clauses, "window", space_axes, 1, owner)
        stride = ctx.sizes(clauses, "stride", space_axes, 1, owner)
        padding = ctx.sizes(clauses, "padding", space_axes, 0, owner)
        dilation = ctx.sizes(clauses, "dilation", space_axes, 1, owner)
        if op == "avg" and dilation and set(dilation) != {1}:
            ctx.error("E124", "avg has no dilation", clauses["dilation"].span, leave_clause("dilation"))
            dilation = None
        if t and window:
            stride, padding = stride or window, padding or (0,) * space_axes
            dilation = dilation or (1,) * space_axes
            shape = _pooled(ctx, clauses, t, window, stride, padding, dilation)
    natural = None if t is None or shape is None or op is None else TensorType(t.dtype, shape, t.layout)
    space = None if shape is None else Space(shape, image_axes(len(shape)), spoken="pooled element")
    tail = read_tail(ctx, node, clauses, space, natural)
    return Pool(
        name=node.name.text, x=x, op=op or "max", window=window, stride=stride or () if window else (),
        padding=padding or () if window else (), dilation=dilation or () if window else (), span=node.span,
        clauses=spans(node), **tail.fields,
    )  # fmt: skip


# ---- parts ----


def _part(
    ctx: Context, clauses: Clauses, t: TensorType | None
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """`crop` and `from` of a map: the shape of the part of x that it reads, and the part's first element (None: x's
    own). None for both without a crop or after an error."""
    crop, start = ctx.sizes(clauses, "crop", None, 1, ""), ctx.sizes(clauses, "from", None, 0, "")
    if "from" in clauses and "crop" not in clauses:
        help = "crop gives the shape of the part that begins there"
        ctx.error("E117", "from is the first element of a crop, and this map has none", clauses["from"].span, help)
    if crop is None or t is None:
        return None, None
    for name, sizes in (("crop", crop), ("from", start)):
        if sizes is not None and len(sizes) != len(t.shape):
            message = (
                f"{name} gives {len(sizes)} size{'s'[: len(sizes) != 1]}; {shape_text(t.shape)} has {len(t.shape)}"
            )
            ctx.error("E117", message, clauses[name].span)
            return None, None
    for size, first, whole in zip(crop, start or (0,) * len(crop), t.shape, strict=True):
        if first + size > whole:
            message = f"{size:,} elements from {first:,} on end at {first + size:,}; the axis has {whole:,}"
            ctx.error("E117", message, clauses["crop"].span, f"at most {max(0, whole - first):,}")
            return None, None
    return crop, start if start is not None and any(start) else None


def _block(*clauses: Clause) -> Help:
    """The help that shows a stage's block: `{ op sum  over n }`."""
    return help_of(f"{{ {written(clauses)} }}", SetClauses(clauses))


def operation(ctx: Context, node: StageNode, clauses: Clauses, known: tuple[str, ...], *example: Clause) -> str | None:
    c = clauses.get("op")
    if c is None or c.value.text == "auto":
        message = f"{node.op.text} needs its op: {listing(known)}"
        ctx.error("E120", message, node.span if c is None else c.span, _block(*example))
        return None
    return ctx.word(clauses, "op", known)


def axes_over(
    ctx: Context, node: StageNode, clauses: Clauses, t: TensorType | None
) -> tuple[tuple[str, ...], set | None]:
    """The axes named in `over` and their positions; the positions are None after an error."""
    c = clauses.get("over")
    if c is None:
        ctx.error("E119", f"{node.op.text} needs the axes that it runs over", node.span, write_clause("over", "n"))
        return (), None
    names = tuple(w.text for w in c.value)
    if t is None:
        return names, None
    axes = both_axes(len(t.shape))
    at: list[int] = []
    for w in c.value:
        if w.text not in axes:
            message = f"`{w.text}` is not an axis of {shape_text(t.shape)}"
            ctx.error("E119", message, w.span, f"axes are {listing(axes)}")
            return names, None
        at += axes[w.text]
    if len(set(at)) != len(at):
        ctx.error("E119", f"over {', '.join(names)} names an axis twice", c.span, "each axis once")
        return names, None
    return names, set(at)


def element_expression(ctx: Context, node: StageNode, clauses: Clauses, t: TensorType | None):
    """The expression over x's elements that is reduced or normalised."""
    c = clauses.get("of")
    if c is None or is_auto(c):
        return Acc(span=node.span)
    space = None if t is None else Space(t.shape, both_axes(len(t.shape)), whole=True, spoken="element")
    checker = expressions(ctx, node, space)
    expr = checker.check(c.value, "expression", outermost=False)
    record_reads(ctx, node, checker)
    return expr


def _eps(ctx: Context, clauses: Clauses) -> float | None:
    c = clauses.get("eps")
    if c is None:
        return None
    if not isinstance(c.value, NumberNode):
        if c.value.text != "auto":
            ctx.error("E112", f"`{c.value.text}` is not a value of eps", c.span, write_clause("eps", "1e-5"))
        return None
    if not 0 <= c.value.value <= 1:
        ctx.error("E113", f"eps {c.value.value:g}; it is from 0 to 1", c.span, write_clause("eps", "1e-5"))
        return None
    return c.value.value


def _params(ctx: Context, node: StageNode, op: str, t: TensorType, at: set[int], params: list[Typed]) -> None:
    """Check the number and the shapes of a norm's parameters: batchnorm's mean and var, then weight and bias."""
    names = {
        "softmax": (),
        "log_softmax": (),
        "absmax": (),
        "rmsnorm": ("weight", "bias"),
        "batchnorm": ("mean", "var", "weight", "bias"),
    }
    takes = names.get(op, ("weight", "bias"))
    least = 2 if op == "batchnorm" else 0
    if not least <= len(params) <= len(takes):
        known = f"x, {', '.join(takes)}" if takes else "x alone"
        tensors = f"{1 + len(params)} tensors are" if params else "x alone is"
        ctx.error("E118", f"{op} reads {known}; {tensors} given", node.span)
        return
    if not params:  # softmax takes none, also of a vector, which has no axis of channels
        return
    shape = tuple(t.shape[i] for i in sorted(at)) if op in ("layernorm", "rmsnorm") else (t.shape[1],)
    for (o, p), role in zip(params, takes, strict=False):
        if p is None:
            continue
        if o.transposed or p.shape != shape or p.layout != NCHW:
            ctx.error("E118", f"the {role} of this {op} is {shape_text(shape)}; {o.name} is {p}", o.span)
        elif p.dtype not in (DType.F32, t.dtype):
            ctx.error("E118", f"the {role} is f32 or {t.dtype.value}; {o.name} is {p}", o.span)


def _pooled(ctx: Context, clauses: Clauses, t: TensorType, window, stride, padding, dilation) -> tuple[int, ...] | None:
    sizes = []
    for i, (size, w, s, p, d) in enumerate(zip(t.shape[2:], window, stride, padding, dilation, strict=True)):
        name = list(image_axes(len(t.shape)))[2 + i]
        reach = d * (w - 1) + 1
        if p > w // 2:
            message = f"padding {p:,} is more than half of the window {w:,} along {name}"
            ctx.error("E109", message, clauses["padding"].span, f"at most {w // 2:,}")
            return None
        if size + 2 * p < reach:
            apart = f" with dilation {d:,} reaches over {reach:,} and" if d > 1 else ""
            message = f"a window of {w:,}{apart} does not fit axis {name} of {size + 2 * p:,}"
            most = or_else(f"at most {(size + 2 * p - 1) // d + 1:,}", _GLOBAL)
            ctx.error("E109", message, clauses["window"].span, most)
            return None
        sizes.append((size + 2 * p - reach) // s + 1)
    return (*t.shape[:2], *sizes)
