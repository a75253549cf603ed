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


NCHW, NHWC = "nchw", "nhwc"


@dataclass(frozen=True)
class TensorType:
    """A dense tensor. `shape` is in PyTorch's order whatever the layout.

    layout  nchw: row-major, the last axis contiguous (every parameter and result).
            nhwc: channels last, for 3 to 5 axes: memory holds axis 0, axes 2.., axis 1 (torch.channels_last).
    """

    dtype: DType
    shape: tuple[int, ...]
    layout: str = NCHW

    @property
    def elements(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bits // 8

    @property
    def memory_order(self) -> tuple[int, ...]:
        """The axes from the slowest to the contiguous one."""
        n = len(self.shape)
        return (0, *range(2, n), 1) if self.layout == NHWC else tuple(range(n))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        out, step = [0] * len(self.shape), 1
        for axis in reversed(self.memory_order):
            out[axis], step = step, step * self.shape[axis]
        return tuple(out)

    def __str__(self) -> str:
        text = f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"
        return text if self.layout == NCHW else f"{text} {self.layout}"


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
    """The element that the stage computed (f32). `second`: `acc2`, the odd column of a gemm with `pairs`."""

    second: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Number:
    value: float
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Load:
    """Another tensor read at the stage's axes (see dsl.axes): `b[n]`, `r[m, n]`, `scale[c]`; no axes for a scalar."""

    name: str
    axes: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Ref:
    """A part that a `let` of this stage named."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Call:
    """A function of dsl.functions applied to expressions; the operators are add, sub, mul, div and neg.

    The reductions (row_sum, row_max, col_sum, row_logsumexp) stand only outermost in an epilogue or an `also`.
    """

    fn: str
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False)


Expr = Acc | Number | Load | Ref | Call


@dataclass(frozen=True)
class Let:
    """`let name = expr`: a part of the expressions below it, computed once an element."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Also:
    """`also name = expr`: a second result of the same launch. An element-wise one has the stage's shape and stored
    type; a reduced one is f32 over the axes that are left."""

    name: str
    expr: Expr
    type: TensorType | None = None
    span: Span = field(default=NOWHERE, compare=False)


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


@dataclass(frozen=True, kw_only=True)
class StageBase:
    """What every stage has. `store`, `store_layout`: of the result in memory; None is the natural one (the type of
    the first operand, and its layout). `type`: the result, filled in by the checker."""

    epilogue: Expr = Acc()
    lets: tuple[Let, ...] = ()
    also: tuple[Also, ...] = ()
    store: DType | None = None
    store_layout: str | None = None
    type: TensorType | None = None
    span: Span = field(default=NOWHERE, compare=False)
    clauses: tuple[tuple[str, Span], ...] = field(default=(), compare=False)

    def clause_span(self, clause: str) -> Span:
        """Where a clause stands, or the stage itself when the author left it out."""
        return dict(self.clauses).get(clause, self.span)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors in brackets, in order; what epilogues read is not among them."""
        raise AssertionError(f"{type(self).__name__} lists its operands")


@dataclass(frozen=True)
class Gemm(StageBase):
    """D[l, m, n] = epilogue(sum_k A[l, m, k] * B[l, k, n]); 2-D or with leading batch dimensions.

    `pairs`: columns 2j and 2j + 1 of the product are `acc` and `acc2` of output column j (gated units).
    """

    name: str
    a: Operand
    b: Operand
    config: Config = Config()
    pairs: bool = False

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.a, self.b)


@dataclass(frozen=True)
class GroupedGemm(StageBase):
    """D[t, n] = epilogue(sum_k A[t, k] * B[e(t), k, n]): A is [T, K], B [E, K, N], sizes i32[E] with sum T; the first
    sizes[0] rows of A belong to B[0], the next sizes[1] to B[1], and so on. Axes m and n."""

    name: str
    a: Operand
    b: Operand
    sizes: Operand
    config: Config = Config()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.a, self.b, self.sizes)


@dataclass(frozen=True)
class Conv(StageBase):
    """torch.nn.functional.conv{1,2,3}d, or conv_transpose{1,2,3}d, without bias (the epilogue adds it).

    x [b, C, spatial]; w [K, C / groups, spatial], transposed: [C, K / groups, spatial]. The tuples have one number a
    spatial axis, outermost first; padding is symmetric. Product K dimension: C / groups x window.
    """

    name: str
    x: Operand
    w: Operand
    spatial: int  # 1 | 2 | 3
    transposed: bool = False
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    groups: int = 1
    config: Config = Config()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x, self.w)

    @property
    def word(self) -> str:
        """conv2d, conv_transpose3d, ..."""
        return f"conv{'_transpose' * self.transposed}{self.spatial}d"


@dataclass(frozen=True)
class Transform(StageBase):
    """A change of representation, in this order: interleave (two operands: rows 2j and 2j + 1 from the first and the
    second), view (another shape over the same row-major elements), permute (axis i of the result is axis permute[i]),
    pad or crop at the end of axes (with zeros), the layout (`store_layout`), and a cast (`to`).

    `prepack` says once per weight version, outside the timed region.
    """

    name: str
    x: Operand
    to: DType | None = None
    prepack: bool = False
    view: tuple[int, ...] | None = None
    permute: tuple[int, ...] | None = None
    pad: tuple[int, ...] | None = None  # the shape after it, nowhere smaller
    crop: tuple[int, ...] | None = None  # the shape after it, nowhere larger
    other: Operand | None = None  # the second operand of an interleave

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,) if self.other is None else (self.x, self.other)


@dataclass(frozen=True)
class Map(StageBase):
    """y = epilogue at each element of x; every other tensor is read by the epilogue at x's axes."""

    name: str
    x: Operand

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


REDUCTIONS = ("sum", "mean", "max", "min", "logsumexp", "argmax")


@dataclass(frozen=True)
class Reduce(StageBase):
    """`op` of `of` (an expression over x's element `acc`) over the axes named; then the epilogue, whose axes are those
    that are left (all of x's where `keepdim`). argmax gives i32 and has no epilogue."""

    name: str
    x: Operand
    op: str = "sum"
    over: tuple[str, ...] = ()
    of: Expr = Acc()
    keepdim: bool = False

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


NORMALIZATIONS = ("softmax", "log_softmax", "layernorm", "rmsnorm", "groupnorm", "instancenorm", "batchnorm", "absmax")


@dataclass(frozen=True)
class Normalize(StageBase):
    """Statistics of `of` over some axes, then each element normalised (torch.nn.functional's meaning), then epilogue.

    softmax, log_softmax, layernorm, rmsnorm   over the axes named (the last ones, for the norms);
    groupnorm                                  over a group of channels (axis 1) and the spatial axes;
    instancenorm                               over the spatial axes of each channel; batchnorm: none, it is inference.
    absmax                                     each element by the largest magnitude over the last axis, so that it is
                                               from -1 to 1 (0 where all are 0); that magnitude is `acc2`, which
                                               `also s = row_max(EXPR of acc2)` stores once a row, in f32.
    params, in this order: batchnorm mean, var; then any norm's weight, bias: f32 (or x's type), of the normalised
    shape (layernorm, rmsnorm) or [C].
    """

    name: str
    x: Operand
    op: str = "softmax"
    over: tuple[str, ...] = ()
    params: tuple[Operand, ...] = ()
    of: Expr = Acc()
    groups: int = 1
    eps: float = 1e-5

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x, *self.params)


