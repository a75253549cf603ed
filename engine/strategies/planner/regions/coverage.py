"""The coverage of a module: its regions and its rest, with their shares of the work, for people and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.session import events
from engine.strategies.planner.regions.partition import Partition, Uncovered
from sol.bounds import of_cost, t_sol
from sol.cost.graph_costs import costs_of
from sol.graph import OpGraph
from sol.hardware import Hardware


@dataclass(frozen=True)
class Covered:
    """A region: its operations, the module's tensors that it reads and writes, its lines in the pasted text, its limit
    in ms by class, and its share of the module ({flops, bytes, time}, each 0 to 1)."""

    number: int
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lines: tuple[int, ...]
    limits: dict[str, float]
    share: dict[str, float]
    words: str

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), **{k: list(getattr(self, k)) for k in ("ops", "inputs", "outputs", "lines")}}


def covered(partition: Partition, hw: Hardware, classes: Iterable[str]) -> tuple[Covered, ...]:
    """The regions with their limits in `classes`; the first class prices their shares of the time."""
    classes = list(classes)
    regions = []
    for r in partition.regions:
        limits = {cls: t_sol(r.graph, hw, cls) for cls in classes}
        names = list(dict.fromkeys(op.op for op in r.graph.ops))
        words = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        regions.append(
            Covered(
                r.number, r.ops, r.inputs, r.outputs, r.lines, limits,
                shares(partition.graph, r.ops, hw, classes[0]), words,
            )
        )  # fmt: skip
    return tuple(regions)


def shares(graph: OpGraph, ops: Iterable[str], hw: Hardware, cls: str) -> dict[str, float]:
    """The share of `ops` in the module's FLOPs, bytes and time at its limit (each operation by itself)."""
    every = _amounts(graph, hw, cls)
    inside = set(ops)
    own = [amounts for name, amounts in every.items() if name in inside]
    share = {}
    for i, name in enumerate(("flops", "bytes", "time")):
        total = sum(amounts[i] for amounts in every.values())
        share[name] = sum(amounts[i] for amounts in own) / total if total else 0.0
    return share


def _amounts(graph: OpGraph, hw: Hardware, cls: str) -> dict[str, tuple[float, float, float]]:
    """Operation -> (FLOPs, bytes, ms at its own limit), computed once for each graph."""
    key = f"amounts {hash(hw)} {cls}"
    if key not in graph.cache:
        costs = {op.name: costs_of(graph)[op.name] for op in graph.live}
        graph.cache[key] = {n: (c.flops, c.bytes, of_cost(c, hw, cls).ms) for n, c in costs.items()}
    return graph.cache[key]


def lines_of(uncovered: Iterable[Uncovered]) -> str:
    """`slice (line 21), cumsum (lines 7 and 9)`"""
    at: dict[str, list[int]] = {}
    for u in uncovered:
        at.setdefault(u.op, [])
        if u.line and u.line not in at[u.op]:
            at[u.op].append(u.line)
    parts = []
    for op, lines in at.items():
        if not lines:
            parts.append(op)
        elif len(lines) == 1:
            parts.append(f"{op} (line {lines[0]})")
        else:
            parts.append(f"{op} (lines {', '.join(map(str, lines[:-1]))} and {lines[-1]})")
    return ", ".join(parts)


def sentence(partition: Partition, hw: Hardware, cls: str) -> str:
    """What is covered and what is not, in one line; "" if one program is the whole module."""
    if partition.whole:
        return ""
    if not partition.regions:
        return f"No part is a program; all of the module stays PyTorch, for example {lines_of(partition.uncovered)}"
    inside = [name for r in partition.regions for name in r.ops]
    share = shares(partition.graph, inside, hw, cls)["time"]
    many = "1 region covers" if len(partition.regions) == 1 else f"{len(partition.regions)} regions cover"
    text = f"{many} {_percent(share, bool(partition.uncovered))} of the module's time at its limit"
    left = len(partition.uncovered)
    stay = f"{left} operation{'s stay' if left > 1 else ' stays'} PyTorch"
    return f"{text}; {stay}: {lines_of(partition.uncovered)}" if left else text


def event(partition: Partition, regions: Iterable[Covered], hw: Hardware, cls: str) -> events.Covered | None:
    """The event for the log; None if one program is the whole module."""
    if partition.whole:
        return None
    left = [u.name for u in partition.uncovered] if partition.regions else [op.name for op in partition.graph.ops]
    return events.Covered(
        [r.to_json() for r in regions], [vars(u) for u in partition.uncovered], shares(partition.graph, left, hw, cls),
        sentence(partition, hw, cls),
    )  # fmt: skip


def _percent(share: float, left: bool) -> str:
    """Never 100% while an operation is left out."""
    return "over 99.9%" if share > 0.999 and left else f"{share:.1%}" if share > 0.99 else f"{share:.0%}"


__all__ = ["Covered", "covered", "event", "lines_of", "sentence", "shares"]
