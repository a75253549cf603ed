"""Which modules can be computed a few leading rows (images, sequences) at a time, so that a huge one needs less memory.

    names = row_inputs(graph)       # the inputs to cut, or None
    for part in slices(rows, many): outputs[:][part] = model(**{n: x[part] if n in names else x ...})

A tensor of the graph is one of rows if its leading axis is that of the first input and each of its rows depends only on
the same row of the inputs. The graph says so operation by operation; an operation that is not listed here mixes rows.
A module may still name its number of rows in its text, so its sliced results are compared with whole ones once
(engine.evaluate.reference.module_main). Plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.evaluate.correctness import inputs as data
from sol.cost.cost import canonical
from sol.cost.graph_costs import costs_of
from sol.cost.op_table import is_inference_batch_norm
from sol.graph import Op, OpGraph, Tensor

_KEEP = ("to", "contiguous", "clone", "detach", "dropout", "zeros_like", "ones_like")  # copies, element by element
_SPATIAL = {"1d": 3, "2d": 4, "3d": 5}  # rank with a batch, by the end of an operation's name
_RESHAPED = ("view", "reshape", "_unsafe_view", "flatten", "unflatten")
_ALONG = ("slice", "select", "narrow", "chunk", "split", "split_with_sizes", "unbind", "cat", "unsqueeze", "squeeze",
          "softmax", "_softmax", "log_softmax", "_log_softmax", "repeat_interleave", "cumsum", "stack")  # fmt: skip


def rows_for(graph: OpGraph, flops: float = 2e10, bytes_: float = 1e9) -> int | None:
    """The number of leading rows that a CPU computes in about a second and in little memory; None for all.

    At least 8 and a multiple of 8 for rows of matrices; images and volumes may be fewer, down to one.
    """
    first = graph.tensors[graph.inputs[0]] if graph.inputs else None
    if first is None or not first.shape:
        return None
    lead = first.shape[0]
    bytes_of_rows = sum(t.bytes for t in graph.tensors.values() if t.shape[:1] == (lead,))
    share = max(data.contraction_flops(graph) / flops, bytes_of_rows / bytes_)
    if share <= 1:
        return None
    rows = int(lead / share)
    rows = rows // 8 * 8 if rows >= 8 else (max(1, rows) if len(first.shape) > 2 else 8)
    return rows if rows < lead else None


def row_inputs(graph: OpGraph) -> frozenset[str] | None:
    """The inputs to cut along their leading axis, if every output then has just those rows; else None."""
    roles = data.roles(graph)
    names = frozenset(n for n in graph.inputs if roles[n].rows)
    lead = graph.tensors[graph.inputs[0]].shape[:1] if graph.inputs else ()
    if not names or graph.inputs[0] not in names or graph.writes or graph.settled:
        return None
    rows, costs = set(names), costs_of(graph)
    for op in graph.ops:
        mine = [n for n in op.inputs if n in rows]
        if not mine:
            continue
        outs = [graph.tensors[n] for n in op.outputs]
        if any(o.shape[:1] != lead for o in outs) or not _by_rows(op, costs[op.name].kind, graph.tensors, rows):
            return None
        rows.update(op.outputs)
    return names if rows.issuperset(graph.outputs) else None


def slices(rows: int, many: int) -> list[slice]:
    """`rows` in pieces of at most `many`, of almost one size."""
    pieces = -(-rows // max(1, many))
    return [slice(rows * i // pieces, rows * (i + 1) // pieces) for i in range(pieces)]


def _by_rows(op: Op, kind: str, tensors: Mapping[str, Tensor], rows: set[str]) -> bool:
    """Return True if each row of the operation's results depends on the same row of its inputs in `rows`, and on all of
    the other ones."""
    name, x = canonical(op.op), tensors[op.inputs[0]]
    first = op.inputs[0] in rows
    if kind == "pointwise":
        return name not in ("tril", "triu") and _broadcast(op, tensors, rows)
    if name in _KEEP:
        return len(op.inputs) == 1
    if kind == "conv":
        return first and len(x.shape) == _SPATIAL.get(name[-2:]) and not rows & set(op.inputs[1:])
    if kind == "pool":
        return first and len(x.shape) == _SPATIAL.get(name[-2:])
    if kind == "norm":
        return first and not rows & set(op.inputs[1:]) and _norm(op, name, x)
    if kind == "reduction":
        return first and len(op.inputs) == 1 and _apart(op.attrs.get("dim"), x)
    if kind == "matrix":
        return _product(op, name, tensors, rows)
    if kind == "attention":
        return all(n in rows or len(tensors[n].shape) < len(x.shape) or tensors[n].shape[0] == 1 for n in op.inputs)
    if name in _RESHAPED:
        return first and len(x.shape) > 0
    if name in _ALONG:
        inserted = name in ("unsqueeze", "stack")
        return all(n in rows for n in op.inputs) and _apart(op.attrs.get("dim"), x, inserted)
    if name == "transpose":
        return _apart([op.attrs.get("dim0"), op.attrs.get("dim1")], x)
    if name == "permute":
        dims = op.attrs.get("dims")
        return isinstance(dims, Sequence) and bool(dims) and dims[0] % len(x.shape) == 0
    return False


def _apart(dims: Any, x: Tensor, inserted: bool = False) -> bool:
    """Return True if these axes of a tensor (or, `inserted`, of one with an axis more) are known and not the leading
    one."""
    axes = dims if isinstance(dims, Iterable) else [dims]
    rank = len(x.shape) + inserted
    return all(isinstance(d, int) and not isinstance(d, bool) and d % rank for d in axes) and axes != []


def _broadcast(op: Op, tensors: Mapping[str, Tensor], rows: set[str]) -> bool:
    """Return True if what is not in rows is the same for each of them."""
    rank = max(len(tensors[n].shape) for n in op.outputs)
    for n in op.inputs:
        shape = tensors[n].shape
        if n in rows:
            if len(shape) != rank:  # its rows would lie along another axis of the result
                return False
        elif len(shape) == rank and shape[0] != 1:
            return False
    return True


def _norm(op: Op, name: str, x: Tensor) -> bool:
    if name in ("layer_norm", "rms_norm", "native_layer_norm"):
        return 0 < len(op.attrs.get("normalized_shape") or ()) < len(x.shape)
    if name in ("softmax", "_softmax", "log_softmax", "_log_softmax"):
        return _apart(op.attrs.get("dim"), x)
    return name in ("group_norm", "instance_norm") or is_inference_batch_norm(name, op.attrs)


def _product(op: Op, name: str, tensors: Mapping[str, Tensor], rows: set[str]) -> bool:
    shapes, inside = [tensors[n].shape for n in op.inputs], [n in rows for n in op.inputs]
    if name == "linear":
        return inside[0] and not any(inside[1:]) and len(shapes[0]) >= 2
    if name == "addmm":
        return inside == [False, True, False] and (len(shapes[0]) < 2 or shapes[0][0] == 1)
    if name not in ("matmul", "mm", "bmm") or not inside[0]:
        return False
    if inside[1]:  # a product for each row
        return len(shapes[0]) == len(shapes[1]) >= 3
    return len(shapes[0]) >= 2 and len(shapes[1]) <= 2


__all__ = ["row_inputs", "slices"]
