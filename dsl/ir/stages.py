"""The stages of a program: one dataclass for each kind, and what a stage reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dsl.ir.expression import Acc, Also, Expr, Let, loads
from dsl.ir.types import NOWHERE, DType, Span, TensorType

_ACC = Acc()  # the default of an epilogue and of `of`: the element as it is


@dataclass(frozen=True)
class Operand:
    """A tensor that a stage reads; `transposed` swaps its last two axes (`w.T`)."""

    name: str
    transposed: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Scheduler:
    """How output tiles are assigned to thread blocks: persistent, stream_k, or split_k with its factor."""

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
    """The fields of every stage.

    `store` and `store_layout` are the element type and the layout of the result in memory; None means those of the
    first operand. `type` is the type of the result, filled in by the checker.
    """

    epilogue: Expr = _ACC
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
        """The tensors in brackets, in order. The tensors that expressions read are not included."""
        raise AssertionError(f"{type(self).__name__} lists its operands")

    @cached_property
    def names_read(self) -> tuple[str, ...]:
        """As of `reads`. Planning asks thousands of times for each stage."""
        extra = [x.name for e in expressions(self) for x in loads(e)]
        return tuple(dict.fromkeys([*(o.name for o in self.operands), *extra]))


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
    """D[t, n] = epilogue(sum_k A[t, k] * B[e(t), k, n]), with axes m and n.

    A is [T, K], B is [E, K, N], and sizes is i32[E] with sum T. The first sizes[0] rows of A are multiplied by B[0],
    the next sizes[1] rows by B[1], and so on.
    """

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

    x is [b, C, spatial]; w is [K, C / groups, spatial], or [C, K / groups, spatial] when transposed. The tuples have
    one number for each spatial axis, outermost first; padding is symmetric. The implicit product's K is C / groups x
    window.
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
    """A change of representation. The changes apply in this order:

    interleave   of two operands: row 2j comes from the first, row 2j + 1 from the second;
    view         another shape over the same row-major elements;
    permute      axis i of the result is axis permute[i];
    pad or crop  at the end of axes, with zeros;
    the layout (`store_layout`), and a cast (`to`).

    A `prepack` transform runs once per weight version, outside the timed region.
    """

    name: str
    x: Operand
    to: DType | None = None
    prepack: bool = False
    view: tuple[int, ...] | None = None
    permute: tuple[int, ...] | None = None
    pad: tuple[int, ...] | None = None  # the padded shape; no axis is smaller than before
    crop: tuple[int, ...] | None = None  # the cropped shape; no axis is larger than before
    other: Operand | None = None  # the second operand of an interleave

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,) if self.other is None else (self.x, self.other)


@dataclass(frozen=True)
class Map(StageBase):
    """y = epilogue at each element of x. The epilogue reads every other tensor at x's axes.

    With `crop` only the part of x of this shape is read, in place; it begins at the element `start` (None: the first).
    """

    name: str
    x: Operand
    crop: tuple[int, ...] | None = None
    start: tuple[int, ...] | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Concat(StageBase):
    """y = epilogue at each element of the operands, one after another along the axis `over`. All have one type, and
    one size along every other axis, or one element there, which is repeated; each has a layout of its own."""

    name: str
    parts: tuple[Operand, ...]
    over: str = ""

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.parts


REDUCTIONS = ("sum", "mean", "max", "min", "logsumexp", "argmax")


@dataclass(frozen=True)
class Reduce(StageBase):
    """`op` of `of` (an expression over x's element `acc`) over the axes `over`, then the epilogue.

    The epilogue's axes are the remaining ones, or all of x's with `keepdim`. argmax gives i32 and has no epilogue.
    """

    name: str
    x: Operand
    op: str = "sum"
    over: tuple[str, ...] = ()
    of: Expr = _ACC
    keepdim: bool = False

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


NORMALIZATIONS = ("softmax", "log_softmax", "layernorm", "rmsnorm", "groupnorm", "instancenorm", "batchnorm", "absmax")


@dataclass(frozen=True)
class Normalize(StageBase):
    """Statistics of `of` over some axes, each element normalised as torch.nn.functional does, then the epilogue.

    softmax, log_softmax, layernorm, rmsnorm   over the axes `over` (the last ones, for the norms);
    groupnorm                                  over a group of channels (axis 1) and the spatial axes;
    instancenorm                               over the spatial axes of each channel;
    batchnorm                                  no statistics: it is inference and reads mean and variance;
    absmax                                     divides each element by the largest magnitude over the last axis, so
                                               that it is from -1 to 1 (0 where all are 0). That magnitude is `acc2`;
                                               `also s = row_max(EXPR of acc2)` stores it once a row, in f32.

    `params`, in this order: batchnorm's mean and var, then any norm's weight and bias. They are f32 or x's type, of
    the normalised shape (layernorm, rmsnorm) or [C].
    """

    name: str
    x: Operand
    op: str = "softmax"
    over: tuple[str, ...] = ()
    params: tuple[Operand, ...] = ()
    of: Expr = _ACC
    groups: int = 1
    eps: float = 1e-5

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x, *self.params)


SCANS = ("sum", "prod")


@dataclass(frozen=True)
class Scan(StageBase):
    """The sum or the product of `of` over the elements up to each one, along the axis `over`, then the epilogue.

    y[.., i, ..] = epilogue(acc), acc over x[.., 0 .. i, ..], with `reverse` over x[.., i .. last, ..]; `acc2` is the
    element's own `of`, so that `acc - acc2` leaves it out. torch.cumsum and torch.cumprod.
    """

    name: str
    x: Operand
    op: str = "sum"
    over: tuple[str, ...] = ()
    of: Expr = _ACC
    reverse: bool = False

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Pool(StageBase):
    """max or avg over windows of the 1 to 3 spatial axes, which follow b and c. avg counts padding, as PyTorch's does.

    `window` None means global: one window over the whole channel; the spatial axes stay, with length 1. `dilation`: the
    distance of a window's elements, of max alone; () means 1 along each axis.
    """

    name: str
    x: Operand
    op: str = "max"
    window: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.x,)


# The order of attention's axes -> which of [b, h, m, d] each one is.
ORDERS = {"bhmd": (0, 1, 2, 3), "bmhd": (0, 2, 1, 3), "mbhd": (2, 0, 1, 3)}


@dataclass(frozen=True)
class Attention(StageBase):
    """y[b, h, m] = sum_n softmax_n(scale * q[b, h, m] . k[b, h, n]) v[b, h, n]; the scores stay on the chip.

    q is [b, h, m, d], k is [b, g, n, d], v is [b, g, n, e], and the result [b, h, m, e]. Each of the g heads of k and v
    serves h / g heads of q. `order`: that of the axes of all four. Without v, k holds the heads of both, those of v
    last; without k too, q holds the heads of all three, and `heads` is (h, g). `causal`: m is n, and query i reads
    keys 0 to i.
    """

    name: str
    q: Operand
    k: Operand | None = None
    v: Operand | None = None
    scale: float = 1.0
    causal: bool = False
    order: str = "bhmd"
    heads: tuple[int, int] | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(o for o in (self.q, self.k, self.v) if o is not None)

    def by_head(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes in this order as those of (batches, heads, positions, size)."""
        return tuple(shape[ORDERS[self.order].index(axis)] for axis in range(4))

    def in_order(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes of (batches, heads, positions, size) in this order."""
        return tuple(shape[axis] for axis in ORDERS[self.order])

    def parts(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int, int], ...]:
        """Where q, k and v are: (operand, its first head, heads). `shapes`: of the operands, by head."""
        if self.v is not None:
            return tuple((i, 0, s[1]) for i, s in enumerate(shapes))
        if self.k is not None:
            g = shapes[1][1] // 2
            return (0, 0, shapes[0][1]), (1, 0, g), (1, g, g)
        h, g = self.heads
        return (0, 0, h), (0, h, g), (0, h + g, g)


# The operation of a recurrent stage -> its gates: rows of its matrices for each hidden unit, in PyTorch's order.
CELLS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
STATES = {op: 2 if op == "lstm" else 1 for op in CELLS}  # -> hidden state, and cells if it has some


@dataclass(frozen=True)
class Recurrent(StageBase):
    """torch.nn.LSTM, GRU or RNN, one layer: the steps in time, after the product of its input with weight_ih.

    For each of the D directions, in this order: `gates` [t, b, g * h], that product with bias_ih; `weights` [g * h, h],
    weight_hh; `biases` [g * h], bias_hh, or none. Then `states` [l * D, b, h]: h_0, and of an lstm c_0, or none, which
    means zeros; the stage reads theirs from `layer` * D. `order` bt: the sequence's axes are [b, t, ...]. The second
    direction runs from the last step to the first. The result is [t, b, D * h]. In `also`, `acc` is the last hidden
    state [D, b, h], and `acc2` the last cell state of an lstm.
    """

    name: str
    gates: tuple[Operand, ...]
    weights: tuple[Operand, ...]
    biases: tuple[Operand, ...] = ()
    states: tuple[Operand, ...] = ()
    op: str = "lstm"
    order: str = "tb"
    layer: int = 0
    compute: DType | None = None
    cluster: int | None = None  # blocks that share one direction of some sequences

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.gates, *self.weights, *self.biases, *self.states)

    @property
    def directions(self) -> int:
        return len(self.weights)


Collective = Gemm | GroupedGemm | Conv
Stage = Collective | Transform | Map | Reduce | Normalize | Scan | Pool | Attention | Concat | Recurrent


def expressions(stage: Stage) -> tuple[Expr, ...]:
    """Every expression of a stage, in this order: of, lets, also, epilogue."""
    of = (stage.of,) if isinstance(stage, Reduce | Normalize | Scan) else ()
    return (*of, *(x.expr for x in stage.lets), *(x.expr for x in stage.also), stage.epilogue)


def reads(stage: Stage) -> tuple[str, ...]:
    """The names that a stage reads, operands first, each once."""
    return stage.names_read
