"""Attention that is written out: a product of queries and keys, scales and masks, a softmax, a product with values.

One flash-style kernel does all of it tile by tile, so that the scores never reach device memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from sol.cost.cost import canonical
from sol.cost.graph_costs import costs_of
from sol.cost.masks import PASSES, SOFTMAX, fixed
from sol.graph import Op, OpGraph

_POINTWISE = ("pointwise", "copy", "view")


@dataclass(frozen=True)
class Chain:
    """`ops`: from the first product to the second, in order, with the views between them."""

    ops: tuple[Op, ...]
    scores: Op
    softmax: Op
    out: Op


def chains(graph: OpGraph) -> tuple[Chain, ...]:
    """Every such chain whose inner tensors nothing else reads."""
    around = (_around(op, graph) for op in graph.live if canonical(op.op) in SOFTMAX)
    return tuple(chain for chain in around if chain is not None)


def _only_reader(name: str, graph: OpGraph) -> Op | None:
    readers = graph.readers.get(name, ())
    return readers[0] if len(readers) == 1 and name not in graph.outputs else None


def _is_product(op: Op, graph: OpGraph) -> bool:
    return costs_of(graph)[op.name].kind == "matrix" and len(op.inputs) >= 2 and canonical(op.op) != "linear"


def _around(softmax: Op, graph: OpGraph) -> Chain | None:
    rank, dim = len(graph.tensors[softmax.inputs[0]].shape), softmax.attrs.get("dim")
    if not isinstance(dim, int) or rank < 2 or dim % rank != rank - 1:
        return None
    before = _before(softmax, graph)
    after: list[Op] = []
    reader = _only_reader(softmax.outputs[0], graph)
    while reader is not None and canonical(reader.op) in PASSES:
        after.append(reader)
        reader = _only_reader(reader.outputs[0], graph)
    if before is None or reader is None or not _is_product(reader, graph):
        return None
    return Chain((*before, softmax, *after, reader), before[0], softmax, reader)


def _before(softmax: Op, graph: OpGraph) -> list[Op] | None:
    """The operations from the product of the scores to the softmax."""
    ops: list[Op] = []
    name = softmax.inputs[0]
    while (op := graph.producer.get(name)) is not None and _only_reader(name, graph) is not None:
        ops.append(op)
        if _is_product(op, graph):
            return ops[::-1]
        elements = graph.tensors[name].elements
        scores = [n for n in op.inputs if graph.tensors[n].elements == elements and n not in fixed(graph)]
        scores = [n for n in scores if n in graph.producer]
        if costs_of(graph)[op.name].kind not in _POINTWISE or len(scores) != 1:
            return None
        name = scores[0]
    return None
