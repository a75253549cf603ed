"""The candidates of a rehearsal: what the planner would try on a text, in its order, with predicted times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.devices import Problem, SessionRefused
from engine.strategies.planner.memory import Memory
from engine.strategies.planner.planner import Planner
from engine.strategies.problem import Prepared
from engine.strategies.state import Finished, State
from sol.graph import OpGraph
from sol.hardware import Hardware, available, load

SIZE = 24  # candidates drawn from
NO_BASELINE = 1.0  # ms; the planner only compares times


@dataclass(frozen=True)
class Drawn:
    """One candidate. `change`: the planner's words for it; `ms`: predicted, None if the planner predicts none."""

    text: str
    cls: str
    change: str
    why: str
    ms: float | None


def hardware_of(title: str) -> Hardware:
    """The device with this title; the H200 if there is none."""
    for name in available():
        hardware = load(name)
        if hardware.title == title:
            return hardware
    return load("h200")


@lru_cache(maxsize=16)
def prepared(source: str, kind: str, classes: tuple[str, ...], title: str) -> Prepared:
    """The problem of a text on the device with this title. Raises SessionRefused."""
    return Prepared(Problem(source, kind, _graph(source, kind)), classes, hardware_of(title))


@lru_cache(maxsize=16)
def pool(source: str, kind: str, classes: tuple[str, ...], title: str) -> tuple[Drawn, ...]:
    """The planner's first candidates, each counted as if it took its predicted time. () if the text cannot be traced or
    no part of it is a program of the language."""
    try:
        problem = prepared(source, kind, classes, title)
    except SessionRefused:
        return ()
    if not problem.parts:
        return ()
    planner, trials, drawn = Planner(problem, Memory()), [], []
    while len(drawn) < SIZE:
        verb = planner.next(State(tuple(trials), budget=SIZE))
        if verb is None:
            break
        number, c, ms = len(trials) + 1, verb.candidate, verb.predicted_ms
        region = problem.region(c.text)
        speedup = NO_BASELINE / ms if ms else None
        trials.append(
            Finished(number, c.text, c.cls, c.backend, ms=ms, region=region, region_ms=ms if region else None,
                     speedup=speedup, kind="predicted")
        )  # fmt: skip
        drawn.append(Drawn(c.text, c.cls, verb.change, verb.why, ms))
    return tuple(drawn)


def _graph(source: str, kind: str) -> OpGraph:
    from engine.strategies.planner.lowering import program_graph

    if kind == "program":
        from dsl.check.program import check

        checked = check(source)
        if checked.program is None:
            raise SessionRefused("bad_program", "the program does not pass its checks")
        return program_graph.graph_of(checked.program)
    from engine.trace import trace

    return trace(source, local_user=True).graph
