"""Which operations can run as one kernel: a product with its tail, and groups of operations between products."""

from __future__ import annotations

from collections.abc import Set
from heapq import heapify, heappop, heappush

from sol.cost.cost import canonical
from sol.cost.graph_costs import costs_of
from sol.cost.op_table import LAYOUT_COPIES, is_inference_batch_norm
from sol.graph import Op, OpGraph


def tail(graph: OpGraph, root: Op) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """The pointwise ops that can run on a product's tile while it is in registers, and the other tensors they read.

    An op joins if it is pointwise, has the product's shape, and reads only the tile, earlier results and externals.
    """
    order, producer, costs = graph.order, graph.producer, costs_of(graph)
    shape = graph.tensors[root.outputs[0]].shape
    inside, ops, extra = set(root.outputs), [], []
    # Positions of the ops that read a tensor of `inside`, in the order in which the module runs them.
    waiting = [order[o.name] for n in root.outputs for o in graph.readers.get(n, ())]
    seen: set[str] = set()
    heapify(waiting)
    while waiting:
        op = graph.ops[heappop(waiting)]
        if op.name in seen:
            continue
        seen.add(op.name)
        c = costs[op.name]
        joined = c.kind == "view" and graph.tensors[op.outputs[0]].shape == shape
        before, after = (graph.tensors[n] for n in (op.inputs[0], op.outputs[0]))
        cast = canonical(op.op) in LAYOUT_COPIES and before.dtype != after.dtype and before.strides == after.strides
        pointwise = cast or c.kind == "pointwise" or is_inference_batch_norm(canonical(op.op), op.attrs)
        outside = [n for n in op.inputs if n not in inside]
        early = all(n not in producer or order[producer[n].name] < order[root.name] for n in outside)
        if not joined and pointwise and early and graph.tensors[op.outputs[0]].shape == shape:
            joined = True
            ops.append(op)
            extra += outside
        if joined:
            inside |= set(op.outputs)
            for n in op.outputs:
                for reader in graph.readers.get(n, ()):
                    heappush(waiting, order[reader.name])
    return tuple(ops), tuple(dict.fromkeys(extra))


def groups(graph: OpGraph, loose: Set[str]) -> list[tuple[Op, ...]]:
    """Groups of at least two of the ops named in `loose` that pass tensors to one another, with no other op between.

    An op's rank is the largest number of other ops (products, copies, gathers; views do not count) on a path from an
    external tensor to it. Only ops of the same rank are joined, so no path between two ops of a group leads through a
    product, which would have to run in the middle of their kernel.
    """
    rank: dict[str, int] = {}  # tensor -> rank of the op that writes it
    maker: dict[str, str] = {}  # tensor -> the loose op that wrote its memory
    of: dict[str, list[Op]] = {}  # loose op -> its group; the whole group shares one list
    for op in graph.live:
        here = max((rank.get(n, 0) for n in op.inputs), default=0)
        if op.name in loose:
            own = of[op.name] = [op]
            for n in op.inputs:
                other = of.get(maker.get(n, ""))
                if other is not None and other is not own and rank[n] == here:
                    other += own
                    of.update((o.name, other) for o in own)
                    own = other
            maker.update((n, op.name) for n in op.outputs)
        elif costs_of(graph)[op.name].kind == "view":
            maker.update((n, maker[op.inputs[0]]) for n in op.outputs if op.inputs and op.inputs[0] in maker)
        elif costs_of(graph)[op.name].kind != "none":
            here += 1
        rank.update((n, here) for n in op.outputs)
    distinct = {id(group): group for group in of.values()}
    return [tuple(sorted(group, key=lambda o: graph.order[o.name])) for group in distinct.values() if len(group) > 1]
