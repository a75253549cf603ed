"""A pipeline as derived from an op graph, before class, layouts and configurations are chosen.

During the walk, a tensor of the graph is one of

    Leaf     a tensor as it lies in memory (a parameter of the program, or a stage's stored result), perhaps seen
             with its axes permuted;
    Slice    a part of a tensor in memory, which elementwise stages read in place;
    Result   an expression over what a stage computes, not stored yet, so that more can be fused;
    float    a number.

References to tensors are strings: a graph tensor's name, or `#i` for the stored result of draft i and `#i+j` for its
j-th further result (an `also`). Expressions load tensors under these names;
engine.strategies.planner.lowering.pipeline renames them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from dsl.axes import SPATIAL
from dsl.ir import Acc, Expr, loads
from sol.graph import Op


@dataclass(frozen=True)
class Leaf:
    """`source`: a reference. `base`: its shape in memory order (row-major); logical axis i is axis `order[i]` of
    `base`."""

    source: str
    base: tuple[int, ...]
    order: tuple[int, ...]

    @staticmethod
    def whole(source: str, shape: tuple[int, ...]) -> Leaf:
        return Leaf(source, shape, tuple(range(len(shape))))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.base[i] for i in self.order)

    @property
    def plain(self) -> bool:
        """Return True if the tensor is in memory order; axes of size 1 do not count."""
        real = [i for i in self.order if self.base[i] != 1]
        return real == sorted(real)

    def merged(self) -> Leaf:
        """The same elements in the same order, with the fewest axes: without those of size 1, and with axes that lie
        side by side in memory and stay side by side as one."""
        runs: list[list[int]] = []
        real = [i for i, d in enumerate(self.base) if d != 1]
        after = dict(pairwise(real))  # axis -> the next one in memory
        for i in (i for i in self.order if self.base[i] != 1):
            if runs and after.get(runs[-1][-1]) == i:
                runs[-1].append(i)
            else:
                runs.append([i])
        in_memory = sorted(runs)
        return Leaf(
            self.source, tuple(prod(self.base[i] for i in run) for run in in_memory),
            tuple(in_memory.index(run) for run in runs),
        )  # fmt: skip

    def swapped(self) -> Leaf:
        """The last two axes exchanged."""
        return replace(self, order=(*self.order[:-2], self.order[-1], self.order[-2]))


@dataclass(frozen=True)
class Slice:
    """A part of a tensor as it lies in memory: from `start` on, `size` elements along each axis of `whole`, the shape
    in which `source` is read; seen as `shape`. `op`: the operation that cut it, which stays PyTorch where a reader
    needs a copy."""

    source: str
    whole: tuple[int, ...]
    start: tuple[int, ...]
    size: tuple[int, ...]
    shape: tuple[int, ...]
    op: Op


@dataclass(frozen=True)
class Result:
    """`expr` over the result of draft number `stage`, seen as `shape` (same elements, same order)."""

    stage: int
    expr: Expr
    shape: tuple[int, ...]


Value = Leaf | Slice | Result | float


@dataclass(frozen=True)
class Source:
    """An input of a draft: reference `of` seen as `shape`; `transposed`: the reader swaps its last two axes."""

    of: str
    shape: tuple[int, ...]
    transposed: bool = False


@dataclass
class Draft:
    """A stage under construction. `shape`: of its result; `dtype`: of its result in the module; `outs`: the stored
    expressions, the epilogue first."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    outs: list[Expr] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """The axes of `shape` as expressions name them. The leading axes of a batched product are together `l`."""
        return image_names(len(self.shape))

    @property
    def sizes(self) -> tuple[int, ...]:
        """One size per name."""
        return self.shape

    def extent(self, name: str) -> tuple[int, ...]:
        """The sizes of `shape` that a name stands for."""
        return (self.sizes[self.names.index(name)],)

    @property
    def sources(self) -> tuple[Source, ...]:
        return ()

    @property
    def expressions(self) -> list[Expr]:
        """The stored expressions, and the one before a reduction or normalisation."""
        return self.outs

    def shape_of(self, part: int) -> tuple[int, ...]:
        """The shape of a stored result: of the epilogue, 0, or of a further one."""
        return self.shape

    def read(self) -> set[str]:
        """References of all tensors that the stage reads."""
        return {s.of for s in self.sources} | {x.name.rpartition("@")[0] for e in self.expressions for x in loads(e)}


def image_names(rank: int) -> tuple[str, ...]:
    """Axes of an elementwise stage, each with its own name (dsl.axes)."""
    return {0: (), 1: ("n",), 2: ("m", "n")}.get(rank) or ("b", "c", *SPATIAL[rank - 2])


@dataclass
class Product(Draft):
    """A @ B. `shape` is (*lead, M, N); both sides have the same leading axes, or B has none."""

    a: Source = None
    b: Source = None
    k: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return ("m", "n") if len(self.shape) == 2 else ("l", "m", "n")

    @property
    def sizes(self) -> tuple[int, ...]:
        if len(self.shape) == 2:
            return self.shape
        batch = 1
        for d in self.shape[:-2]:
            batch *= d
        return (batch, *self.shape[-2:])

    def extent(self, name: str) -> tuple[int, ...]:
        return self.shape[:-2] if name == "l" else super().extent(name)

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.a, self.b)


@dataclass
class Convolution(Draft):
    """dsl.ir.Conv without its configuration. `direct`: on the CUDA cores, operands in PyTorch's layout."""

    x: Source = None
    w: Source = None
    transposed: bool = False
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    groups: int = 1

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x, self.w)

    @property
    def channels(self) -> tuple[int, int]:
        """Channels of one group, in and out."""
        return self.x.shape[1] // self.groups, self.shape[1] // self.groups


