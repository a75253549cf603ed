"""A strategy decides which trial comes next; everything else (trial, budget, checks, events) all of them share.

A strategy is a pure function of the problem, the finished trials and the seed: asked again after a lost engine it
gives the same answer, so a session goes on where its log ends and keeps no other state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from engine.devices import Binding, Problem
from engine.spec import STRATEGIES
from sol.hardware import Hardware

NAMES = STRATEGIES


@dataclass(frozen=True)
class Proposal:
    """One trial to make: a program's text and why. `change`: one line, what differs from its parent."""

    text: str
    cls: str
    backend: str
    change: str
    why: str
    parent: int | None = None
    predicted_ms: float | None = None
    by: str = "strategy"  # strategy | owner


@dataclass(frozen=True)
class Finished:
    """A trial that ended. `ms` is None when it failed; `by`: strategy | owner; `clean`: judged without a flag."""

    number: int
    text: str
    cls: str
    backend: str
    by: str = "strategy"
    ms: float | None = None
    clean: bool = True
    failed: str = ""  # the step it failed at


@dataclass(frozen=True)
class State:
    """What `next` may look at. `closed`: classes whose budget is spent, with the reason in words."""

    trials: tuple[Finished, ...] = ()
    budget: int = 12
    closed: dict[str, str] = field(default_factory=dict)

    def of(self, cls: str) -> list[Finished]:
        return [t for t in self.trials if t.cls == cls]

    def best(self, cls: str) -> Finished | None:
        timed = [t for t in self.of(cls) if t.ms is not None and t.clean]
        return min(timed, key=lambda t: (t.ms, t.number)) if timed else None


class Strategy(Protocol):
    """`classes`: the precision classes that it works in; `notes`: what a person should know, e.g. a class left out.

    `bind` says which tensors a program's parameters are.
    """

    classes: list[str]
    notes: list[str]

    def next(self, state: State) -> Proposal | None:
        """The next trial, or None when nothing is left to try."""

    def upcoming(self, state: State) -> list[Proposal]:
        """Trials that probably come soon, to be built ahead; the nearest first."""

    def bind(self, text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Parameters and results of a program (the owner's own too) as tensors of the graph.

        Raises TrialError("check", ...) when its signature does not fit the problem.
        """


def load(name: str) -> Callable[..., Strategy]:
    """The factory of a strategy: (problem, classes, hardware, device_kind, seed) -> Strategy. Raises KeyError.

    The factory raises SessionRefused when the problem is beyond the strategy.
    """
    if name not in NAMES:
        raise KeyError(name)
    return import_module(f"engine.strategies.{name}").Planner


__all__ = ["NAMES", "Finished", "Hardware", "Problem", "Proposal", "State", "Strategy", "load"]
