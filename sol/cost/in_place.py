"""Writes to a part of a tensor that forward keeps: a row of a cache, a slice of a buffer.

Tracing turns `cache[:, i] = x` into operations that make a whole new tensor. PyTorch writes the part alone, and so may
a kernel, so neither a bound nor PyTorch's predicted time counts the rest of the tensor.
"""

from __future__ import annotations

from sol.cost.cost import canonical
from sol.graph import Op, OpGraph

_SLICES = ("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
_PLACES = ("index_copy", "index_put", "_index_put_impl", "index_add", "index_fill", "scatter", "scatter_add",
           "scatter_reduce", "masked_scatter")  # fmt: skip


def parts(graph: OpGraph) -> dict[str, int]:
    """Operation -> the number of elements that it writes, for those on the way from a tensor that forward writes to its
    new value. The first input of each is the tensor."""
    if "in_place" not in graph.cache:
        graph.cache["in_place"] = {name: n for old, new in graph.written.items() for name, n in _chain(graph, old, new)}
    return graph.cache["in_place"]


def _chain(graph: OpGraph, old: str, new: str) -> list[tuple[str, int]]:
    chain = []
    while new != old:
        op = graph.producer.get(new)
        if op is None or canonical(op.op) not in (*_SLICES, *_PLACES) or not op.inputs:
            return []  # the whole tensor is made anew
        source = graph.tensors[op.inputs[-1]].elements if len(op.inputs) > 1 else graph.tensors[new].elements
        chain.append((op.name, min(source, graph.tensors[new].elements)))
        new = op.inputs[0]
    return chain


def written_elements(graph: OpGraph, new: str) -> int:
    """The elements of a new value that differ from the old one: all of them, if it is not written in parts."""
    total, name, whole = 0, new, graph.tensors[new].elements
    while (op := graph.producer.get(name)) is not None and op.name in parts(graph):
        total, name = total + parts(graph)[op.name], op.inputs[0]
    return min(total, whole) if name != new else whole


def is_done_by_its_source(op: Op) -> bool:
    """Return True if PyTorch writes the part while it computes it, as in `cache[:, i] += x`: the operation itself takes
    no time then."""
    return canonical(op.op) in _SLICES