@dataclass
class Elementwise(Draft):
    """Each element of x, or of the part of x that begins at `start`; no stage until it is stored."""

    x: Source = None
    start: tuple[int, ...] | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x,)


@dataclass
class Reduction(Draft):
    """`op` of `of` over the axes of x named in `over`, which the result omits."""

    x: Source = None
    op: str = "sum"
    over: tuple[str, ...] = ()
    of: Expr = field(default_factory=Acc)
    inside: tuple[str, ...] = ()  # the axes of x, by which `of` reads

    @property
    def expressions(self) -> list[Expr]:
        return [self.of, *self.outs]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n in self.inside if n not in self.over)

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x,)


@dataclass
class Normalization(Draft):
    """dsl.ir.Normalize; `params` in its order."""

    x: Source = None
    op: str = "softmax"
    over: tuple[str, ...] = ()
    params: tuple[Source, ...] = ()
    of: Expr = field(default_factory=Acc)
    groups: int = 1
    eps: float = 1e-5

    @property
    def expressions(self) -> list[Expr]:
        return [self.of, *self.outs]

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x, *self.params)


@dataclass
class Scanning(Draft):
    """dsl.ir.Scan; `over`: the name of its axis."""

    x: Source = None
    op: str = "sum"
    over: tuple[str, ...] = ()
    of: Expr = field(default_factory=Acc)
    reverse: bool = False

    @property
    def expressions(self) -> list[Expr]:
        return [self.of, *self.outs]

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x,)


@dataclass
class Pooling(Draft):
    """dsl.ir.Pool; `window` None: global."""

    x: Source = None
    op: str = "max"
    window: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x,)


@dataclass
class Attention(Draft):
    """dsl.ir.Attention; without `k` and `v`, `q` has the heads of all three. `in_f32`: PyTorch's own attention of f32
    tensors, which does not round its operands to tf32 as its products do."""

    q: Source = None
    k: Source | None = None
    v: Source | None = None
    order: str = "bhmd"
    heads: tuple[int, int] | None = None
    scale: float = 1.0
    causal: bool = False
    in_f32: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(s for s in (self.q, self.k, self.v) if s is not None)


@dataclass
class Concatenation(Draft):
    """dsl.ir.Concat; `over`: the name of its axis."""

    parts: tuple[Source, ...] = ()
    over: str = ""

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.parts


# The drafts with an expression `of` over the elements of x, before their own work.
OVER_ELEMENTS = (Reduction, Normalization, Scanning)


@dataclass
class Rearrangement(Draft):
    """A copy in another order: x seen as `view`, then its axes permuted."""

    x: Source = None
    permute: tuple[int, ...] | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.x,)


def stage_of(reference: str) -> int | None:
    """The draft that produces a reference; None for a graph tensor."""
    return int(reference[1:].split("+")[0]) if reference.startswith("#") else None


def part_of(reference: str) -> int:
    """The index of a reference among its draft's results."""
    return int(reference.partition("+")[2] or 0)


def reference(stage: int, part: int = 0) -> str:
    return f"#{stage}+{part}" if part else f"#{stage}"


def stored_shape(drafts: list[Draft], source: str) -> tuple[int, ...] | None:
    """The stored shape of a stage's result; None for a graph tensor."""
    at = stage_of(source)
    return None if at is None else drafts[at].shape_of(part_of(source))


def groups_of(view: tuple[int, ...], stage: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Two shapes of the same elements, split into the smallest runs of axes that hold the same elements: pairs of
    (positions in `view`, positions in `stage`), without axes of size 1. None if the elements differ."""
    left = [i for i, d in enumerate(view) if d != 1]
    right = [i for i, d in enumerate(stage) if d != 1]
    out: list[tuple[list[int], list[int]]] = []
    while left and right:
        vs, ss = [left.pop(0)], [right.pop(0)]
        pv, ps = view[vs[0]], stage[ss[0]]
        while pv != ps:
            if pv < ps:
                if not left:
                    return None
                vs.append(left.pop(0))
                pv *= view[vs[-1]]
            else:
                if not right:
                    return None
                ss.append(right.pop(0))
                ps *= stage[ss[-1]]
        out.append((vs, ss))
    return None if left or right else out
