"""A module's graph, its planner in each class, and the trials that come next.

A trial that is still to be built has no result, and the planner's next word depends on it only where it refines; so
the next few are asked for as if each failed, and built at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.bench.judge import counts
from engine.devices import Problem, SessionRefused
from engine.strategies import Finished, Proposal, State
from engine.strategies.planner import Planner
from sol.bounds import t_sol
from sol.graph import OpGraph
from sol.hardware import Hardware


@dataclass
class Plan:
    """One module. `refused`: why the planner cannot work on it at all; `left_out`: class -> why."""

    module: str
    graph: OpGraph
    planners: dict[str, Planner] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    left_out: dict[str, str] = field(default_factory=dict)


def plan(module: str, graph: OpGraph, classes: tuple[str, ...], hw: Hardware) -> Plan:
    """A planner a class, so that each has its own trials. The limits are there for what is refused, too."""
    made = Plan(module, graph)
    for cls in classes:
        made.limits[cls] = t_sol(graph, hw, cls)
        try:
            planner = Planner(Problem("", "module", graph), (cls,), hw, "predicted")
        except SessionRefused as e:
            made.left_out[cls] = e.reason
            continue
        own = planner.classes[0]  # a half-precision module stands in its own class alone
        made.planners[own] = planner
        made.limits[own] = t_sol(graph, hw, own)
    if not made.planners:
        made.refused = "; ".join(dict.fromkeys(made.left_out.values()))
    return made


def finished(rows: list[dict]) -> tuple[Finished, ...]:
    """Trials of the results file as the planner reads them."""
    return tuple(
        Finished(i + 1, r["text"], r["class"], r["backend"], ms=r.get("ms") if r["ok"] else None,
                 clean=counts(r) or "ms" not in r, failed="" if r["ok"] else r.get("failed", "measure"))
        for i, r in enumerate(rows)
    )  # fmt: skip


def ahead(planner: Planner, rows: list[dict], many: int) -> list[Proposal]:
    """The next `many` proposals after these trials, none of which is waited for."""
    trials = list(finished(rows))
    found: list[Proposal] = []
    while len(found) < many:
        proposal = planner.next(State(tuple(trials), len(trials) + many))
        if proposal is None:
            break
        found.append(proposal)
        trials.append(Finished(len(trials) + 1, proposal.text, proposal.cls, proposal.backend, failed="not built yet"))
    return found


def places(planner: Planner, text: str) -> dict[str, int | str]:
    """Where a program's parameters come from: the number of an input, or a path in the module's state."""
    graph_inputs = list(planner.graph.inputs)
    bound, _ = planner.bind(text)
    found: dict[str, int | str] = {}
    for b in bound:
        t = planner.graph.tensors[b.tensor]
        found[b.name] = graph_inputs.index(b.tensor) if b.tensor in graph_inputs else t.path
    return found
