"""An epilogue expression becomes an epilogue visitor tree: its leaves fetch, one compute node evaluates.

CUTLASS's own trees have a node an operator. Ours has one n-ary node over the leaves: each tensor is fetched once
however often the expression names it, all arithmetic stays in f32, and the unit instantiates a third of the templates.
The leaves stand in order of first use, `acc` among them; arguments are given in the same order, the node's own last.
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
    """A fetch of the tree.

    kind       acc | scalar | row | column | source | aux | direct. `row` is a vector along n that every row adds
               (b[n]), `column` one along m; `source` is a full tensor through the kernel's C path, `aux` a further one,
               both by TMA. `direct` is read by the compute node itself, from `offset`.
    batch      elements from one batch to the next; 0 where every batch reads the same.
    """

    kind: str
    name: str = ""
    dtype: DType = DType.F32
    batch: int = 0
    varies: bool = False  # a scalar that differs by batch
    offset: str = ""

    @property
    def argument(self) -> str:
        """Its name as an argument of the compute node."""
        return "acc" if self.kind == "acc" else f"in_{self.name}_{self.kind}"

    @property
    def cpp(self) -> str:
        return storage(self.dtype, self.name)


@dataclass(frozen=True)
class Output:
    """A tensor that the compute node writes itself, element by element: an `also`, or a result that TMA cannot write.
    `offset` and `value` are C++ expressions."""

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
    """A reduction of every element's `value` over the output's rows or columns, while it is computed.

    op       TotalSum | TotalMax | TotalLogSumExp, as templates/totals.cu.j2 has them.
    along    "n": one value a row; "m": one a column.
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
    place: tuple[str, ...] = ()  # where in the output the element stands, as C++ declarations over m, n and l
    indexed: bool = False  # the expressions know their place
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
        """Whether the compute node reads or writes memory itself, or must know its place."""
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


# A reduction of the language -> the state that it keeps, and the axis that it sums over.
REDUCED = {
    "row_sum": ("TotalSum", "n"),
    "row_max": ("TotalMax", "n"),
    "row_logsumexp": ("TotalLogSumExp", "n"),
    "col_sum": ("TotalSum", "m"),
}


def reduction(expr: Expr) -> tuple[str, str, Expr] | None:
    """State, axis and argument of an expression that is a reduction; None for an element-wise one."""
    if isinstance(expr, Call) and expr.fn in REDUCED:
        return (*REDUCED[expr.fn], expr.args[0])
    return None


def shared(stage: StageBase) -> tuple[Expr, tuple[Expr, ...]]:
    """The epilogue and the expressions of `also`, every let written out; what a let names stays one object, so that it
    becomes one temporary."""
    made: dict[str, Expr] = {}

    def walk(e: Expr) -> Expr:
        if isinstance(e, Ref):
            return made[e.name]
        if isinstance(e, Call):
            args = tuple(walk(arg) for arg in e.args)
            return e if all(x is y for x, y in zip(args, e.args, strict=True)) else Call(e.fn, args, e.span)
        return e

    for let in stage.lets:
        made[let.name] = walk(let.expr)
    return walk(stage.epilogue), tuple(walk(extra.expr) for extra in stage.also)


def build(
    expr: Expr,
    fetch: Callable[[Load, bool], Leaf],
    writes: tuple[Write, ...] = (),
    place: tuple[str, ...] = (),
    totals: tuple[tuple[str, str, str, Expr], ...] = (),
) -> Tree:
    """Leaves and C++ text of `expr` and of what else is written. `fetch(load, have_source)` says how a tensor is read
    and raises Refusal for what nothing can fetch. `totals`: name, state, axis and expression of what is reduced."""
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
            "cpp-epilogue-acc", "the epilogue never uses acc, so the product is thrown away", "use acc in the epilogue"
        )
    writer = _Writer(leaves, uses)
    value = writer.bare(expr)
    outputs = tuple(Output(w.name, w.dtype, w.offset, writer.bare(w.expr)) for w in writes)
    reduced = tuple(Total(name, op, along, writer.bare(e)) for name, op, along, e in totals)
    return Tree(
        tuple(leaves.values()), tuple(writer.statements), value, tuple(sorted(writer.functions)), outputs, place,
        writer.indexed, reduced,
    )  # fmt: skip


def plan(expr: Expr, types: dict[str, TensorType], l: int, m: int, n: int, turned: bool = False) -> Tree:  # noqa: E741
    """Leaves and C++ text of `expr` for a product's output of l x m x n. Raises Refusal for what no leaf can fetch.

    `turned`: the kernel computes the output's transpose, so a vector along n is a column to it and one along m a row.
    """
    return build(expr, lambda load, have_source: leaf(load, types, l, m, n, have_source, turned))


def _walk(expr: Expr, order: list, uses: dict[int, int]) -> None:
    """Leaves in order of first use; `uses` counts how often each node object stands in the tree (let shares them)."""
    uses[id(expr)] = uses.get(id(expr), 0) + 1
    if uses[id(expr)] > 1:
        return
    if isinstance(expr, Acc | Load):
        order.append(expr)
    elif isinstance(expr, Call):
        for arg in expr.args:
            _walk(arg, order, uses)


def _key(node: Load | Acc) -> tuple:
    """`r[m, n]` and `r[l, m, n]` of one tensor are one fetch: its size says whether it differs by batch."""
    return ("acc",) if isinstance(node, Acc) else (node.name, *sorted(set(node.axes) - {"l"}))


def leaf(
    node: Load,
    types: dict[str, TensorType],
    l: int,  # noqa: E741
    m: int,
    n: int,
    have_source: bool,
    turned: bool,
    by_tma: bool = True,
) -> Leaf:
    """How a tensor of m x n rows and columns (or a part of them) is read; `by_tma`: full ones in whole tiles."""
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
        return Leaf("row" if (inner == {"n"}) != turned else "column", name, kind.dtype, batch)
    if by_tma and not aligned(n, kind.dtype):
        raise Refusal(
            "cpp-alignment",
            f"{name} has rows of {n * kind.dtype.bits // 8:,} bytes; TMA reads rows of a multiple of 16 bytes",
            f"make n a multiple of {128 // kind.dtype.bits}",
        )
    return Leaf("aux" if have_source else "source", name, kind.dtype, batch)


class _Writer:
    """C++ text of an expression; a subexpression that stands more than once becomes a temporary."""

    def __init__(self, leaves: dict[tuple, Leaf], uses: dict[int, int]):
        self.leaves, self.uses = leaves, uses
        self.statements: list[str] = []
        self.functions: set[str] = set()
        self.indexed = False
        self.named: dict[int, str] = {}

    def bare(self, expr: Expr) -> str:
        """Where nothing stands around it: without the operator's own brackets."""
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
        for missing in TABLE[expr.fn].args[len(args) :]:  # the checker has seen that a default stands there
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
