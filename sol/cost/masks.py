"""Attention scores that a constant mask leaves out: no kernel need compute, read or exponentiate them.

An operation with `unmasked` below 1 (`sol.graph.Op`) sets the other scores to minus infinity before a softmax, so the
product that makes them, the softmax and the product that reads its result need that share alone. The mask itself is
the same in every call, so a kernel may know it without reading it.
"""

from __future__ import annotations

from sol.cost.cost import canonical
from sol.graph import Op, OpGraph

SOFTMAX = ("softmax", "_softmax")
_VANISHING = ("relu", "exp", "sigmoid")  # element by element, minus infinity becomes 0
# What may stand between a mask and its softmax, or between the softmax and the product, and moves no element.
PASSES = (
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "contiguous", "clone", "to",
    "_to_copy", "float", "half", "bfloat16", "type_as", "expand", "dropout",
)  # fmt: skip


def fixed(graph: OpGraph) -> frozenset[str]:
    """The tensors that depend on no input and no parameter."""
    if "fixed" not in graph.cache:
        names = {n for n, t in graph.tensors.items() if t.kind in ("buffer", "constant")} - set(graph.writes)
        for op in graph.ops:
            if names.issuperset(op.inputs):
                names.update(op.outputs)
        graph.cache["fixed"] = frozenset(names)
    return graph.cache["fixed"]


def is_mask(op: Op, name: str, graph: OpGraph) -> bool:
    """Return True if an input of an operation is the constant mask of its scores."""
    return op.unmasked < 1 and name in fixed(graph)


def makers(graph: OpGraph) -> frozenset[str]:
    """The operations that only make such masks."""
    if "mask_makers" not in graph.cache:
        own: set[str] = set()
        for op in reversed(graph.ops):
            readers = [(n, reader) for n in op.outputs for reader in graph.readers.get(n, ())]
            alone = not set(op.outputs).intersection(graph.outputs) and fixed(graph).issuperset(op.outputs)
            if readers and alone and all(is_mask(r, n, graph) or r.name in own for n, r in readers):
                own.add(op.name)
        graph.cache["mask_makers"] = frozenset(own)
    return graph.cache["mask_makers"]


def softmax_share(op: Op, graph: OpGraph) -> float:
    """The share of elements that a constant mask leaves to a softmax (or to another function in which minus infinity
    becomes 0); 1 for any other operation."""
    name = canonical(op.op)
    if name not in _VANISHING and (name not in SOFTMAX or not _along_rows(op, graph)):
        return 1.0
    return _share_above(op.inputs[0], graph)


def _share_above(name: str, graph: OpGraph) -> float:
    """The share that the masks on the way to a tensor of scores leave. It is noted for each tensor on that way, which
    many softmaxes may have in common."""
    known: dict[str | None, float] = graph.cache.setdefault("share_above", {None: 1.0})
    way: list[tuple[str, float]] = []
    while name not in known and (before := graph.producer.get(name)) is not None:
        way.append((name, before.unmasked))
        name = _passed(before, name, graph)
    share = known.get(name, 1.0)
    for at, own in reversed(way):
        share = known[at] = min(share, own)
    return share


def probability_share(name: str, graph: OpGraph) -> float:
    """The share of a tensor's elements that are not zero for sure: those of a masked softmax, as far as this tensor is
    one, perhaps in another shape."""
    while (op := graph.producer.get(name)) is not None and canonical(op.op) in PASSES:
        name = op.inputs[0]
    return 1.0 if op is None else softmax_share(op, graph)


def _along_rows(op: Op, graph: OpGraph) -> bool:
    rank, dim = len(graph.tensors[op.inputs[0]].shape), op.attrs.get("dim")
    return isinstance(dim, int) and rank > 0 and dim % rank == rank - 1


def _passed(op: Op, name: str, graph: OpGraph) -> str | None:
    """The tensor of scores that an operation before a softmax reads, if minus infinity stays minus infinity."""
    if op.unmasked < 1 or canonical(op.op) in ("add", "sub"):
        shape = graph.tensors[name].shape
        scores = [n for n in op.inputs if n not in fixed(graph) and graph.tensors[n].shape == shape]
        return scores[0] if scores else None
    return op.inputs[0] if canonical(op.op) in PASSES and op.inputs else None
