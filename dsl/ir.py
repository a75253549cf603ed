"""The typed IR: what every room after the parser sees.

A Program is data (frozen dataclasses): equal programs are equal values, spans left out of the comparison.
Shapes are tuples of positive ints; a scalar has shape (). An attribute that the author left out is None and
means `auto`; `dsl.resolve` fills each in from the architecture and the shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class Span:
    """A stretch of source text: 1-based lines and columns, the end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


NOWHERE = Span(0, 0, 0, 0)


class DType(str, Enum):
    """Element types. TF32 is an operand precision of the tensor cores, never a storage type."""

    F64 = "f64"
    F32 = "f32"
    TF32 = "tf32"
    F16 = "f16"
    BF16 = "bf16"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    I8 = "i8"
    I32 = "i32"

    @property
    def bits(self) -> int:
        """Width in memory; tf32 operands are stored as f32."""
        return {"f64": 64, "f32": 32, "tf32": 32, "i32": 32, "f16": 16, "bf16": 16}.get(self.value, 8)


@dataclass(frozen=True)
class TensorType:
    """A dense tensor: element type and shape, row-major (last axis contiguous)."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bits // 8

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Param:
    """An input of the program, in call order."""

    name: str
    type: TensorType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Operand:
    """A tensor that a stage reads; `transposed` swaps its last two axes (`w.T`)."""

    name: str
    transposed: bool = False
    span: Span = field(default=NOWHERE, compare=False)


# ---- epilogue expressions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Acc:
    """The accumulator element (f32)."""

    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Number:
    value: float
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Load:
    """Another tensor read at the output's axes: `b[n]`, `g[m]`, `r[m, n]`, `r[l, m, n]`; no axes for a scalar."""

    name: str
    axes: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Call:
    """A function of dsl.functions applied to expressions; the operators are add, sub, mul, div and neg."""

    fn: str
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False)


Expr = Acc | Number | Load | Call


# ---- stages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scheduler:
    """How output tiles meet thread blocks: persistent, stream_k, or split_k with its factor."""

    kind: str
    splits: int = 1


@dataclass(frozen=True)
class Config:
    """The configuration clauses of a collective stage; None is `auto`."""

    compute: DType | None = None
    tile: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    schedule: str | None = None  # cooperative | pingpong
    scheduler: Scheduler | None = None
    stages: int | None = None
    swizzle: int | None = None  # output tiles grouped for reuse in L2: 1, 2, 4 or 8
    backend: str | None = None  # cute | cpp, when the author forces one


@dataclass(frozen=True)
class Gemm:
    """D[l, m, n] = epilogue(sum_k A[l, m, k] * B[l, k, n]); 2-D or with leading batch dimensions."""

    name: str
    a: Operand
    b: Operand
    config: Config = Config()
    epilogue: Expr = Acc()
    store: DType | None = None  # element type in memory; None: the element type of `a`
    type: TensorType | None = None  # the result, filled in by the checker
    span: Span = field(default=NOWHERE, compare=False)
    clauses: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    def clause_span(self, clause: str) -> Span:
        """Where a clause stands, or the stage itself when the author left it out."""
        return dict(self.clauses).get(clause, self.span)


@dataclass(frozen=True)
class Transform:
    """A change of representation: a cast. `prepack` says once per weight version, outside the timed region."""

    name: str
    x: Operand
    to: DType | None = None
    prepack: bool = False
    type: TensorType | None = None
    span: Span = field(default=NOWHERE, compare=False)
    clauses: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    clause_span = Gemm.clause_span


Stage = Gemm | Transform


@dataclass(frozen=True)
class Program:
    """A pipeline: parameters in, stages in order (one launch each), results out."""

    name: str
    params: tuple[Param, ...]
    stages: tuple[Stage, ...]
    results: tuple[str, ...]
    result_types: tuple[TensorType, ...]
    arch: str | None = None  # None: auto (sm_90a)
    span: Span = field(default=NOWHERE, compare=False)
    arch_span: Span = field(default=NOWHERE, compare=False)

    def type_of(self, name: str) -> TensorType | None:
        """The type of a parameter or stage by name; None where there is none or it is not yet known."""
        for item in (*self.params, *self.stages):
            if item.name == name:
                return item.type
        return None


@dataclass(frozen=True)
class GemmShape:
    """The problem a Gemm stage poses: L batches of M x N x K."""

    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int


def gemm_shape(program: Program, stage: Gemm) -> GemmShape:
    """L, M, N, K of a checked stage. 2-D operands have l = 1; a 2-D B against a batched A is broadcast over l."""
    a, b = program.type_of(stage.a.name).shape, program.type_of(stage.b.name).shape
    if stage.a.transposed:
        a = (*a[:-2], a[-1], a[-2])
    if stage.b.transposed:
        b = (*b[:-2], b[-1], b[-2])
    batch = 1
    for d in a[:-2] if len(a) >= len(b) else b[:-2]:
        batch *= d
    return GemmShape(batch, a[-2], b[-1], a[-1])
