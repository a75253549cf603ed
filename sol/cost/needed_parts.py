"""Which part of each tensor the outputs depend on: `linear(x)[:, -1]` needs the last row of x and no other.

A part is three shares: of a tensor's elements, of its rows (places along all axes but the last) and of its columns
(places along the last axis). The shares are traced back from the outputs through slices, views, element-wise
operations, products, attention and norms of rows. Any other operation needs all of its inputs. A share is never above
what is needed, except where slices of one tensor overlap: their shares are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sol.cost.cost import Cost
from sol.cost.masks import softmax_share
from sol.cost.needed import triangle_elements
from sol.cost.op_table import SHAPED_LIKE, SUBSETS, is_inference_batch_norm
from sol.graph import Op, OpGraph, Tensor

_SAME_ORDER = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as")


@dataclass(frozen=True)
class Part:
    """Shares of a tensor, each from 0 to 1."""

    elements: float = 0.0
    rows: float = 0.0
    columns: float = 0.0

    def __or__(self, other: Part) -> Part:
        return Part(*map(max, self.shares, other.shares))

    def __add__(self, other: Part) -> Part:
        return Part(*(min(1.0, a + b) for a, b in zip(self.shares, other.shares, strict=True)))

    @property
    def shares(self) -> tuple[float, float, float]:
        return self.elements, self.rows, self.columns


NOTHING, ALL = Part(), Part(1.0, 1.0, 1.0)


def _rows(out: Part) -> Part:
    """The rows of a part, each of them whole."""
    return Part(out.rows, out.rows, 1.0)


def _sliced(op: Op, t: Tensor, outs: list[Tensor], parts: Mapping[str, Part]) -> Part:
    """The needed part of a tensor that is sliced: the sum of the needed parts of the slices."""
    size = max(1, t.elements)
    elements = sum(parts.get(o.name, NOTHING).elements * o.elements for o in outs) / size
    if "diagonal" in op.op or not t.shape:
        return Part(elements, elements, elements)
    last = int(op.attrs.get("dim", 0) or 0) % len(t.shape) == len(t.shape) - 1
    own = [parts.get(o.name, NOTHING) for o in outs]
    along = [o.elements / size for o in outs]
    if last and op.op in ("select", "unbind"):  # each slice is one column of t
        return Part(elements, max(p.elements for p in own), sum(a for p, a in zip(own, along, strict=True) if p.rows))
    if last:
        columns = sum(p.columns * a for p, a in zip(own, along, strict=True))
        return Part(elements, max(p.rows for p in own), columns)
    if len(outs[0].shape) < 1 or outs[0].shape[-1] != t.shape[-1]:
        return Part(elements, elements, elements)
    return Part(elements, sum(p.rows * a for p, a in zip(own, along, strict=True)), max(p.columns for p in own))


def _elementwise(t: Tensor, out: Tensor, part: Part) -> Part:
    if t.shape == out.shape:
        return part
    if t.elements == 1:
        return ALL
    if out.shape and t.shape[-1] == out.shape[-1] == t.elements:  # one row for all rows
        return Part(part.columns, 1.0, part.columns)
    if out.shape and t.shape[-1] == 1 and t.elements * out.shape[-1] == out.elements:  # one column for all columns
        return _rows(part)
    return Part(part.elements, part.elements, part.elements)


def _by_rows(op: Op, name: str, out: Tensor) -> bool:
    """Return True if a norm normalizes each row separately."""
    if name in ("layer_norm", "rms_norm"):
        return len(op.attrs.get("normalized_shape") or ()) == 1
    if name in ("softmax", "_softmax", "log_softmax", "_log_softmax"):
        return isinstance(d := op.attrs.get("dim"), int) and d % max(1, len(out.shape)) == len(out.shape) - 1
    return False


def _needs(op: Op, kind: str, place: int, t: Tensor, out: Tensor, part: Part, tensors: Mapping[str, Tensor]) -> Part:
    """The part of input number `place` that is needed for `part` of the only output."""
    name = op.op.rstrip("_") or op.op
    if place and name in SHAPED_LIKE:
        return NOTHING
    if kind == "view":
        if name in _SAME_ORDER and t.elements == out.elements and t.shape[-1:] == out.shape[-1:]:
            return part
        return Part(part.elements, part.elements, part.elements)
    if name in ("tril", "triu") and len(t.shape) > 1:
        return Part(min(part.elements, triangle_elements(op, t) / max(1, t.elements)), part.rows, part.columns)
    if kind == "pointwise" or (kind == "copy" and len(op.inputs) == 1 and name not in ("flip", "roll", "rot90")):
        if kind == "pointwise" or t.shape == out.shape:
            own = _elementwise(t, out, part)
            scores = op.unmasked < 1 and t.shape == out.shape
            return Part(min(own.elements, op.unmasked), own.rows, own.columns) if scores else own
        return ALL
    if kind == "norm" and _by_rows(op, name, out):
        return _rows(part) if place == 0 else ALL
    if is_inference_batch_norm(name, op.attrs):
        return part if place == 0 else ALL
    if name == "linear" and len(tensors[op.inputs[1]].shape) == 2:
        return (_rows(part), _rows(Part(rows=part.columns)), Part(part.columns, 1.0, part.columns))[place]
    if name in ("matmul", "mm", "bmm") and len(tensors[op.inputs[0]].shape) > 1 < len(tensors[op.inputs[1]].shape):
        return _rows(part) if place == 0 else Part(part.columns, 1.0, part.columns)
    if kind == "attention":
        return _rows(part) if place == 0 else ALL
    if name == "embedding":  # the table by elements, the indices by rows
        return Part(part.elements, part.elements, part.elements) if place == 0 else Part(*(part.rows,) * 3)
    return ALL


def parts(graph: OpGraph, costs: Mapping[str, Cost]) -> tuple[dict[str, Part], dict[tuple[str, str], float]]:
    """Tensor -> the part of it that the outputs depend on, and (op, input) -> the share of the input's elements that
    the op has to read."""
    needed: dict[str, Part] = dict.fromkeys(graph.outputs, ALL)
    reads: dict[tuple[str, str], float] = {}
    counted: dict[tuple[str, str], Part] = {}  # slices that are counted already
    for op in reversed(graph.live):
        outs = [graph.tensors[n] for n in op.outputs]
        kind, repeated = costs[op.name].kind, len(set(op.inputs)) < len(op.inputs)
        sliced = f"{op.op} {op.attrs}" if kind == "view" and op.op in SUBSETS else ""
        for place, name in enumerate(op.inputs):
            t = graph.tensors[name]
            before = needed.get(name, NOTHING)
            if sliced:
                part, key = _sliced(op, t, outs, needed), (name, sliced)
                needed[name] = before | part if key in counted else before + part
                counted[key] = part
            else:
                whole = len(outs) != 1 or (repeated and kind != "pointwise")
                out = needed.get(outs[0].name, NOTHING)
                part = ALL if whole else _needs(op, kind, place, t, outs[0], out, graph.tensors)
                needed[name] = before | part
            reads[op.name, name] = max(reads.get((op.name, name), 0.0), part.elements)
    return needed, reads


def vector_share(op: Op, kind: str, graph: OpGraph, needed: Mapping[str, Part]) -> float:
    """The share of an operation's vector and special-function work that has to be done."""
    if len(op.outputs) != 1:
        return 1.0
    part, name = needed.get(op.outputs[0], NOTHING), op.op.rstrip("_")
    if (masked := softmax_share(op, graph)) < 1:
        return min(masked, part.rows)
    if kind in ("pointwise", "matrix", "conv") or is_inference_batch_norm(name, op.attrs):
        return part.elements
    return part.rows if kind == "norm" and _by_rows(op, name, graph.tensors[op.outputs[0]]) else 1.0
