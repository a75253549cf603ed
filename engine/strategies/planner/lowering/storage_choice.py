"""The readers of each stage's result, and the type and layout in which it is therefore stored."""

from __future__ import annotations

from functools import cache
from math import prod

from dsl.ir import NCHW, NHWC, DType, Operand, TensorType, loads
from dsl.rules.cute.cast_weight import casts_weight
from dsl.rules.smem import indexed
from engine.strategies.planner.lowering.drafts import (
    OVER_ELEMENTS,
    Attention,
    Concatenation,
    Convolution,
    Draft,
    Elementwise,
    Normalization,
    Pooling,
    Product,
    Rearrangement,
    Reduction,
    Scanning,
    stage_of,
)
from engine.strategies.planner.lowering.lowering_context import unkey

# Rows of x up to which a product may cast its weight itself: it takes half as long again for that. With 1,024 rows a
# linear layer of 8192 x 8192 took 0.271 ms for 0.287 with a cast apart, and with 2,048 rows longer (H200).
CAST_ROWS = 1536
FEW = 16  # channels per group of a grouped convolution, up to which the CUDA cores are as fast


def direct(draft: Convolution, element: DType) -> bool:
    """Return True if a convolution runs on the CUDA cores: grouped with few channels, above all depthwise, or with
    channels that the tensor cores could only read padded in every group."""
    if draft.groups == 1:
        return False
    inner, outer = draft.channels
    step = 128 // element.bits
    # On the CUDA cores a transposed convolution tries every position of its window for every result.
    gathers = draft.transposed and prod(draft.stride) > 1
    return (inner <= FEW and not gathers) or bool(inner % step or outer % step)


def as_it_lies(draft: Convolution, dtype: str) -> bool:
    """Return True if the tensor-core kernel can read NCHW operands without a layout pass; `dtype`: the module's."""
    return dtype == "f32" and draft.groups == 1 and not (draft.transposed and prod(draft.stride) != 1)


def casts_its_weight(draft: Product, element: DType, weight: DType) -> bool:
    """Return True if a product better casts its weight as it reads it, by a kernel that stores each element as it comes
    (dsl.rules.cute.cast_weight). `element`: of its first factor, as it is read; `weight`: as it lies in memory."""
    a, b = (Operand(s.of, s.transposed) for s in draft.sources)
    able = casts_weight(a, TensorType(element, draft.a.shape), b, TensorType(weight, draft.b.shape))
    return able and draft.shape[0] <= CAST_ROWS and len(draft.outs) == 1 and not indexed(draft.outs[0])


