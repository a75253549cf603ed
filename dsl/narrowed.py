"""Results that a guarded program stores in f16 (`store f16`) instead of casting them in a later stage (dsl.guard).

Storing a result in f16 equals a later cast if every reader takes f16: a product's or convolution's operand, or a
transform that only moves the values to one. A residual, a norm's input, an epilogue or the caller may need the range
of f32, so a result with such a reader stays f32 (`wider_reader`).

The kernel that stores f16 checks its f32 values as a cast does (`watched_stores`). A chunk is a row of a product's
tile, or what one warp stores. One kind of result needs no check (`known_range`): a softmax times c over rows of at most
c elements, with c at most 65504. Its row sums to c, so the row's largest value is within [1, c] for all logits. The
f16 error of at most 2^-25 for values below 2^-14 is then at most 2^-25 of the largest value, and the errors of a row of
2^15 elements sum to less than the rounding of the largest. Multiplying by a power of two and dividing the product by
it again are both exact.

Nor does attention: each result is a mean of values of v, so it is finite where they are. Rounding it adds at most
2^-25 to the error of at most 2^-25 that the rounding of v already has below 2^-14. Any stage may read it: tf32 rounds
the probabilities that it is a sum of to as many bits.
"""

from __future__ import annotations

from math import prod

from dsl.axes import axes_of
from dsl.ir import (
    Acc,
    Attention,
    Call,
    Collective,
    Concat,
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
    expressions,
    inlined,
    loads,
)
from dsl.rules.problem import is_direct, is_rowmajor, types_of

HIGH = 65504.0


def rounded(stage: Stage) -> tuple[str, ...]:
    """The results that a typed stage stores in f16, without the results of transforms."""
    if isinstance(stage, Transform):
        return ()
    named = ((stage.name, stage.type), *((a.name, a.type) for a in stage.also))
    return tuple(name for name, t in named if t is not None and t.dtype is DType.F16)


def watched_stores(program: Program, stage: Stage) -> tuple[str, ...]:
    """The f16 results of a stage whose values its kernel has to check."""
    exprs = {stage.name: stage.epilogue, **{a.name: a.expr for a in stage.also}}
    return tuple(name for name in rounded(stage) if not known_range(program, stage, exprs[name]))


def able(program: Program, stage: Stage) -> bool:
    """Return True if the kernels of this kind of stage can check the values that they store."""
    if isinstance(stage, Conv):
        types = types_of(program)
        return not is_direct(stage, types) and not is_rowmajor(stage, types)
    return isinstance(stage, Gemm | Map | Concat | Normalize | Attention)


def wider_reader(program: Program, name: str) -> str | None:
    """The first reader of a tensor that is no f16 operand of a product: a stage or "the caller"; None if there is none.

    A transform that moves the tensor to a product counts as the product.
    """
    if name in program.results:
        return "the caller"
    for s in program.stages:
        if any(load.name == name for e in expressions(s) for load in loads(e)):
            return s.name
        if name not in (o.name for o in s.operands):
            continue
        if isinstance(s, Transform):
            reader = wider_reader(program, s.name) if s.type.dtype is DType.F16 else s.name
            if reader is not None:
                return reader
        elif not isinstance(s, Collective | Attention):
            return s.name
    return None


def known_range(program: Program, stage: Stage, e: Expr) -> bool:
    """Return True for a softmax times a constant that keeps the largest value of each row within [1, 65504], and for
    attention, whose results are means of values that were checked."""
    if isinstance(stage, Attention):
        return True
    if not isinstance(stage, Normalize) or stage.op != "softmax":
        return False
    factor = _factor(inlined(stage, e))
    shape = program.type_of(stage.x.name).shape
    axes = axes_of(stage, len(shape))
    return factor is not None and prod(shape[p] for name in stage.over for p in axes[name]) <= factor <= HIGH


def _factor(e: Expr) -> float | None:
    """c if the expression is acc * c, else None."""
    if isinstance(e, Acc):
        return 1.0
    if isinstance(e, Call) and e.fn == "mul":
        acc, number = e.args if isinstance(e.args[0], Acc) else e.args[::-1]
        if isinstance(acc, Acc) and isinstance(number, Number):
            return number.value
    return None
