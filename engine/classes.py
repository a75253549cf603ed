"""The precision class of a program. Pure functions, shared by exports, sessions and the page."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.ir import Attention, Collective, DType, Program, Recurrent
from dsl.rules.recurrent.layout import compute_of

HALVES = ("f16", "bf16")  # classes of half precision
# The narrowest operands among the products decide, because they bound the error.
_NARROWEST_FIRST = ((DType.I8,), (DType.E4M3, DType.E5M2), (DType.BF16,), (DType.F16,), (DType.TF32,))


def class_of(program: Program) -> str:
    """The precision class of a program: the narrowest operands among its products.

    Guarded f16 is in class tf32: it has as many significant bits, and the guard ensures the range (dsl.guard).
    """
    cls = roof_of(program)
    return "tf32" if program.guard and cls == "f16" else cls


def class_among(program: Program, allowed: Sequence[str]) -> str:
    """The class in which a program counts where `allowed` are: its own. Products in tf32 count in a class of half
    precision where tf32 is not allowed: who allows f16 allows what is finer. A program without products is of the
    narrowest type that its stages store; where that is not allowed, it counts in the first class."""
    cls = class_of(program)
    if any(isinstance(s, Collective | Attention | Recurrent) for s in program.stages):
        coarser = next((c for c in allowed if c in HALVES), cls)
        return coarser if cls == "tf32" not in allowed else cls
    stored = {t.dtype for s in program.stages for t in (s.type, *(a.type for a in s.also)) if t is not None}
    narrow = next((_name(dtypes) for dtypes in _NARROWEST_FIRST if stored & set(dtypes)), cls)
    return narrow if narrow in allowed or not allowed else allowed[0]


def roof_of(program: Program) -> str:
    """The class whose limit applies to a program: that of the instructions of its products, guarded or not."""
    types = set()
    for s in program.stages:
        if isinstance(s, Attention):
            types.add(s.type.dtype)
        elif isinstance(s, Recurrent):
            types.add(s.compute or compute_of(s, {o.name: program.type_of(o.name) for o in s.weights}))
        elif isinstance(s, Collective):
            operand = program.type_of(s.operands[0].name).dtype
            types.add(s.config.compute or (DType.TF32 if operand is DType.F32 else operand))
    for dtypes in _NARROWEST_FIRST:
        if types & set(dtypes):
            return _name(dtypes)
    return "f32"


def _name(dtypes: tuple[DType, ...]) -> str:
    return "fp8" if DType.E4M3 in dtypes else dtypes[0].value


def class_words(program: Program) -> str:
    """The class in words for a person: `tf32`, or `tf32 by guarded f16`."""
    cls, roof = class_of(program), roof_of(program)
    return cls if cls == roof else f"{cls} by guarded {roof}"
