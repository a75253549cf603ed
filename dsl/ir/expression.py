"""Expressions over a stage's elements: epilogues, lets and second results."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dsl.ir.types import NOWHERE, Span, TensorType


@dataclass(frozen=True)
class Acc:
    """The element that the stage computed, in f32. `second`: `acc2`, the odd column of a gemm with `pairs`, or
    the element before a norm."""

    second: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Number:
    value: float
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Load:
    """Another tensor read at the stage's axes (see dsl.axes): `b[n]`, `r[m, n]`, `scale[c]`; no axes for a scalar.

    `starts`: a map may read a part of a tensor, `x[m, n + 512]`; one entry an axis, None where it is read whole; ()
    for a tensor that is read whole.
    """

    name: str
    axes: tuple[str, ...] = ()
    starts: tuple[int | None, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def places(self) -> tuple[str, ...]:
        """The axes as a program writes them: `m`, `n + 512`."""
        if not self.starts:
            return self.axes
        return tuple(a if s is None else f"{a} + {s}" for a, s in zip(self.axes, self.starts, strict=True))


@dataclass(frozen=True)
class Ref:
    """The name of a `let` of this stage."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Call:
    """A function of dsl.functions applied to expressions; the operators are add, sub, mul, div and neg.

    The reductions (row_sum, row_max, col_sum, row_logsumexp) are allowed only as the outermost call of an epilogue or
    an `also`.
    """

    fn: str
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """As of the function of this name. Planning asks thousands of times for each."""
        return tuple(dict.fromkeys(x for a in self.args for x in loads(a)))


Expr = Acc | Number | Load | Ref | Call


@dataclass(frozen=True)
class Let:
    """`let name = expr`: a named part for the expressions below it, computed once for each element."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Also:
    """`also name = expr`: a second result of the same launch.

    An element-wise result has the stage's shape and stored type; a reduction is f32 over the remaining axes.
    """

    name: str
    expr: Expr
    type: TensorType | None = None
    span: Span = field(default=NOWHERE, compare=False)


def reads_second(e: Expr) -> bool:
    """Return True if an expression reads acc2."""
    return (isinstance(e, Acc) and e.second) or (isinstance(e, Call) and any(map(reads_second, e.args)))


def loads(e: Expr) -> tuple[Load, ...]:
    """Every tensor that an expression reads, in order, each once."""
    if isinstance(e, Load):
        return (e,)
    return e.loads if isinstance(e, Call) else ()
