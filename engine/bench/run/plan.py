"""A module's graph, its planner in each class, and the trials that come next.

A trial that is still to be built has no result, and the planner's next word depends on it only where it refines; so
the next few are asked for as if each failed, and built at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.bench.run.judge import counts
from engine.devices import Problem, SessionRefused
from engine.strategies.api import Finished, State, Try
from engine.strategies.planner import memory
from engine.strategies.planner.planner import Planner
from engine.strategies.problem import prepare
from sol.bounds import t_sol
from sol.graph import OpGraph
from sol.hardware import Hardware


@dataclass
class Plan:
    """One module. `refused`: why the planner cannot work on it at all; `left_out`: class -> why.

    Of a module that is no single program: `parts`, its regions as {number, ops, lines, share, words, graph};
    `uncovered`, what stays PyTorch as {op, line, reason}; `words`, both in a sentence. It has no planners then: its
    parts do.
    """

    module: str
    graph: OpGraph
    planners: dict[str, Planner] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    parts: list[dict] = field(default_factory=list)
    uncovered: list[dict] = field(default_factory=list)
    words: str = ""


def plan(module: str, graph: OpGraph, classes: tuple[str, ...], hw: Hardware, pid: str = "") -> Plan:
    """A planner a class, so that each has its own trials. The limits are there for what is refused, too.

    It begins from what won on similar problems (engine.strategies.planner.memory), never from what this one's own
    searches found before (`pid`: its id), or a bench would count fewer trials than a stranger's module takes. For the
    same reason it knows what the repository holds and nothing that sessions on this machine found, on this module or
    its like.
    """
    made, remembered = Plan(module, graph), memory.committed(hw.name, hw.sms).without(pid)
    for cls in classes:
        made.limits[cls] = t_sol(graph, hw, cls)
        try:
            planner = Planner(prepare(Problem("", "module", graph), (cls,), hw), remembered)
        except SessionRefused as e:
            made.left_out[cls] = e.reason
            continue
        if _in_parts(made, planner):
            continue
        own = planner.problem.classes[0]  # a half-precision module stands in its own class alone
        made.planners[own] = planner
        made.limits[own] = t_sol(graph, hw, own)
    if "tf32" in made.limits:  # what a guarded program of class tf32 is held to
        made.limits.setdefault("f16", t_sol(graph, hw, "f16"))
    if not made.planners and not made.parts:
        made.refused = "; ".join(dict.fromkeys(made.left_out.values()))
    return made


def _in_parts(made: Plan, planner: Planner) -> bool:
    """Whether the module is cut into regions; the first class's cut is that of all."""
    cut = planner.problem.partition
    if cut is None or cut.whole:
        return False
    if not made.parts:
        graphs = {r.number: r.graph for r in cut.regions}
        made.parts = [
            {"number": r.number, "ops": list(r.ops), "lines": list(r.lines), "share": r.share, "words": r.words,
             "graph": graphs[r.number]}
            for r in planner.problem.regions
        ]  # fmt: skip
        made.uncovered = [{"op": u.op, "line": u.line, "reason": u.reason} for u in planner.problem.uncovered]
        made.words = planner.problem.covered.text if planner.problem.covered is not None else ""
    return True


def finished(rows: list[dict]) -> tuple[Finished, ...]:
    """Trials of the results file as the planner reads them."""
    return tuple(
        Finished(i + 1, r["text"], r["class"], r["backend"], ms=r.get("ms") if r["ok"] else None,
                 clean="ms" not in r or (counts(r) and not r.get("algebraic")),
                 failed="" if r["ok"] else r.get("failed", "measure"))
        for i, r in enumerate(rows)
    )  # fmt: skip


def ahead(planner: Planner, rows: list[dict], many: int) -> list[Try]:
    """The next `many` proposals after these trials, none of which is waited for."""
    trials = list(finished(rows))
    found: list[Try] = []
    while len(found) < many:
        proposal = planner.next(State(tuple(trials), len(trials) + many))
        if proposal is None:
            break
        found.append(proposal)
        trials.append(Finished(len(trials) + 1, proposal.text, proposal.cls, proposal.backend, failed="not built yet"))
    return found


def places(planner: Planner, text: str) -> dict[str, int | str]:
    """Where a program's parameters come from: the number of an input, or a path in the module's state."""
    graph_inputs = list(planner.problem.graph.inputs)
    bound, _ = planner.problem.bind(text)
    found: dict[str, int | str] = {}
    for b in bound:
        t = planner.problem.graph.tensors[b.tensor]
        found[b.name] = graph_inputs.index(b.tensor) if b.tensor in graph_inputs else t.path
    return found
