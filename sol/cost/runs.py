"""What stays PyTorch beside programs, as runs of operations that a compiler can make fewer kernels of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sol.cost.graph_costs import costs_of
from sol.graph import Op, OpGraph

FREE = ("view", "none")  # kinds of operations that start no kernel
LIBRARY = ("matrix", "conv", "attention")  # those whose kernels a compiler takes from a library as well
Names = tuple[Collection[str], Collection[str]]  # (reads, makes) of one step


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


def border(
    run: Iterable[Names], others: Iterable[Names], results: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what a run reads from outside, what of it somebody needs outside), both in order. `others`: the steps that do
    not belong to it; `results`: what outlives all steps."""
    run = list(run)
    inside = [n for _, makes in run for n in makes]
    needed = {*results, *(n for reads, _ in others for n in reads)}
    reads = dict.fromkeys(n for reads, _ in run for n in reads if n not in inside)
    return tuple(reads), tuple(n for n in inside if n in needed)


def _gains(graph: OpGraph, run: list[Op]) -> bool:
    kinds = [kind for op in run if (kind := costs_of(graph)[op.name].kind) not in FREE]
    return len(kinds) > 1 and any(kind not in LIBRARY for kind in kinds)


__all__ = ["border", "runs"]
