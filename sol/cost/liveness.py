"""Which tensors a module holds while it runs: when each is made, when it is read last, and where most are held.

PyTorch frees an intermediate tensor after its last reader; inputs, parameters and outputs stay. A view holds the
memory of what it looks at, so a tensor lives as long as its last view does. What fusing saves in memory is the
difference between this and the external tensors alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sol.cost.graph_costs import costs_of
from sol.graph import OpGraph


@dataclass(frozen=True)
class Liveness:
    """`spans`: tensor that owns memory -> (place of the op that makes it, place of the last op that needs it);
    externals begin at -1. `held_bytes`: externals alone; `peak_bytes`: the most at once, while `peak_op` runs."""

    spans: dict[str, tuple[int, int]]
    held_bytes: int
    peak_bytes: int
    peak_op: str


def liveness(graph: OpGraph) -> Liveness:
    """Of the ops that some output needs, in the module's order. Never fails on a graph."""
    owner: dict[str, str] = {}  # tensor -> the one whose memory it is
    spans: dict[str, tuple[int, int]] = {}
    last = len(graph.ops)
    for name, t in graph.tensors.items():
        if name not in graph.producer and t.kind != "intermediate":
            spans[name] = (-1, last)
    for op in graph.live:
        place = graph.order[op.name]
        view = costs_of(graph)[op.name].kind == "view" and bool(op.inputs)
        for out in op.outputs:
            if view:
                owner[out] = owner.get(op.inputs[0], op.inputs[0])
            else:
                spans[out] = (place, place)
        for name in op.inputs:
            base = owner.get(name, name)
            if base in spans:
                first, until = spans[base]
                spans[base] = (first, max(until, place))
    for name in graph.outputs:
        base = owner.get(name, name)
        if base in spans:
            spans[base] = (spans[base][0], last)
    held = sum(graph.tensors[n].bytes for n, (first, _) in spans.items() if first < 0)
    change = [0] * (last + 2)
    for name, (first, until) in spans.items():
        if first >= 0:
            change[first] += graph.tensors[name].bytes
            change[until + 1] -= graph.tensors[name].bytes
    most, at, now = held, "", held
    for op in graph.ops:
        now += change[graph.order[op.name]]
        if now > most:
            most, at = now, op.name
    return Liveness(spans, held, most, at)
