"""A guarded program whose intermediate results are multiplied by powers of two, so that f16 holds them.

A guard (dsl.guard) trips where a value that is rounded to f16 is too small or too large for it, and then all of the
program runs again in f32. The activations of deep networks without trained weights shrink from layer to layer, so that
a whole network trips although each of its tensors spans far less than f16's range. Where only products read a result,
at most moved or cast on the way, it may be multiplied by 2^k when it is computed and the products by 2^-k: both are
exact in f32, and what is rounded between lies in f16's good range. The guard stays, for inputs of another size.

    powers({"h3": (3e-7, 2e-4)})     # {"h3": 20}: of the largest magnitude in each chunk, the least and the greatest
    scaled(program, {"h3": 20})      # the program with h3 stored as h3 * 2^20
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, log2

from dsl.check.program import check
from dsl.functions import REDUCTIONS
from dsl.guard import HIGH, LOW, roomy
from dsl.ir import (
    Acc,
    Attention,
    Call,
    Collective,
    DType,
    Expr,
    Number,
    Program,
    Stage,
    Transform,
    expressions,
    loads,
    reads,
)
from dsl.narrowed import known_range
from dsl.printer import to_text
from engine.strategies.planner.search.structures import SCALED, Structure, opened
from sol.hardware import Hardware

MOST = 60  # the powers stay far within f32's range


def scalable(program: Program) -> tuple[str, ...]:
    """The results of a typed guarded program that may be scaled: rounded to f16 for products, and for nothing else."""
    names = []
    for s in program.stages:
        if isinstance(s, Transform | Attention):
            continue
        for name, e in ((s.name, s.epilogue), *((a.name, a.expr) for a in s.also)):
            if getattr(e, "fn", None) in REDUCTIONS or known_range(program, s, e):
                continue
            if name not in program.results and _rounded(program, name) and _for_products(program, name):
                names.append(name)
    return tuple(names)


def _readers(program: Program, name: str) -> list[Stage]:
    return [s for s in program.stages if name in reads(s)]


def _rounded(program: Program, name: str) -> bool:
    """Return True if a tensor is f16, or cast to f16 by what reads it."""
    if program.type_of(name).dtype is DType.F16:
        return True
    return any(isinstance(s, Transform) and _rounded(program, s.name) for s in _readers(program, name))


def _for_products(program: Program, name: str) -> bool:
    """Return True if only products read a tensor in f16, at most moved or cast on the way."""
    readers = _readers(program, name)
    return bool(readers) and all(_product_of(program, s, name) for s in readers)


def _product_of(program: Program, s: Stage, name: str) -> bool:
    if any(load.name == name for e in expressions(s) for load in loads(e)):
        return False
    if isinstance(s, Transform):
        return s.other is None and s.name not in program.results and _for_products(program, s.name)
    whole = isinstance(s, Collective) and program.type_of(name).dtype is DType.F16 and s.config.compute is DType.F16
    return whole and not getattr(s, "pairs", False) and name in (o.name for o in s.operands[:2])


def powers(ranges: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """The power of two of each tensor that f16 holds narrowly or not: its range comes into the middle of f16's, for
    inputs that are a little larger or smaller. `ranges`: of the largest magnitude in each chunk (dsl.guard) that is not
    all zeros, the least and the greatest; kernels cut longer chunks, of which the least is greater."""
    out = {}
    for name, (least, greatest) in ranges.items():
        if not (isfinite(greatest) and 0 < least <= greatest):
            continue
        k = round((log2(HIGH / greatest) + log2(LOW / least)) / 2)
        if k and abs(k) <= MOST and not roomy(least, greatest):
            out[name] = k
    return out


def scaled(program: Program, by: Mapping[str, int]) -> Program:
    """The program with each of these results (`scalable`) stored times 2^k, and what its products compute times 2^-k.
    The types of the stages stay as they are."""
    carried = {name: k for name, k in by.items() if k}
    stages = []
    for s in program.stages:
        if isinstance(s, Transform):
            if s.x.name in carried:
                carried[s.name] = carried[s.x.name]
            stages.append(s)
            continue
        back = sum(carried.get(o.name, 0) for o in s.operands[:2]) if isinstance(s, Collective) else 0

        def of(name: str, e: Expr, back: int = back) -> Expr:
            return _times(_unscaled(e, back), by.get(name, 0))

        lets = tuple(replace(x, expr=_unscaled(x.expr, back)) for x in s.lets)
        also = tuple(replace(a, expr=of(a.name, a.expr)) for a in s.also)
        stages.append(replace(s, lets=lets, also=also, epilogue=of(s.name, s.epilogue)))
    return replace(program, stages=tuple(stages))


def _times(e: Expr, k: int) -> Expr:
    return Call("mul", (e, Number(2.0**k))) if k else e


def _unscaled(e: Expr, back: int) -> Expr:
    """The expression of a product's elements that are 2^back times as large."""
    if not back:
        return e
    if isinstance(e, Acc):
        return _times(e, -back)
    if isinstance(e, Call):
        return replace(e, args=tuple(_unscaled(a, back) for a in e.args))
    return e


def in_range(s: Structure, ranges: Mapping[str, tuple[float, float]], hw: Hardware) -> Structure | None:
    """A structure whose guard tripped, with what f16 does not hold of it scaled; None if nothing may be, or no back end
    takes it. `ranges`: as in `powers`."""
    if not s.base.guard or s.words.endswith(SCALED):
        return None
    may = scalable(s.base)
    by = powers({name: ends for name, ends in ranges.items() if name in may})
    checked = check(to_text(scaled(s.base, by))) if by else None
    new = opened(checked.program, s.words + SCALED, hw, []) if checked is not None and checked.ok else None
    return new and replace(new, narrow=s.narrow)
