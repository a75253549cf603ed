"""The class of a workload, by rule from its op graph, and the depth from which its profile is shown.

The classes and depths are the study's (arXiv 2604.01489), except `other`. The rule is ours: products and convolutions
first, because they dominate the time where there are any; then losses; then reductions; then element-wise work.
"""

from __future__ import annotations

from dataclasses import dataclass

from sol.cost.cost import Cost, canonical
from sol.cost.graph_costs import costs_of
from sol.graph import Op, OpGraph

# Class -> the first depth whose prompt holds a profile.
REVEAL = {"product": 6, "convolution": 6, "reduction": 5, "loss": 3, "activation": 2, "other": 5}
TITLES = {
    "product": "product", "convolution": "convolution", "reduction": "reduction or norm", "loss": "loss",
    "activation": "activation", "other": "other",
}  # fmt: skip
_MATRIX = {"matrix": "product", "attention": "product", "conv": "convolution"}
_REDUCING = ("reduction", "norm", "pool")
_LOSSES = ("kl_div", "binary_cross_entropy", "cosine_similarity", "pairwise_distance")
MOST_NAMES = 4


@dataclass(frozen=True)
class Workload:
    """`cls`: a key of REVEAL; `why`: one sentence."""

    cls: str
    why: str


def workload(graph: OpGraph) -> Workload:
    """The class of a graph. Operations that no output depends on do not count."""
    costs = costs_of(graph)
    ops = [(op, costs[op.name]) for op in graph.live]
    flops = {"product": 0.0, "convolution": 0.0}
    for _, cost in ops:
        if cost.kind in _MATRIX:
            flops[_MATRIX[cost.kind]] += cost.must
    if any(flops.values()):
        cls = max(flops, key=lambda name: flops[name])
        names = _names(op for op, cost in ops if _MATRIX.get(cost.kind) == cls)
        share = 100 * flops[cls] / sum(flops.values())
        return Workload(cls, f"{names}: {share:.0f}% of the {_scaled(sum(flops.values()))} in products.")
    reducing = [op for op, cost in ops if cost.kind in _REDUCING]
    if losses := [op for op, cost in ops if _is_loss(op, cost)]:
        return Workload("loss", f"{_names(losses)}: a loss function, and no product.")
    scalar = all(graph.tensors[name].elements == 1 for name in graph.outputs)
    if reducing and scalar and len(graph.inputs) > 1:
        return Workload("loss", f"{_names(reducing)}: several inputs are reduced to one number, without a product.")
    if reducing:
        return Workload("reduction", f"{_names(reducing)}: values are reduced, and there is no product.")
    if pointwise := [op for op, cost in ops if cost.kind == "pointwise"]:
        return Workload("activation", f"{_names(pointwise)}: each result depends on one element of each input.")
    return Workload("other", f"{_names(op for op, _ in ops) or 'no operation'}: none of the rules applies.")


def _is_loss(op: Op, cost: Cost) -> bool:
    name = canonical(op.op)
    return cost.kind == "reduction" and ("loss" in name or name.startswith(_LOSSES))


def _names(ops) -> str:
    """The operations' names, each once, in order."""
    names = list(dict.fromkeys(canonical(op.op) for op in ops))
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def _scaled(flops: float) -> str:
    size, unit = next(((s, u) for s, u in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")) if flops >= s), (1, "FLOP"))
    return f"{flops / size:.3g} {unit}"
