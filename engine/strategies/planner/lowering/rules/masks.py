"""A causal mask before a function that turns minus infinity into 0, as `tril` after it: no mask is read."""

from __future__ import annotations

from dataclasses import replace

from sol.cost.masks import fixed
from sol.graph import Op, OpGraph, Tensor

VANISHING = ("relu", "exp", "sigmoid")


def vanishing(graph: OpGraph) -> dict[str, Op]:
    """The masks that need not be laid, by name -> the function of each one's scores."""
    if "vanishing" not in graph.cache:
        readers = {op.name: _reader(graph, op) for op in graph.ops if op.causal}
        graph.cache["vanishing"] = {name: reader for name, reader in readers.items() if reader is not None}
    return graph.cache["vanishing"]


def without_masks(graph: OpGraph) -> OpGraph:
    """The graph with y = f(x masked) as y = tril(f(x)); what only made the mask is gone."""
    joined = {reader.name: name for name, reader in vanishing(graph).items()}
    if not joined:
        return graph
    masked = {op.name: op for op in graph.ops if op.name in joined.values()}
    tensors, ops = dict(graph.tensors), []
    for op in graph.ops:
        if op.name in masked:
            continue
        if op.name not in joined:
            ops.append(op)
            continue
        mask, out = masked[joined[op.name]], tensors[op.outputs[0]]
        whole = f"{out.name}__whole"
        tensors[whole] = Tensor(whole, out.shape, out.dtype, "intermediate")
        ops.append(replace(op, inputs=(_scores(graph, mask),), outputs=(whole,)))
        ops.append(replace(op, op="tril", inputs=(whole,), attrs={"diagonal": 0}))
    whole_graph = replace(graph, tensors=tensors, ops=tuple(ops))
    return replace(whole_graph, ops=whole_graph.live)


def _reader(graph: OpGraph, op: Op) -> Op | None:
    """The function that alone reads masked scores, if it makes 0 of minus infinity."""
    readers = graph.readers.get(op.outputs[0], ())
    alone = len(readers) == 1 and op.outputs[0] not in graph.outputs and _scores(graph, op) is not None
    return readers[0] if alone and readers[0].op in VANISHING and len(readers[0].inputs) == 1 else None


def _scores(graph: OpGraph, op: Op) -> str | None:
    """The scores that a mask is laid over."""
    shape = graph.tensors[op.outputs[0]].shape
    names = [n for n in op.inputs if n not in fixed(graph) and graph.tensors[n].shape == shape]
    return names[0] if len(names) == 1 and op.op not in ("add", "sub") else None


__all__ = ["VANISHING", "vanishing", "without_masks"]
