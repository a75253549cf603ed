"""A module whose work is row by row, as nodes from which row_kernels.py writes CUDA.

Its operations are pointwise ones and reductions over the last axis. Everything computes in f32; only a cast that the
module writes rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from sol.graph import Op, OpGraph

HALVES = ("f16", "bf16")
UNARY = {
    "relu": "({0} < 0.f ? 0.f : {0})", "silu": "__fdividef({0}, 1.f + __expf(-{0}))",
    "sigmoid": "__fdividef(1.f, 1.f + __expf(-{0}))",
    "tanh": "tanhf({0})", "exp": "expf({0})", "log": "logf({0})", "sqrt": "sqrtf({0})", "rsqrt": "rsqrtf({0})",
    "square": "{0} * {0}", "neg": "-{0}", "abs": "fabsf({0})",
}  # fmt: skip
GELU = {
    "none": "0.5f * {0} * (1.f + erff({0} * 0.70710678f))",
    "tanh": "0.5f * {0} * (1.f + tanhf(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0})))",
}
BINARY = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}"}
LARGER = {"maximum": ">", "minimum": "<"}
REDUCED = {"sum": "sum", "mean": "sum", "amax": "max"}


class NotRows(Exception):
    """The module is not of this kind; the message says which operation is not."""


@dataclass(frozen=True)
class Node:
    """One value. `full`: one for each element of a row, else one a row; `code`: an expression of `args`; `reduce`: sum
    or max over the row of its one argument; `load`: of an input (number, parts, part), where `parts` lie side by side
    in its rows; `stride`: False for an input that all rows share; `dtype`: of an input; `level`: reductions before it.
    """

    name: str
    full: bool
    code: str = ""
    args: tuple[str, ...] = ()
    reduce: str = ""
    load: tuple[int, int, int] | None = None
    stride: bool = True
    dtype: str = "f32"
    level: int = 0


@dataclass
class Rows:
    """A module's rows. `half`: its 16-bit type, "" if it has none; `wide`: the input that says how many rows there are,
    and `parts`: how many rows of `width` lie in one of its rows."""

    width: int
    rows: int
    half: str
    wide: int
    parts: int = 1
    nodes: dict[str, Node] = field(default_factory=dict)
    inputs: int = 0
    outputs: tuple[tuple[str, str], ...] = ()  # (node, type)

    @property
    def levels(self) -> int:
        return max((n.level for n in self.nodes.values()), default=0)


def rows_of(graph: OpGraph) -> Rows:
    """Raises NotRows."""
    tensors = graph.tensors
    if any(t.kind in ("parameter", "buffer") for t in tensors.values()):
        raise NotRows("it has parameters")
    floats = [n for n in graph.inputs if tensors[n].dtype in ("f32", *HALVES) and tensors[n].shape]
    if not floats or len(graph.inputs) > 8 or len(graph.outputs) > 4:
        raise NotRows("it has other inputs than tensors of floats")
    halves = {tensors[n].dtype for n in (*graph.inputs, *graph.outputs)} & set(HALVES)
    if len(halves) > 1:
        raise NotRows("it has two 16-bit types")
    wide = max(floats, key=lambda n: tensors[n].elements)
    split = next((op for op in graph.ops if op.op == "chunk" and op.inputs == (wide,)), None)
    parts = split.attrs.get("chunks", 1) if split is not None else 1
    last = tensors[wide].shape[-1]
    if last % parts:
        raise NotRows("its chunks have several widths")
    rows = Rows(last // parts, tensors[wide].elements // last, next(iter(halves), ""), graph.inputs.index(wide), parts)
    rows.inputs = len(graph.inputs)
    for number, name in enumerate(graph.inputs):
        _input(rows, graph, number, name)
    for op in graph.ops:
        _op(rows, graph, op)
    rows.outputs = tuple((name, tensors[name].dtype) for name in graph.outputs)
    if any(name not in rows.nodes or dtype not in ("f32", *HALVES) for name, dtype in rows.outputs):
        raise NotRows("a result is no tensor of floats")
    return rows


def _kind(rows: Rows, shape: tuple[int, ...]) -> str:
    """full | row | column, by the shape of a tensor. Raises NotRows."""
    if len(shape) > 1 and shape[-1] == rows.width and prod(shape[:-1]) == rows.rows:
        return "full"
    if shape == (rows.width,):
        return "column"
    if prod(shape) == rows.rows and len(shape) >= 1:
        return "row"
    raise NotRows(f"a tensor of {'x'.join(map(str, shape))} is neither rows nor one value a row")


def _input(rows: Rows, graph: OpGraph, number: int, name: str) -> None:
    tensor = graph.tensors[name]
    if number == rows.wide and rows.parts > 1:
        return  # its chunks are the inputs
    kind = _kind(rows, tensor.shape)
    if tensor.dtype not in ("f32", "i64", *HALVES) or (tensor.dtype == "i64" and kind != "row"):
        raise NotRows(f"an input is {tensor.dtype}")
    rows.nodes[name] = Node(
        name, kind != "row", load=(number, 1, 0), stride=kind != "column", dtype=tensor.dtype
    )  # fmt: skip


def _op(rows: Rows, graph: OpGraph, op: Op) -> None:
    out, attrs = op.outputs[0], op.attrs
    match op.op:
        case "chunk" if op.inputs[0] == graph.inputs[rows.wide]:
            if attrs.get("dim") not in (-1, len(graph.tensors[op.inputs[0]].shape) - 1):
                raise NotRows("its chunks are not along the rows")
            for part, name in enumerate(op.outputs):
                rows.nodes[name] = Node(
                    name, True, load=(rows.wide, rows.parts, part), dtype=graph.tensors[name].dtype
                )  # fmt: skip
        case "to" if graph.tensors[out].dtype in ("f32", *HALVES):
            rounds = graph.tensors[out].dtype in HALVES
            _point(rows, out, "rounded<T>({0})" if rounds else "{0}", op.inputs)
        case "unsqueeze" | "view" | "reshape" | "contiguous" if _kind(rows, graph.tensors[out].shape) == "row":
            _point(rows, out, "{0}", op.inputs[:1])
        case name if name in UNARY:
            _point(rows, out, UNARY[name], op.inputs)
        case "gelu":
            _point(rows, out, GELU[attrs.get("approximate", "none")], op.inputs)
        case "pow" if attrs.get("exponent") == 2:
            _point(rows, out, "{0} * {0}", op.inputs)
        case name if name in BINARY and attrs.get("alpha", 1) == 1:
            _point(rows, out, BINARY[name], _operands(op))
        case name if name in LARGER:
            _point(rows, out, f"({{0}} {LARGER[name]} {{1}} || {{0}} != {{0}} ? {{0}} : {{1}})", _operands(op))
        case name if name in REDUCED and _along_rows(graph, op):
            total = f"{out}_sum" if name == "mean" else out
            _reduce(rows, total, REDUCED[name], op.inputs[0])
            if name == "mean":
                _point(rows, out, "{0} * share", (total,))
        case "softmax" if attrs.get("dim") in (-1, len(graph.tensors[out].shape) - 1):
            top, total = _exponents(rows, out, op.inputs[0])
            _point(rows, out, "expf({0} - {1}) / {2}", (op.inputs[0], top, total))
        case "cross_entropy_loss":
            _loss(rows, op)
        case _:
            raise NotRows(f"{op.op} is no operation along rows")


def _operands(op: Op) -> tuple[str, ...]:
    """The names of both operands; a number stands for itself."""
    if len(op.inputs) == 2:
        return op.inputs
    other = op.attrs.get("other")
    if not isinstance(other, int | float):
        raise NotRows(f"{op.op} has one operand")
    return (op.inputs[0], repr(float(other)))


def _point(rows: Rows, name: str, code: str, args: tuple[str, ...]) -> None:
    args = tuple(a if a in rows.nodes or _number(a) else _missing(a) for a in args)
    nodes = [rows.nodes[a] for a in args if a in rows.nodes]
    rows.nodes[name] = Node(
        name, any(n.full for n in nodes), code, args, level=max((n.level for n in nodes), default=0)
    )  # fmt: skip


def _reduce(rows: Rows, name: str, how: str, of: str) -> None:
    node = rows.nodes.get(of) or _missing(of)
    if not node.full:
        raise NotRows("it reduces more than a row")
    rows.nodes[name] = Node(name, False, args=(of,), reduce=how, level=node.level + 1)


def _exponents(rows: Rows, out: str, of: str) -> tuple[str, str]:
    """The largest value of a row, and the sum of exp(value - largest)."""
    top, part, total = f"{out}_top", f"{out}_part", f"{out}_total"
    _reduce(rows, top, "max", of)
    _point(rows, part, "expf({0} - {1})", (of, top))
    _reduce(rows, total, "sum", part)
    return top, total


def _loss(rows: Rows, op: Op) -> None:
    """Cross entropy without weights, one loss a row; a target of `ignore_index` has none."""
    attrs, of = op.attrs, rows.nodes.get(op.inputs[0])
    target = rows.nodes.get(op.inputs[1])
    if attrs.get("weight") is not None or attrs.get("reduction") != 0 or attrs.get("label_smoothing"):
        raise NotRows("cross entropy has weights, smoothing or a reduction")
    while of is not None and of.load is None and of.code == "{0}":
        of = rows.nodes[of.args[0]]
    if of is None or of.load is None or not of.full or target is None or target.dtype != "i64":
        raise NotRows("cross entropy reads no input")
    top, total = _exponents(rows, op.outputs[0], op.inputs[0])
    chosen, ignored = f"{op.outputs[0]}_chosen", int(attrs.get("ignore_index", -100))
    rows.nodes[chosen] = Node(chosen, False, f"pick({{0}}, {ignored})", (target.name,), load=of.load, dtype=of.dtype)
    _point(
        rows, op.outputs[0], f"(i_{target.name} == {ignored} ? 0.f : {{0}} + logf({{1}}) - {{2}})", (top, total, chosen)
    )  # fmt: skip


def _along_rows(graph: OpGraph, op: Op) -> bool:
    dims = op.attrs.get("dim")
    dims = dims if isinstance(dims, list | tuple) else [dims]
    return list(dims) in ([-1], [len(graph.tensors[op.inputs[0]].shape) - 1])


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing(name: str) -> str:
    raise NotRows(f"{name} is no value along rows")
