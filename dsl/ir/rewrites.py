"""Expressions of a stage rewritten: with its lets written out, or read from another element on."""

from __future__ import annotations

from dataclasses import replace

from dsl.ir.expression import Call, Expr, Load, Ref
from dsl.ir.stages import Stage


def inlined(stage: Stage, e: Expr) -> Expr:
    """`e` with every let of the stage written out."""
    if isinstance(e, Ref):
        return inlined(stage, next(x.expr for x in stage.lets if x.name == e.name))
    if isinstance(e, Call):
        return Call(e.fn, tuple(inlined(stage, a) for a in e.args), e.span)
    return e


def shifted(e: Expr, axis: str, first: int) -> Expr:
    """`e` with every read that spans an axis begun at the element `first` of it."""
    if isinstance(e, Load) and axis in e.axes and first:
        starts = e.starts or (None,) * len(e.axes)
        return replace(
            e, starts=tuple((s or 0) + first if a == axis else s for a, s in zip(e.axes, starts, strict=True))
        )  # fmt: skip
    if isinstance(e, Call):
        return replace(e, args=tuple(shifted(a, axis, first) for a in e.args))
    return e
