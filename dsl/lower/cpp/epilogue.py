"""Epilogue visitor trees: leaves fetch tensors, and one compute node evaluates the expression.

CUTLASS's trees have a node for each operator. Ours have one n-ary node over the leaves. So each tensor is fetched once,
all arithmetic is in f32, and the unit instantiates a third of the templates. The leaves, including `acc`, are in order
of first use; the arguments have the same order, with those of the node last.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from dsl.functions import TABLE
from dsl.ir import Acc, Call, DType, Expr, Load, Number, Ref, StageBase, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.functions import FUNCTIONS, OPERATORS
from dsl.lower.cpp.names import aligned, identifier, storage


@dataclass(frozen=True)
class Leaf:
    """A leaf of the tree, which fetches one tensor.

    kind       acc | scalar | row | column | source | aux | direct. `row` is a vector along n (b[n]), `column` one along
               m. `source` is a full tensor through the kernel's C path, `aux` a second full tensor; both use TMA. The
               compute node reads a `direct` tensor itself, at `offset`.
    batch      elements from one batch to the next; 0 if all batches share the tensor.
    """

    kind: str
    name: str = ""
    dtype: DType = DType.F32
    batch: int = 0
    varies: bool = False  # a scalar that differs by batch
    offset: str = ""

    @property
    def argument(self) -> str:
        """The name of the argument of the compute node."""
        return "acc" if self.kind == "acc" else f"in_{self.name}_{self.kind}"

    @property
    def cpp(self) -> str:
        return storage(self.dtype, self.name)


@dataclass(frozen=True)
class Output:
    """A tensor that the compute node writes element by element: an `also`, or a result that TMA cannot write.

    `offset` and `value` are C++ expressions.
    """

    name: str
    dtype: DType
    offset: str
    value: str

    @property
    def argument(self) -> str:
        return f"out_{self.name}"

    @property
    def cpp(self) -> str:
        return storage(self.dtype, self.name)


@dataclass(frozen=True)
class Total:
    """A reduction of `value` over the rows or columns of the output, in the same launch.

    op       TotalSum | TotalMax | TotalLogSumExp of templates/totals.cu.j2.
    along    "n": one value for each row; "m": one for each column.
    """

    name: str
    op: str
    along: str
    value: str

    @property
    def argument(self) -> str:
        return f"total_{self.name}"


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...]
    statements: tuple[str, ...]  # temporaries of shared subexpressions
    value: str
    functions: tuple[str, ...]
    outputs: tuple[Output, ...] = ()
    place: tuple[str, ...] = ()  # C++ declarations of the element's indices in the output, from m, n and l
    indexed: bool = False  # the expressions use these indices
    totals: tuple[Total, ...] = ()

    @property
    def source(self) -> Leaf | None:
        return next((leaf for leaf in self.leaves if leaf.kind == "source"), None)

    @property
    def fetched(self) -> tuple[Leaf, ...]:
        """The leaves that are children of the compute node."""
        return tuple(leaf for leaf in self.leaves if leaf.kind != "direct")

    @property
    def direct(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.kind == "direct")

    @property
    def node(self) -> bool:
        """Return True if the compute node reads or writes memory itself, or uses the element's indices."""
        return bool(self.direct or self.outputs or self.indexed or self.totals)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors whose addresses the launch passes, in the order of its arguments."""
        return (
            *(leaf.name for leaf in self.leaves if leaf.kind != "acc"),
            *(out.name for out in (*self.outputs, *self.totals)),
        )


@dataclass(frozen=True)
class Write:
    """A tensor for the compute node to write: `expr` at `offset`."""

    name: str
    dtype: DType
    offset: str
    expr: Expr


# A reduction of the language -> its state, and the axis that it reduces.
REDUCED = {
    "row_sum": ("TotalSum", "n"),
    "row_max": ("TotalMax", "n"),
    "row_logsumexp": ("TotalLogSumExp", "n"),
    "col_sum": ("TotalSum", "m"),
}


def reduction(expr: Expr) -> tuple[str, str, Expr] | None:
    """The state, axis and argument of a reduction; None for an element-wise expression."""
    if isinstance(expr, Call) and expr.fn in REDUCED:
        return (*REDUCED[expr.fn], expr.args[0])
    return None


def shared(stage: StageBase) -> tuple[Expr, tuple[Expr, ...]]:
    """The epilogue and the expressions of `also` with every let expanded.

    The expression of a let stays one object, so that it becomes one temporary.
    """
    lets: dict[str, Expr] = {}

    def walk(e: Expr) -> Expr:
        if isinstance(e, Ref):
            return lets[e.name]
        if isinstance(e, Call):
            args = tuple(walk(arg) for arg in e.args)
            return e if all(x is y for x, y in zip(args, e.args, strict=True)) else Call(e.fn, args, e.span)
        return e

    for let in stage.lets:
        lets[let.name] = walk(let.expr)
    return walk(stage.epilogue), tuple(walk(extra.expr) for extra in stage.also)


def build(
    expr: Expr,
    fetch: Callable[[Load, bool], Leaf],
    writes: tuple[Write, ...] = (),
    place: tuple[str, ...] = (),
    totals: tuple[tuple[str, str, str, Expr], ...] = (),
) -> Tree:
    """The leaves and the C++ text of `expr`, of other writes and of reductions.

    `fetch(load, have_source)` returns the leaf of a tensor, and raises Refusal if none can fetch it. `totals`: name,
    state, axis and expression of each reduction.
    """
    order: list[Load | Acc] = []
    uses: dict[int, int] = {}
    for each in (expr, *(w.expr for w in writes), *(t[-1] for t in totals)):
        _walk(each, order, uses)
    leaves: dict[tuple, Leaf] = {}
    for node in order:
        key = _key(node)
        if key not in leaves:
            have_source = any(leaf.kind == "source" for leaf in leaves.values())
            leaves[key] = Leaf("acc") if isinstance(node, Acc) else fetch(node, have_source)
    if ("acc",) not in leaves:
        raise Refusal(
            "cpp-epilogue-acc", "the epilogue never uses acc, so the product is not used", "use acc in the epilogue"
        )
    writer = _Writer(leaves, uses)
    value = writer.bare(expr)
    outputs = tuple(Output(w.name, w.dtype, w.offset, writer.bare(w.expr)) for w in writes)
    reduced = tuple(Total(name, op, along, writer.bare(e)) for name, op, along, e in totals)
    return Tree(
        tuple(leaves.values()), tuple(writer.statements), value, tuple(sorted(writer.functions)), outputs, place,
        writer.indexed, reduced,
    )  # fmt: skip


def plan(
    expr: Expr,
    types: dict[str, TensorType],
    l: int,  # noqa: E741
    m: int,
    n: int,
    transposed_result: bool = False,
) -> Tree:
    """The leaves and the C++ text of `expr` for an l x m x n output. Raises Refusal if no leaf can fetch a tensor.

    `transposed_result`: the kernel computes the transposed output, so a vector along n is a column for it and one along
    m a row.
    """
    return build(expr, lambda load, have_source: leaf(load, types, l, m, n, have_source, transposed_result))


def _walk(expr: Expr, order: list, uses: dict[int, int]) -> None:
    """Collect the leaves in order of first use. `uses` counts the uses of each node object, which lets share."""
    uses[id(expr)] = uses.get(id(expr), 0) + 1
    if uses[id(expr)] > 1:
        return
    if isinstance(expr, Acc | Load):
        order.append(expr)
    elif isinstance(expr, Call):
        for arg in expr.args:
            _walk(arg, order, uses)


def _key(node: Load | Acc) -> tuple:
    """The key of a fetch. `r[m, n]` and `r[l, m, n]` of one tensor are one; the size tells if it is batched."""
    return ("acc",) if isinstance(node, Acc) else (node.name, *sorted(set(node.axes) - {"l"}))


def leaf(
    node: Load,
    types: dict[str, TensorType],
    l: int,  # noqa: E741
    m: int,
    n: int,
    have_source: bool,
    transposed_result: bool,
    by_tma: bool = True,
) -> Leaf:
    """The leaf that reads a scalar, a vector along m or n, or an m x n tensor; `by_tma`: full tensors use TMA."""
    name, axes, kind = identifier(node.name), set(node.axes), types[node.name]
    storage(kind.dtype, name)
    inner = axes & {"m", "n"}
    each = {frozenset(): 1, frozenset("n"): n, frozenset("m"): m, frozenset("mn"): m * n}[frozenset(inner)]
    if kind.elements == 1:  # a vector of one element is a scalar
        return Leaf("scalar", name, kind.dtype)
    if kind.elements not in (each, l * each):
        raise Refusal(
            "cpp-epilogue-batch",
            f"{name}[{', '.join(node.axes)}] has {kind.elements:,} elements; the cpp back end reads {each:,} "
            f"(one for all batches) or {l * each:,} (one for each of {l})",
            f"expand {name} to the output's batch, or make it the same for all batches",
        )
    batch = each if l > 1 and kind.elements == l * each else 0
    if not inner:
        return Leaf("scalar", name, kind.dtype, batch, varies=True)
    if inner != {"m", "n"}:
        return Leaf("row" if (inner == {"n"}) != transposed_result else "column", name, kind.dtype, batch)
    if by_tma and not aligned(n, kind.dtype):
        raise Refusal(
            "cpp-alignment",
            f"{name} has rows of {n * kind.dtype.bits // 8:,} bytes; TMA reads rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // kind.dtype.bits}",
        )
    return Leaf("aux" if have_source else "source", name, kind.dtype, batch)


class _Writer:
    """The C++ text of an expression; a subexpression that is used more than once becomes a temporary."""

    def __init__(self, leaves: dict[tuple, Leaf], uses: dict[int, int]):
        self.leaves, self.uses = leaves, uses
        self.statements: list[str] = []
        self.functions: set[str] = set()
        self.indexed = False
        self.named: dict[int, str] = {}

    def bare(self, expr: Expr) -> str:
        """The text of a whole expression, without brackets around it."""
        text = self.text(expr)
        operator = isinstance(expr, Call) and expr.fn in OPERATORS and id(expr) not in self.named
        return text[1:-1] if operator and text.startswith("(") else text

    def text(self, expr: Expr) -> str:
        if isinstance(expr, Acc):
            return "acc2" if expr.second else "acc"
        if isinstance(expr, Load):
            return self.leaves[_key(expr)].argument
        if isinstance(expr, Number):
            return literal(expr.value)
        if id(expr) in self.named:
            return self.named[id(expr)]
        text = self._call(expr)
        if self.uses[id(expr)] > 1:
            self.named[id(expr)] = name = f"t{len(self.statements)}"
            text = text[1:-1] if expr.fn in OPERATORS and text.startswith("(") else text
            self.statements.append(f"float const {name} = {text};")
            return name
        return text

    def _call(self, expr: Call) -> str:
        if expr.fn == "div":
            self.functions.add("div")
            return f"fast_divide({', '.join(self.bare(arg) for arg in expr.args)})"
        if expr.fn in OPERATORS:
            left, right = (self.text(arg) for arg in expr.args)
            return f"({left} {OPERATORS[expr.fn]} {right})"
        if expr.fn == "neg":
            return f"(-{self.text(expr.args[0])})"
        if expr.fn in ("triu", "tril"):
            self.indexed = True
            x, diagonal = expr.args[0], expr.args[1] if len(expr.args) > 1 else Number(0.0)
            sign = ">=" if expr.fn == "triu" else "<="
            return f"(column - row {sign} {int(diagonal.value)} ? {self.text(x)} : 0.0f)"
        if expr.fn not in FUNCTIONS:
            raise Refusal(
                "cpp-function",
                f"the cpp back end has no {expr.fn} in an epilogue yet",
                f"it has {', '.join(sorted(FUNCTIONS))} and + - * /",
            )
        args = [self.bare(arg) for arg in expr.args]
        for missing in TABLE[expr.fn].args[len(args) :]:  # the checker ensures that these have defaults
            args.append(literal(missing.default))
        self.functions.add(expr.fn)
        return f"fn_{expr.fn}({', '.join(args)})"


def literal(value: float) -> str:
    """A float literal that reads back as the nearest f32; decimal where that is short."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value) or abs(value) > 3.4028235677973366e38:
        return "INFINITY" if value > 0 else "(-INFINITY)"
    single = struct.unpack("f", struct.pack("f", value))[0]
    shortest = (f"{single:.{digits}g}" for digits in range(1, 10))
    text = next(t for t in shortest if struct.unpack("f", struct.pack("f", float(t)))[0] == single)
    if not any(c in text for c in ".e"):
        text += ".0"
    return f"({text}f)" if text.startswith("-") else f"{text}f"