@dataclass(frozen=True)
class Pool(StageBase):
    """max or avg over windows of the spatial axes (1 to 3, after b and c); avg counts padding, as PyTorch's default.

    `window` None is global: the whole of each channel, kept as axes of length 1.
    """

    name: str
    x: Operand
    op: str = "max"
    window: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


Collective = Gemm | GroupedGemm | Conv
Stage = Gemm | GroupedGemm | Conv | Transform | Map | Reduce | Normalize | Pool


@dataclass(frozen=True)
class Program:
    """A pipeline: parameters in, stages in order (one launch each), results out. `graph`: the whole pipeline is
    launched as one CUDA graph. `guard`: conversions to f16 are watched, and out of their range the results are
    computed in f32 (dsl.guard)."""

    name: str
    params: tuple[Param, ...]
    stages: tuple[Stage, ...]
    results: tuple[str, ...]
    result_types: tuple[TensorType, ...]
    arch: str | None = None  # None: auto (sm_90a)
    graph: bool = False
    guard: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    arch_span: Span = field(default=NOWHERE, compare=False)

    def type_of(self, name: str) -> TensorType | None:
        """The type of a parameter, a stage or an `also` by name; None where there is none or it is not yet known."""
        for item in (*self.params, *self.stages):
            if item.name == name:
                return item.type
            for extra in getattr(item, "also", ()):
                if extra.name == name:
                    return extra.type
        return None


