"""Results that a guarded program rounds to f16 where they are stored (dsl.guard): `store f16` in place of a cast after.

To round a result where it is stored is the same as to cast it afterwards as long as whoever reads it takes f16 anyhow:
a product's or convolution's operand, or a transform that only moves it to one. A residual, a norm's input, an
epilogue or the caller would get what f32 holds and f16 does not, so for those the result stays f32 (`wider_reader`).

The kernel that stores it looks at its f32 values as a cast does (`watched_stores`): a chunk is a row of a product's
tile, or what one warp stores. One result needs no look (`known_range`): a softmax times c over rows of at most c
elements, c at most 65504. Its row sums to c, so the row's largest is within [1, c] however the logits lie, and the
2^-25 by which f16 errs below 2^-14 is at most 2^-25 of that one; a row of 2^15 of them adds up to less than the
rounding of its largest. To multiply by a power of two and to divide the product by it again are both exact.
"""

from __future__ import annotations

from math import prod

from dsl.axes import axes_of
from dsl.ir import (
    Acc,
    Call,
    Collective,
    Conv,
    DType,
    Expr,
    Gemm,
    Map,
    Normalize,
    Number,
    Program,
    Stage,
    Transform,
    inlined,
    loads,
)
from dsl.rules.problem import is_direct, is_rowmajor, types_of

HIGH = 65504.0


def rounded(stage: Stage) -> tuple[str, ...]:
    """The results of a typed stage that it rounds to f16 as it stores them; a transform's casts are not among them."""
    if isinstance(stage, Transform):
        return ()
    named = ((stage.name, stage.type), *((a.name, a.type) for a in stage.also))
    return tuple(name for name, t in named if t is not None and t.dtype is DType.F16)


def watched_stores(program: Program, stage: Stage) -> tuple[str, ...]:
    """Those that its kernel has to look at."""
    exprs = {stage.name: stage.epilogue, **{a.name: a.expr for a in stage.also}}
    return tuple(name for name in rounded(stage) if not known_range(program, stage, exprs[name]))


def able(program: Program, stage: Stage) -> bool:
    """Whether there are kernels of this kind of stage that look at what they store."""
    if isinstance(stage, Conv):
        types = types_of(program)
        return not is_direct(stage, types) and not is_rowmajor(stage, types)
    return isinstance(stage, Gemm | Map | Normalize)


def wider_reader(program: Program, name: str) -> str | None:
    """Who reads a tensor otherwise than as f16 on the way to a product: a stage, or "the caller"; None where nobody."""
    if name in program.results:
        return "the caller"
    for s in program.stages:
        exprs = (s.epilogue, *(a.expr for a in s.also), *(x.expr for x in s.lets), getattr(s, "of", Acc()))
        if any(load.name == name for e in exprs for load in loads(e)):
            return s.name
        if name not in (o.name for o in s.operands):
            continue
        if isinstance(s, Transform):
            found = wider_reader(program, s.name) if s.type.dtype is DType.F16 else s.name
            if found is not None:
                return found
        elif not isinstance(s, Collective):
            return s.name
    return None


def known_range(program: Program, stage: Stage, e: Expr) -> bool:
    """Whether what an expression stores is a softmax times a number that keeps each row's largest within [1, 65504]."""
    if not isinstance(stage, Normalize) or stage.op != "softmax":
        return False
    factor = _factor(inlined(stage, e))
    shape = program.type_of(stage.x.name).shape
    axes = axes_of(stage, len(shape))
    return factor is not None and prod(shape[p] for name in stage.over for p in axes[name]) <= factor <= HIGH


def _factor(e: Expr) -> float | None:
    """c, of acc * c."""
    if isinstance(e, Acc):
        return 1.0
    if isinstance(e, Call) and e.fn == "mul":
        acc, number = e.args if isinstance(e.args[0], Acc) else e.args[::-1]
        if isinstance(acc, Acc) and isinstance(number, Number):
            return number.value
    return None
