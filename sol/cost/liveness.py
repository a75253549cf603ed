"""Liveness of a module's tensors: when each is written, when it is read last, and the peak memory.

PyTorch frees an intermediate tensor after its last reader; inputs, parameters and outputs stay. A view keeps the
memory of its base alive, so a tensor lives as long as its last view. Fusion can save at most the difference between
the peak and the external tensors alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sol.cost.graph_costs import costs_of
from sol.graph import OpGraph


@dataclass(frozen=True)
class Liveness:
    """`spans`: tensor that owns memory -> (position of the op that writes it, position of the last op that needs it);
    externals begin at -1. `external_bytes`: externals alone; `peak_bytes`: the most at once, while `peak_op` runs."""

    spans: dict[str, tuple[int, int]]
    external_bytes: int
    peak_bytes: int
    peak_op: str


def liveness(graph: OpGraph) -> Liveness:
    """The liveness of the ops that some output needs, run in the module's order."""
    owner: dict[str, str] = {}  # tensor -> the tensor whose memory it views
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
    external = sum(graph.tensors[n].bytes for n, (first, _) in spans.items() if first < 0)
    change = [0] * (last + 2)
    for name, (first, until) in spans.items():
        if first >= 0:
            change[first] += graph.tensors[name].bytes
            change[until + 1] -= graph.tensors[name].bytes
    most, at, now = external, "", external
    for op in graph.ops:
        now += change[graph.order[op.name]]
        if now > most:
            most, at = now, op.name
    return Liveness(spans, external, most, at)
