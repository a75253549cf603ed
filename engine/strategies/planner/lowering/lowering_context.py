"""The walk over an op graph: the state and helpers that every rule of lowering shares.

Values are looked up, stored and turned into expressions here; a rule (products, own stages, pointwise) only states what
its operation becomes. An operation without a rule raises SessionRefused("not_covered"), which names the operation, its
line, and the covered operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dsl.ir import Acc, Expr, Load, Number, loads
from engine.devices import SessionRefused
from engine.strategies.planner.lowering import pointwise
from engine.strategies.planner.lowering.drafts import (
    OVER_ELEMENTS,
    Draft,
    Elementwise,
    Leaf,
    Rearrangement,
    Result,
    Slice,
    Source,
    Value,
    groups_of,
    image_names,
    reference,
    stage_of,
    stored_shape,
)
from engine.strategies.planner.lowering.expressions import on
from engine.strategies.planner.refusals import refuse
from sol.graph import Op, OpGraph, Tensor

MAX_RANK = 5
MOST_TERMS = 100  # of an expression that two chains of elementwise work become; the language takes 200
READABLE = ("f32", "f16", "bf16", "f64")
READERS = (Elementwise, *OVER_ELEMENTS)  # drafts whose stages read masks
MASK = "bool"  # of a graph's tensor: elementwise work reads it as the numbers 1 and 0, which are bytes for a program


class LoweringContext:
    """The drafts so far and the value of each tensor of the graph. `op`: the current operation. `flat`: element-wise
    work that begins from a tensor of the graph sees it as a product's rows: all axes but the last are one."""

    def __init__(self, graph: OpGraph, flat: bool = False):
        self.graph, self.flat = graph, flat
        self.values: dict[str, Value] = {}
        self.drafts: list[Draft] = []
        self.op: Op | None = None
        self._copies: dict[tuple, Leaf] = {}  # (tensor, its shape there, order of axes) -> its copy
        for name, t in graph.tensors.items():
            if t.kind != "intermediate":
                self.values[name] = Leaf.whole(name, t.shape)

    def refuse(self, why: str, covered: Sequence[tuple[str, str]] = ()) -> SessionRefused:
        return refuse(self.op, why, covered)

    # ---- values ----

    def out(self) -> Tensor:
        return self.graph.tensors[self.op.outputs[0]]

    def arguments(self) -> list[Value]:
        """The operation's tensors. Refuses one that is a second result of another operation."""
        values = []
        for name in self.op.inputs:
            if name not in self.values:
                raise self.refuse(f"reads `{name}`, the second result of another operation, which is not covered yet")
            values.append(self.values[name])
        return values

    def named(self, *schema: str) -> dict[str, Value]:
        """The operation's tensors by their names in ATen's schema. Those that are None are among its attrs."""
        present = [n for n in schema if n not in self.op.attrs]
        return dict(zip(present, self.arguments(), strict=False))

    def dtype_of(self, leaf: Leaf | Slice) -> str:
        at = stage_of(leaf.source)
        dtype = self.graph.tensors[leaf.source].dtype if at is None else self.drafts[at].dtype
        return "i8" if dtype == MASK else dtype

    def _masks(self, source: str) -> bool:
        return stage_of(source) is None and self.graph.tensors[source].dtype == MASK

    def _begun(self, leaf: Leaf | Slice) -> str:
        """The element type of elementwise work that begins with a tensor: the module's there if that is a mask."""
        if not self._masks(leaf.source):
            return self.dtype_of(leaf)
        return self.out().dtype if self.out().dtype in READABLE else "f32"

    def add(self, draft: Draft, shape: tuple[int, ...] | None = None) -> Result:
        """Add a draft as the value of the current operation; `shape`: as the module sees it."""
        self.drafts.append(draft)
        return Result(len(self.drafts) - 1, Acc(), draft.shape if shape is None else shape)

    def store(self, value: Result) -> Leaf:
        """Store the value as a tensor in memory: the draft's epilogue, or a further result of its launch."""
        draft = self.drafts[value.stage]
        untouched = isinstance(draft, Elementwise) and isinstance(value.expr, Acc) and draft.start is None
        if untouched and not self._masks(draft.x.of):
            return Leaf.whole(draft.x.of, value.shape)
        if value.expr not in draft.outs:
            draft.outs.append(value.expr)
        return Leaf.whole(reference(value.stage, draft.outs.index(value.expr)), value.shape)

    def leaf(self, value: Value) -> Leaf:
        if isinstance(value, float):
            raise self.refuse("reads a number where a tensor is needed, which is not covered yet")
        if isinstance(value, Slice):
            raise self.copied(value)
        return self.store(value) if isinstance(value, Result) else value

    def copied(self, part: Slice) -> SessionRefused:
        """The refusal of a reader that would need a slice as a tensor of its own: PyTorch cuts it."""
        return refuse(part.op, f"is read by `aten.{self.op.op}`, whose stage reads no slice in place")

    def plain(self, leaf: Leaf) -> Leaf:
        """The tensor in its own order, copied if it is seen permuted."""
        if leaf.plain:
            return Leaf.whole(leaf.source, leaf.shape)
        moved = leaf if len(leaf.base) <= MAX_RANK else leaf.merged()
        if len(moved.base) > MAX_RANK:
            raise self.refuse("would need a copy of more than five axes into another layout, which is not covered yet")
        key = (leaf.source, moved.base, moved.order)
        if key not in self._copies:
            draft = Rearrangement(
                moved.shape, self.dtype_of(leaf), x=Source(leaf.source, moved.base), permute=moved.order
            )
            self._copies[key] = self.leaf_of(draft, moved.shape)
        return replace(self._copies[key], base=leaf.shape, order=tuple(range(len(leaf.shape))))

    def leaf_of(self, draft: Draft, shape: tuple[int, ...]) -> Leaf:
        result = self.add(draft, shape)
        draft.outs.append(Acc())
        return Leaf.whole(reference(result.stage), shape)

    def reshaped(self, value: Leaf | Result | Slice, shape: tuple[int, ...]) -> Leaf | Result:
        """The same elements in the same order, seen as `shape`."""
        if isinstance(value, Result):
            return replace(value, shape=shape)
        if isinstance(value, Slice):
            raise self.copied(value)
        if prod(value.shape) != prod(shape):  # `expand` leaves the sizes to its reader
            raise self.refuse("of an expanded tensor is not covered yet")
        if value.plain:
            return Leaf.whole(value.source, shape)
        return _reshape_swapped(value, shape) or Leaf.whole(self.plain(value).source, shape)

    def see(self, leaf: Leaf, shape: tuple[int, ...]) -> Source:
        """A tensor as a stage reads it, with exactly this shape. A stored result of another shape is copied."""
        leaf = self.plain(leaf)
        stored = self.stored_shape(leaf)
        if prod(leaf.shape) != prod(shape):  # `expand` leaves the sizes to its reader
            raise self.refuse("of an expanded tensor is not covered yet")
        if stored is None or stored == shape:
            return Source(leaf.source, shape)
        draft = Rearrangement(shape, self.dtype_of(leaf), x=Source(leaf.source, stored))
        return Source(self.leaf_of(draft, shape).source, shape)

    def stored_shape(self, leaf: Leaf) -> tuple[int, ...] | None:
        """The stored shape of a stage's result; None for a graph tensor, which is bound in any shape."""
        return stored_shape(self.drafts, leaf.source)

    def carried(self, value: Value, shape: tuple[int, ...] | None = None) -> tuple[Leaf, Expr]:
        """The input of a reduction or normalisation: a tensor, and the expression over its elements. Unstored
        elementwise work is included if the reader sees the tensor in the same shape (as `shape`)."""
        if isinstance(value, Result):
            draft = self.drafts[value.stage]
            free = isinstance(draft, Elementwise) and value.expr not in draft.outs and draft.start is None
            if free and (isinstance(value.expr, Acc) or shape in (None, draft.shape)):
                return Leaf.whole(draft.x.of, value.shape), value.expr
        return self.plain(self.leaf(value)), Acc()

    def own_shape(self, value: Value) -> tuple[int, ...] | None:
        """The shape in which one of our stages must read a value; None if it can choose."""
        if isinstance(value, Result):
            draft = self.drafts[value.stage]
            free = isinstance(draft, Elementwise) and isinstance(value.expr, Acc) and stage_of(draft.x.of) is None
            return None if free and draft.start is None else draft.shape
        if isinstance(value, Slice):
            return value.size
        return None if isinstance(value, float) or not value.plain else self.stored_shape(value)

    # ---- elementwise work ----

    def elementwise(self, value: Value, shape: tuple[int, ...]) -> Result:
        """A tensor in memory as the start of an expression over its elements, seen as `shape`."""
        if isinstance(value, Slice):
            draft = Elementwise(value.size, self._begun(value), x=Source(value.source, value.whole), start=value.start)
            return self.add(draft, shape)
        leaf = self.plain(self.leaf(value))
        stored = self.stored_shape(leaf) or collapsed(shape, 2 if self.flat else MAX_RANK)
        if not stored:
            raise self.refuse("works on a single number; covered are tensors")
        result = self.add(Elementwise(stored, self._begun(leaf), x=Source(leaf.source, stored)), shape)
        return result

    def target(self, values: list[Value], shape: tuple[int, ...]) -> Result:
        """The value whose stage continues with this operation, seen as the operation's result."""
        results = [v for v in values if isinstance(v, Result) and prod(v.shape) == prod(shape)]
        if results:
            last = max(results, key=lambda r: r.stage)
            masks = any(isinstance(v, Leaf | Slice) and self._masks(v.source) for v in values)
            if masks and not isinstance(self.drafts[last.stage], READERS):
                return self.elementwise(last, shape)
            joined = self._joined(last, values, shape)
            if joined is not None:
                return joined
            latest = max((self._draft_of(v) for v in values), default=-1)
            if latest <= last.stage:
                return replace(last, shape=shape)
            return self.elementwise(last, shape)
        whole = [v for v in values if isinstance(v, Leaf | Slice) and v.shape == shape]
        if not whole:
            shapes = " and ".join(str(list(v.shape)) for v in values if not isinstance(v, float))
            what = f"broadcasts {shapes} against each other" if shapes else "spreads a number over a tensor of its own"
            raise self.refuse(f"{what} to {list(shape)}, which is not covered yet")
        stored = [v for v in whole if stage_of(v.source) is not None]
        parts = [v for v in whole if isinstance(v, Slice)]  # they fix the axes of the stage
        return self.elementwise((stored or parts or sorted(whole, key=lambda v: self._masks(v.source)))[0], shape)

    def _joined(self, last: Result, values: list[Value], shape: tuple[int, ...]) -> Result | None:
        """The product (norm, pool) that computes `last` too, elementwise work begun after it: its epilogue needs no
        result of a later stage. None if there is none."""
        own, others = self.drafts[last.stage], [v for v in values if v is not last]
        if not isinstance(own, Elementwise) or len(others) != 1 or not isinstance(others[0], Result):
            return None
        first = replace(others[0], shape=shape)
        draft, read = self.drafts[first.stage], [own.x.of]
        read += [unkey(x.name)[0] for x in loads(last.expr)]
        before = all((stage_of(r) if stage_of(r) is not None else -1) < first.stage for r in read)
        joins = not isinstance(draft, Elementwise) and before and self._meets(last, first, draft)
        return first if joins else None

    def _draft_of(self, value: Value) -> int:
        """The draft after which a value can be read."""
        if isinstance(value, Result):
            return value.stage
        at = None if isinstance(value, float) else stage_of(value.source)
        return -1 if at is None else at

    def term(self, value: Value, target: Result) -> Expr:
        """`value` as a term in the expression of the target's stage."""
        if isinstance(value, float):
            return Number(value)
        draft = self.drafts[target.stage]
        if isinstance(value, Slice):
            return self._part(value, target, draft)
        if isinstance(value, Result):
            if value.stage == target.stage:
                if prod(value.shape) != prod(target.shape):
                    raise self.refuse("broadcasts a product against itself, which is not covered yet")
                return value.expr
            if self._meets(value, target, draft):
                return on(value.expr, self._element(self.drafts[value.stage], draft))
            value = self.store(value)
        seen, value = value, self.plain(value)
        same = isinstance(draft, Elementwise) and value.source == draft.x.of and draft.start is None
        if same and prod(value.shape) == prod(target.shape):
            return Acc()
        if stage_of(value.source) is None and self.graph.tensors[value.source].dtype not in (*READABLE, MASK):
            dtype = self.graph.tensors[value.source].dtype
            raise self.refuse(f"reads a tensor of {dtype}; an epilogue reads f32, f16, bf16 and booleans")
        axes = self._axes(value.shape, target, draft)
        shape = tuple(d for a in axes for d in draft.extent(a))
        stored = self.stored_shape(value)
        if stored is not None and stored != shape:
            value = Leaf.whole(self.see(value, shape).of, shape)
        # A copy that is drafted here goes before the target's stage, unless that computes what is copied.
        if self._origin(value.source) >= target.stage:
            at = stage_of(seen.source)
            what = f"`{self.graph.tensors[seen.source].path or seen.source}`" if at is None else "an earlier result"
            raise self.refuse(
                f"reads {what} with its axes permuted to {list(seen.order)}: a program would have to copy it into "
                "order in a stage before the one that computes it. Operands that lie in one order are covered: permute "
                "the result instead, or keep the other operand in the same order"
            )
        # The name includes the binding's shape, which pipeline needs to name the parameter.
        return Load(key(value.source, shape), axes)

    def _meets(self, value: Result, target: Result, draft: Draft) -> bool:
        """Return True if the target's stage can compute a value of another stage too: elementwise work on the same
        axes that has no other reader. Stored, it would be written and read again."""
        own = self.drafts[value.stage]
        same = value.shape == target.shape and (own.shape, own.names) == (draft.shape, draft.names)
        if not isinstance(own, Elementwise) or not same or value.expr in own.outs:
            return False
        at = stage_of(own.x.of)
        if at is None and self.graph.tensors[own.x.of].dtype not in READABLE:
            return False
        if not isinstance(draft, READERS) and any(self._masks(unkey(x.name)[0]) for x in loads(value.expr)):
            return False
        if at is not None and len(own.shape) > 2:  # its readers choose the layout in which it lies
            return False
        parts = own.start is not None or any(x.starts for x in loads(value.expr))
        name = next((n for n in self.op.inputs if self.values.get(n) is value), "")
        alone = name not in self.graph.outputs and len(self.graph.readers.get(name, ())) == 1
        small = pointwise.size(value.expr) + pointwise.size(target.expr) <= MOST_TERMS
        return alone and small and (not parts or isinstance(draft, Elementwise))

    @staticmethod
    def _element(of: Elementwise, draft: Draft) -> Expr:
        """What the stage `draft` reads to have the element that the elementwise stage `of` begins with."""
        x = of.x
        if isinstance(draft, Elementwise) and (draft.x, draft.start) == (x, of.start):
            return Acc()
        starts: tuple[int | None, ...] = ()
        if of.start is not None and x.shape != of.shape:
            cut = zip(x.shape, of.shape, of.start, strict=True)
            starts = tuple(None if whole == size else start for whole, size, start in cut)
        return Load(key(x.of, x.shape), of.names, starts)

    def _part(self, part: Slice, target: Result, draft: Draft) -> Expr:
        """A slice as a term: a read at an offset. It spans the axes of an elementwise stage of its own size, or some of
        them where the tensor has one element along the others."""
        if not isinstance(draft, Elementwise) or (part.shape != target.shape and draft.shape != target.shape):
            raise self.copied(part)
        pad = len(draft.shape) - len(part.size)
        if pad < 0 or (part.shape == target.shape and part.size != draft.shape):
            raise self.copied(part)
        own = (draft.x.of, draft.x.shape, draft.start, draft.shape)
        if own == (part.source, part.whole, part.start, part.size):
            return Acc()
        axes, starts, whole = [], [], []
        for name, extent, size, of, start in zip(
            draft.names[pad:], draft.shape[pad:], part.size, part.whole, part.start, strict=True
        ):
            if size != extent and (size, of) != (1, 1):
                raise self.copied(part)
            if size == extent:
                axes.append(name)
                whole.append(of)
                starts.append(None if of == size else start)
        if stage_of(part.source) is not None and tuple(whole) != part.whole:
            raise self.copied(part)
        return Load(key(part.source, tuple(whole)), tuple(axes), tuple(starts))

    def _origin(self, source: str) -> int:
        """The draft whose result `source` is, at most copied into another order; -1 for a tensor of the graph."""
        at = stage_of(source)
        while at is not None and isinstance(self.drafts[at], Rearrangement):
            at = stage_of(self.drafts[at].x.of)
        return -1 if at is None else at

    def _axes(self, shape: tuple[int, ...], target: Result, draft: Draft) -> tuple[str, ...]:
        """The axes that an operand spans, by PyTorch's right-aligned broadcasting."""
        full = target.shape
        padded = (1,) * (len(full) - len(shape)) + shape
        if prod(shape) == 1:
            return ()
        groups = groups_of(full, draft.sizes)
        if groups is None:
            raise self.refuse(f"applies an operand to a result seen as {list(full)}, which is not covered yet")
        axes: list[str] = []
        for seen, own in groups:
            part = tuple(padded[i] for i in seen)
            if prod(part) == 1:
                continue
            if part != tuple(full[i] for i in seen):
                raise self.refuse(
                    f"broadcasts an operand of {list(shape)} over part of the rows of {list(full)}, "
                    "which is not covered yet"
                )
            axes += [draft.names[i] for i in own]
        return tuple(axes)

    def channels(self, value: Value, rank: int) -> Leaf:
        """A vector of channels, shaped so that it broadcasts along axis 1 of `rank` axes."""
        leaf = self.plain(self.leaf(value))
        return Leaf.whole(leaf.source, (prod(leaf.shape), *(1,) * (rank - 2)))


def _reshape_swapped(leaf: Leaf, shape: tuple[int, ...]) -> Leaf | None:
    """A reshape, only of the leading axes, of a tensor seen with its last two axes swapped; else None."""
    if len(leaf.shape) < 2 or len(shape) < 2 or leaf.shape[-2:] != shape[-2:] or not leaf.swapped().plain:
        return None
    return Leaf.whole(leaf.source, (*shape[:-2], shape[-1], shape[-2])).swapped()


def key(source: str, shape: tuple[int, ...]) -> str:
    """A tensor and the shape in which a program sees it, as one name of an expression."""
    return f"{source}@{'x'.join(map(str, shape))}"


def unkey(name: str) -> tuple[str, tuple[int, ...]]:
    source, _, sizes = name.rpartition("@")
    return source, tuple(int(d) for d in sizes.split("x")) if sizes else ()


def collapsed(shape: tuple[int, ...], most: int = MAX_RANK) -> tuple[int, ...]:
    """At most so many axes: the leading axes of a longer shape are merged."""
    extra = len(shape) - most
    return shape if extra <= 0 else (prod(shape[: extra + 1]), *shape[extra + 1 :])


__all__ = ["LoweringContext", "collapsed", "image_names", "key", "unkey"]
