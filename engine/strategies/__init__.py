"""A strategy decides which trial comes next; everything else (trial, budget, checks, events) all of them share.

A strategy is a pure function of the problem, the finished trials and the seed: asked again after a lost engine it
gives the same answer, so a session goes on where its log ends and keeps no other state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from engine.devices import Binding, Problem
from engine.session.events import Noted
from engine.session.spec import STRATEGIES
from sol.hardware import Hardware

NAMES = STRATEGIES
WORTH = 0.97  # of the baseline: a first program that slows the module down more than this does not stand


@dataclass(frozen=True)
class Proposal:
    """One trial to make: a program's text and why. `change`: one line, what differs from its parent; `structure` and
    `settings` as in engine.session.events.TrialProposed."""

    text: str
    cls: str
    backend: str
    change: str
    why: str
    parent: int | None = None
    predicted_ms: float | None = None
    by: str = "strategy"  # strategy | owner
    structure: str = ""
    settings: str = ""


@dataclass(frozen=True)
class Finished:
    """A trial that ended. `ms` is None when it failed; `by`: strategy | owner; `clean`: judged without a flag.

    Of a module with regions: `region` the one that the program stands for (0: the whole module), `region_ms` the time
    of the program alone; `ms` and `speedup` (over the baseline) are always of the whole module.
    """

    number: int
    text: str
    cls: str
    backend: str
    by: str = "strategy"
    ms: float | None = None
    clean: bool = True
    failed: str = ""  # the step it failed at
    region: int = 0
    region_ms: float | None = None
    speedup: float | None = None
    tripped: bool = False  # a guarded program whose f32 pipeline is what was timed

    @property
    def part(self) -> float:
        """Milliseconds of the program alone; infinite where it failed."""
        ms = self.ms if self.region_ms is None else self.region_ms
        return float("inf") if ms is None else ms


@dataclass(frozen=True)
class State:
    """What `next` may look at. `closed`: classes whose budget is spent, with the reason in words; `quick`: program ->
    milliseconds of a quick timing (None: it did not run), a hint for the order and nothing that is shown."""

    trials: tuple[Finished, ...] = ()
    budget: int = 12
    closed: dict[str, str] = field(default_factory=dict)
    quick: dict[str, float | None] = field(default_factory=dict)

    def of(self, cls: str) -> list[Finished]:
        return [t for t in self.trials if t.cls == cls]

    def best(self, cls: str, region: int = 0) -> Finished | None:
        """The fastest right one; of a region, by the time of its program alone."""
        timed = [t for t in self.of(cls) if t.ms is not None and t.clean and (not region or t.region == region)]
        if not timed:
            return None
        return min(timed, key=lambda t: (t.part if region else t.ms, t.number))

    def standing(self, cls: str) -> dict[int, Finished]:
        """The programs that stand in the module while another region's are tried: region -> its trial. A program is
        taken up when the module as a whole became faster with it than it was before."""
        held: dict[int, Finished] = {}
        best = WORTH
        for t in self.of(cls):
            if t.region and t.ms is not None and t.clean and t.speedup is not None and t.speedup > best:
                held[t.region], best = t, t.speedup
        return held


class Strategy(Protocol):
    """`classes`: the precision classes that it works in; `notes`: what a person should know, e.g. a class left out.

    `bind` says which tensors a program's parameters are.
    """

    classes: list[str]
    notes: list[Noted]

    def next(self, state: State) -> Proposal | None:
        """The next trial, or None when nothing is left to try."""

    def upcoming(self, state: State) -> list[Proposal]:
        """Trials that probably come soon, to be built ahead; the nearest first."""

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of a program (the owner's own too) as tensors of the graph.

        Raises TrialError("check", ...) when its signature does not fit the problem.
        """

    def region(self, text: str) -> int:
        """The part of the module that a program stands for, from 1; 0: the whole module."""

    def ops(self, region: int) -> tuple[str, ...]:
        """The operations of the module's graph that a region is made of."""

    def algebraic(self, text: str, cls: str) -> Any:
        """What a program leaves out of the work that the module asks for ({words, limits}), or None."""

    def screen(self, state: State) -> list[Proposal]:
        """What should be timed quickly before the next trial; [] where nothing."""


def load(name: str) -> Callable[..., Strategy]:
    """The factory of a strategy: (problem, classes, hardware, device_kind, seed) -> Strategy. Raises KeyError.

    The factory raises SessionRefused when the problem is beyond the strategy.
    """
    if name not in NAMES:
        raise KeyError(name)
    return import_module(f"engine.strategies.{name}.planner").Planner


__all__ = ["NAMES", "Finished", "Hardware", "Problem", "Proposal", "State", "Strategy", "load"]
