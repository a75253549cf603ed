"""What stays PyTorch beside programs, as runs of operations that a compiler can make fewer kernels of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sol.cost.graph_costs import costs_of
from sol.graph import Op, OpGraph

FREE = ("view", "none")  # kinds of operations that start no kernel
LIBRARY = ("matrix", "conv", "attention")  # those whose kernels a compiler takes from a library as well


def runs(graph: OpGraph, groups: Iterable[Collection[str]]) -> list[tuple[Op, ...]]:
    """The operations of no group, as they follow each other in `graph.steps(groups)`. Left out are runs from which a
    compiler gains nothing: those with fewer than two kernels, and those of library kernels alone."""
    rows: list[list[Op]] = [[]]
    for at, ops in graph.steps(groups):
        if at is None:
            rows[-1] += ops
        elif rows[-1]:
            rows.append([])
    return [tuple(run) for run in rows if _gains(graph, run)]


def _gains(graph: OpGraph, run: list[Op]) -> bool:
    kinds = [kind for op in run if (kind := costs_of(graph)[op.name].kind) not in FREE]
    return len(kinds) > 1 and any(kind not in LIBRARY for kind in kinds)


__all__ = ["runs"]