class Readers:
    """`narrow`: the inputs of our own stages are stored in the class's type `element` too; `rows`: convolutions read
    operands in PyTorch's layout if they can; `lasting`: nothing is stored narrower than in the module, except, with
    `narrow`, what only products read, by kernels that can check its range (dsl.narrowed)."""

    def __init__(self, lowered, element: DType, narrow: bool, rows: bool = False, lasting: bool = False):
        self.drafts: tuple[Draft, ...] = lowered.stages
        self.element, self.narrow, self.lasting = element, narrow, lasting
        self.rows, self.native = rows, lowered.dtype
        self.results = {stage_of(r) for r in lowered.results}
        self._of: dict[int, list[tuple[int, str]]] = {i: [] for i in range(len(self.drafts))}
        for i, draft in enumerate(self.drafts):
            for source, role in zip(draft.sources, self._roles(draft), strict=True):
                at = stage_of(source.of)
                if at is not None:
                    self._of[at].append((i, role))
            of = [draft.of] if isinstance(draft, OVER_ELEMENTS) else []
            for load in (x for e in (*of, *draft.outs) for x in loads(e)):
                at = stage_of(unkey(load.name)[0])
                if at is not None:
                    self._of[at].append((i, "load"))
        self._wish, self.layout = cache(self._wished), cache(self._chosen)

    def _roles(self, draft: Draft) -> tuple[str, ...]:
        if isinstance(draft, Product | Attention):
            return ("operand",) * len(draft.sources)
        if isinstance(draft, Convolution):
            if self.in_rows(draft):
                return ("rows", "rows")
            return ("own", "own") if direct(draft, self.element) else ("operand", "operand")
        if isinstance(draft, Normalization):
            return ("own", *("param" for _ in draft.params))
        return ("own",) * len(draft.sources)

    def in_rows(self, draft: Draft) -> bool:
        """Return True for a convolution that reads x and w in PyTorch's layout, on the tensor cores."""
        return self.rows and isinstance(draft, Convolution) and as_it_lies(draft, self.native)

    def of(self, stage: int) -> list[tuple[int, str]]:
        """(reader, role): operand of a product, rows of a convolution that reads PyTorch's layout, input of one of our
        stages, param, load, and the module's result."""
        return [*self._of[stage], *([(-1, "result")] if stage in self.results else [])]

    def dtype(self, stage: int) -> DType:
        """The element type in which a stage's results are stored."""
        roles = {role for _, role in self.of(stage)}
        own = DType(self.drafts[stage].dtype)
        if self.lasting and self.narrow and self._for_products(stage):
            return self.element
        if self.lasting or roles & {"result", "param", "rows"}:
            return own
        return self.element if roles == {"operand"} or self.narrow else own

    def _for_products(self, stage: int) -> bool:
        """Return True if a guard lets a stage round its results: only products read them, at most rearranged."""
        draft = self.drafts[stage]
        if isinstance(draft, Reduction | Scanning | Pooling):
            return False
        if isinstance(draft, Convolution) and (direct(draft, self.element) or self.in_rows(draft)):
            return False
        moved = (role == "operand" or (i >= 0 and self._moves(i)) for i, role in self.of(stage))
        return bool(self.of(stage)) and all(moved)

    def _moves(self, reader: int) -> bool:
        return isinstance(self.drafts[reader], Rearrangement) and self._for_products(reader)

    def _chosen(self, stage: int) -> str:
        """The layout of a stage's result. A pool keeps that of what it reads: each thread would read another row for
        each element of its window (11.7 ms instead of 3.3 for a GoogLeNet module on an H200), where a transform goes
        through shared memory."""
        draft, wish = self.drafts[stage], self._wish(stage)
        if isinstance(draft, Pooling) and wish == NHWC:
            sources = [stage_of(source.of) for source in draft.sources]
            return NHWC if all(at is not None and self.layout(at) == NHWC for at in sources) else NCHW
        return wish

    def _wished(self, stage: int) -> str:
        """The layout that all readers of a stage prefer, if it can store it."""
        draft = self.drafts[stage]
        able = isinstance(draft, Pooling | Elementwise | Normalization | Concatenation) or (
            isinstance(draft, Convolution) and not direct(draft, self.element) and not self.in_rows(draft)
        )
        if not able or not 3 <= len(draft.shape) <= 5 or not all(self._prefers(i, r) for i, r in self.of(stage)):
            return NCHW
        return NHWC

    def _prefers(self, reader: int, role: str) -> bool:
        """Return True if a reader prefers channels last."""
        if role in ("result", "load", "param", "rows"):
            return False
        draft = self.drafts[reader]
        if isinstance(draft, Convolution):
            return role == "operand"
        if isinstance(draft, Reduction):
            return draft.over == ("c",) and len(draft.inside) > 2
        if isinstance(draft, Normalization) and draft.op not in ("groupnorm", "instancenorm", "batchnorm"):
            return False
        joins = isinstance(draft, Pooling | Elementwise | Normalization | Concatenation)
        return joins and self._wish(reader) == NHWC


def up(size: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-size // step) * step


def lines(size: int, step: int) -> int:
    """As `up`, for elements in 16 bytes. A long row that needs padding is padded to whole lines of 128 bytes: 1.27 ms,
    where rows of whole 16 bytes took 1.59 (8205 x 2949 x 5921 in tf32, one H200)."""
    return size if size % step == 0 else up(size, 8 * step if size >= 128 * step else step)