@dataclass(frozen=True)
class GemmShape:
    """The problem a Gemm stage poses: L batches of M x N x K."""

    l: int  # noqa: E741 - the field's own name
    m: int
    n: int
    k: int


def gemm_shape(program: Program, stage: Gemm) -> GemmShape:
    """L, M, N, K of a checked stage. 2-D operands have l = 1; a 2-D B against a batched A is broadcast over l.

    With `pairs`, N is the product's own, twice the result's.
    """
    a, b = program.type_of(stage.a.name).shape, program.type_of(stage.b.name).shape
    if stage.a.transposed:
        a = (*a[:-2], a[-1], a[-2])
    if stage.b.transposed:
        b = (*b[:-2], b[-1], b[-2])
    batch = 1
    for d in a[:-2] if len(a) >= len(b) else b[:-2]:
        batch *= d
    return GemmShape(batch, a[-2], b[-1], a[-1])


def conv_shape(program: Program, stage: Conv) -> GemmShape:
    """The implicit product of a checked convolution, one group: M pixels out, N channels out, K channels in x window.

    A transposed one is counted at its input's pixels: M = b x input pixels, N = channels out x window, K = channels in.
    """
    x, w, y = program.type_of(stage.x.name).shape, program.type_of(stage.w.name).shape, stage.type.shape
    window = 1
    for d in w[2:]:
        window *= d
    pixels = (x if stage.transposed else y)[0]
    for d in (x if stage.transposed else y)[2:]:
        pixels *= d
    if stage.transposed:
        return GemmShape(stage.groups, pixels, w[1] * window, w[0] // stage.groups)
    return GemmShape(stage.groups, pixels, w[0] // stage.groups, w[1] * window)


def expressions(stage: Stage) -> tuple[Expr, ...]:
    """Every expression of a stage, in the order written: of, lets, also, epilogue."""
    of = (stage.of,) if isinstance(stage, Reduce | Normalize) else ()
    return (*of, *(x.expr for x in stage.lets), *(x.expr for x in stage.also), stage.epilogue)


def inlined(stage: Stage, e: Expr) -> Expr:
    """`e` with every let of the stage written out."""
    if isinstance(e, Ref):
        return inlined(stage, next(x.expr for x in stage.lets if x.name == e.name))
    if isinstance(e, Call):
        return Call(e.fn, tuple(inlined(stage, a) for a in e.args), e.span)
    return e


def loads(e: Expr) -> tuple[Load, ...]:
    """Every tensor read in an expression, in order, each once."""
    if isinstance(e, Load):
        return (e,)
    if isinstance(e, Call):
        return tuple(dict.fromkeys(x for a in e.args for x in loads(a)))
    return ()


def reads(stage: Stage) -> tuple[str, ...]:
    """The names that a stage reads, operands first, each once."""
    extra = [x.name for e in expressions(stage) for x in loads(e)]
    return tuple(dict.fromkeys([*(o.name for o in stage.operands), *extra]))
