"""The shape of a product, and TMA's rule of 16-byte rows (E103 to E107, E115, E123, E205)."""

from __future__ import annotations

from collections.abc import Callable

from dsl.arch import BYTES, COMPUTE_FOR
from dsl.check.space import shape_text
from dsl.fixes import Help, PadDepth, Rewrite, help_of, transform_first
from dsl.functions import REDUCTIONS
from dsl.ir import NCHW, Call, DType, Gemm, GroupedGemm, Operand, TensorType, expressions, loads
from dsl.rules.cute.cast_weight import casts_weight

Error = Callable[..., None]  # error(code, message, span, help=None, notes=())
MAX_DIM = 2**31 - 1  # CUTLASS counts problem sizes in 32-bit integers
MAX_ELEMENTS = 2**40


def product_shape(
    word: str, a: Operand, ta: TensorType, b: Operand, tb: TensorType, error: Error
) -> tuple[int, ...] | None:
    """The shape of the product; None, with the errors reported, if there is none. `word` is the stage's keyword."""
    ok = True
    for o, t in ((a, ta), (b, tb)):
        if len(t.shape) < 2:
            error("E104", f"{word} multiplies matrices; {o.name} is {t}", o.span, "a matrix has two axes or more")
            ok = False
        elif t.dtype not in COMPUTE_FOR:
            error("E123", f"{word} does not multiply {t.dtype.value}, and {o.name} is {t}", o.span)
            ok = False
        elif t.layout != NCHW:
            help = transform_first(o.name, ("layout", NCHW))
            error("E115", f"{word} reads row-major operands; {o.name} is {t}", o.span, help)
            ok = False
    if not ok:
        return None
    if ta.dtype is not tb.dtype and not (word == "gemm" and casts_weight(a, ta, b, tb)):
        wide, narrow = (a, tb) if ta.dtype.bits >= tb.dtype.bits else (b, ta)
        error(
            "E107", f"{a.name} is {ta.dtype.value} and {b.name} is {tb.dtype.value}; both must be one type", b.span,
            transform_first(wide.name, ("to", narrow.dtype.value)),
        )  # fmt: skip
        return None
    sa, sb = _seen(ta.shape, a.transposed), _seen(tb.shape, b.transposed)
    if sa[-1] != sb[-2]:
        notes = (f"{_text(a)} is {shape_text(sa)}, {_text(b)} is {shape_text(sb)}",)
        help: Help | str | None = None
        if sa[-1] == sb[-1]:
            help = f"gemm({_text(a)}, {b.name})" if b.transposed else _turned(b, f"gemm({_text(a)}, {b.name}.T)")
        elif sa[-2] == sb[-2]:
            help = f"gemm({a.name}{'' if a.transposed else '.T'}, {_text(b)})"
        message = f"K is {sa[-1]:,} in {_text(a)} and {sb[-2]:,} in {_text(b)}"
        error("E103", message, b.span, help, notes)
        return None
    if len(sb) > 2 and sa[:-2] != sb[:-2]:
        notes = (f"{_text(a)} is {shape_text(sa)}, {_text(b)} is {shape_text(sb)}",)
        help = "leading dimensions are equal, or the second operand is 2-D and shared by every batch"
        error("E105", "the batches of the operands differ", b.span, help, notes)
        return None
    batch = 1
    for d in sa[:-2]:
        batch *= d
    if batch > MAX_DIM:
        error("E113", f"{batch:,} batches; at most {MAX_DIM:,}", a.span)
        return None
    if ta.dtype in BYTES and (a.transposed or not b.transposed):
        o = a if a.transposed else b
        help = f"{word}(..) reads {a.name}"
        if o is b:
            help = _turned(b, f"{word}(..) reads {b.name}.T with {b.name} kept as [n, k]")
        message = f"tensor cores read {ta.dtype.value} operands along K; {_text(o)} is contiguous along its other axis"
        error("E215", message, o.span, help)
        return None
    return (*sa[:-1], sb[-1])


def aligned(stage: Gemm | GroupedGemm, types: dict[str, TensorType | None], error: Error) -> bool:
    """Return True if every tensor that TMA moves has 16-byte rows: operands, results and full epilogue operands."""
    ok = True
    if stage.config.compute is DType.F32:
        return True  # the CUDA cores read single elements
    a_axis, b_axis = "M" if stage.a.transposed else "K", "K" if stage.b.transposed else "N"
    spots = [
        (stage.a.name, types[stage.a.name], a_axis, stage.a.span),
        (stage.b.name, types[stage.b.name], b_axis, stage.b.span),
    ]
    for load in dict.fromkeys(x for e in expressions(stage) for x in loads(e)):
        t = types.get(load.name)
        if t is not None and {"m", "n"} <= set(load.axes):
            spots.append((load.name, t, "N", load.span))
    if not _reduces(stage.epilogue):
        spots.append((stage.name, stage.type, "N", stage.clause_span("store")))
    spots += [(x.name, x.type, "N", x.span) for x in stage.also if not _reduces(x.expr)]
    seen: set[str] = set()
    for name, t, axis, span in spots:
        size = t.shape[-1] * t.dtype.bits // 8
        if size % 16 and name not in seen:
            seen.add(name)
            step = 128 // t.dtype.bits
            up = -(-t.shape[-1] // step) * step
            padded = f"pad {axis} from {t.shape[-1]:,} to {up:,} with zeros"
            error(
                "E205", f"rows of {name} have {size:,} bytes; TMA moves multiples of 16", span,
                help_of(padded, PadDepth(up)) if axis == "K" else padded,
                (f"{axis} = {t.shape[-1]:,} {t.dtype.value} values; {axis} must be a multiple of {step}",),
            )  # fmt: skip
            ok = False
    return ok


def _reduces(e) -> bool:
    return isinstance(e, Call) and e.fn in REDUCTIONS


def _seen(shape: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    """The shape of an operand after `.T`."""
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _turned(o: Operand, sentence: str) -> Help:
    """The help that reads an operand with .T."""
    return help_of(sentence, Rewrite(f"{o.name}.T"))


def _text(o: Operand) -> str:
    return f"{o.name}.T" if o.transposed else o.name
