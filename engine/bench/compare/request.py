"""What is compared: arms (a strategy with options) on problems, at skills and seeds, with one budget for each session.

An evaluation is a trial, whatever it came to, or a candidate that was screened on the device. A tuner's and a tree's
trials and screens count as those of any strategy. `trials` of a request is the budget of evaluations of one session,
`tokens` that of model tokens, in and out. With an `order`, both budgets are added up over the problems, and all
sessions of an arm, skill and seed spend from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.bench.compare.arguments import DEFAULT_PROBLEMS, ORDERS
from engine.session.spec import MAX_SEED, BadSpec, SessionSpec
from engine.strategies import registry
from engine.suite.cases import PROBLEMS

# Options that limit a strategy's own attempts. They get the budget, so that a default ends no session before it.
OWN_LIMITS = {"flat": "attempts", "best_of": "n", "chain": "attempts"}
WHOLE = re.compile(r"-?[0-9]{1,18}")  # any other value of an option stays a text, whose mistake its option names


class BadRequest(ValueError):
    """A comparison that cannot run: one sentence with the way out."""


@dataclass(frozen=True)
class Arm:
    """`options`: of the strategy; `memory`: the name of an earlier arm, whose lessons on the other problems (same skill
    and seed) are this arm's memory."""

    name: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    memory: str = ""

    @property
    def asks(self) -> bool:
        return registry.available()[self.strategy].asks

    @property
    def writes_kernels(self) -> bool:
        """Return True if its proposals are raw kernels also on a modelled device, which knows no time of them."""
        form = registry.available()[self.strategy].Options.model_fields.get("form")
        return form is not None and self.options.get("form", form.default) == "kernel"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "strategy": self.strategy, "options": dict(self.options), "memory": self.memory}


def arm(text: str) -> Arm:
    """`mucutlass:iterations=2:analyze=false` as an arm of that name. Raises BadRequest."""
    name, *options = text.split(":")
    known = [each for each, strategy in registry.available().items() if strategy.by_hand]
    if name not in known:
        raise BadRequest(f"there is no strategy {name!r}; the strategies are {', '.join(known)}")
    if registry.available()[name].receives:
        raise BadRequest(f"the strategy {name} waits for candidates from outside, so it cannot be compared")
    pairs = [option.partition("=") for option in options]
    if wrong := [option for option, equals, _ in pairs if not equals]:
        raise BadRequest(f"write {name}:OPTION=VALUE, and not {name}:{wrong[0]}")
    names = [option for option, _, _ in pairs]
    if twice := next((option for option in names if names.count(option) > 1), None):
        raise BadRequest(f"{text}: the option {twice} stands there twice; write it once")
    return Arm(text, name, {option: _value(value) for option, _, value in pairs})


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if WHOLE.fullmatch(text) else text


@dataclass(frozen=True)
class Cell:
    """One session. `skill`: of the rehearsal; None for an arm without a model, and with a real one."""

    arm: str
    problem: str
    skill: float | None
    seed: int

    @property
    def key(self) -> str:
        return f"{self.arm} | {self.problem} | {'-' if self.skill is None else f'{self.skill:g}'} | {self.seed}"


@dataclass(frozen=True)
class Request:
    """`rehearsed`: the rehearsal answers, with `skills`; else the model of the environment. `folder`: of the problems'
    modules. `texts`: problems that are no file there."""

    arms: tuple[Arm, ...]
    problems: tuple[str, ...] = DEFAULT_PROBLEMS
    skills: tuple[float, ...] = (0.7,)
    seeds: tuple[int, ...] = (0,)
    cls: str = "f16"
    device: str = "modelled:h200"
    trials: int = 12
    tokens: int = 400_000
    eps: float = 0.0
    window: int = 0
    order: str = "each"
    rehearsed: bool = True
    folder: Path = PROBLEMS

    def __post_init__(self) -> None:
        names = [a.name for a in self.arms]
        if not self.arms or len(set(names)) != len(names):
            raise BadRequest("name at least one strategy, and each arm once: --strategies planner,flat")
        if self.order not in ORDERS:
            raise BadRequest(f"--order takes {', '.join(ORDERS)}, not {self.order!r}")
        self._check_numbers()
        known = {path.stem for path in self.folder.glob("*.py")}  # a path to another module would name another row
        if missing := [p for p in self.problems if p not in known]:
            raise BadRequest(f"there is no problem {missing[0]!r}; `python -m engine problems` lists them")
        for a in self.arms:
            if a.memory and a.memory not in names[: names.index(a.name)]:
                raise BadRequest(f"the arm {a.name} takes its memory from {a.memory!r}, which is no earlier arm")
            try:
                self.spec(Cell(a.name, self.problems[0], None, 0))
            except BadSpec as e:
                raise BadRequest(f"{a.name}: {e}") from None

    def _check_numbers(self) -> None:
        """Raises BadRequest for budgets, skills, seeds and problems with which nothing could be compared."""
        for name, number, least in (("trials", self.trials, 1), ("tokens", self.tokens, 1), ("window", self.window, 0)):
            if number < least:
                raise BadRequest(f"--{name} {number} is too small; write a whole number from {least}")
        for name, values in (("--skills", self.skills), ("--seeds", self.seeds), ("problems", self.problems)):
            if not values or len(set(values)) != len(values):
                raise BadRequest(f"{name}: name at least one, and each once")
        if wrong := [s for s in self.skills if not 0 <= s <= 1]:
            raise BadRequest(f"--skills {wrong[0]:g} is no share; write numbers from 0 to 1")
        if wrong := [s for s in self.seeds if not 0 <= s <= MAX_SEED]:
            raise BadRequest(f"--seeds {wrong[0]} is no seed; write whole numbers from 0 to {MAX_SEED}")

    def arm(self, name: str) -> Arm:
        return next(a for a in self.arms if a.name == name)

    def skills_of(self, a: Arm) -> Sequence[float | None]:
        return self.skills if a.asks and self.rehearsed else (None,)

    def cells(self) -> Iterator[Cell]:
        """Every session, those of one problem together; an arm comes after the one that it takes its memory from."""
        for with_memory in (False, True):
            for problem in self.problems:
                for a in self.arms:
                    if bool(a.memory) == with_memory:
                        yield from (Cell(a.name, problem, s, seed) for s in self.skills_of(a) for seed in self.seeds)

    def units(self) -> list[list[Cell]]:
        """The cells that are played together: one each, or with an order all problems of an arm, skill and seed."""
        if self.order == "each":
            return [[cell] for cell in self.cells()]
        units: dict[tuple, list[Cell]] = {}
        for cell in self.cells():
            units.setdefault((cell.arm, cell.skill, cell.seed), []).append(cell)
        return list(units.values())

    def spec(self, cell: Cell) -> SessionSpec:
        """The session of a cell. Raises BadSpec."""
        a = self.arm(cell.arm)
        options, most = dict(a.options), self.most_trials
        if (limit := OWN_LIMITS.get(a.strategy)) is not None and limit not in options:
            schema = registry.available()[a.strategy].Options.model_json_schema()["properties"][limit]
            wanted = self.trials if a.strategy == "best_of" else most  # it asks for all of its drafts at once
            options[limit] = min(wanted, schema.get("maximum", wanted))
        return SessionSpec(
            title=f"{cell.problem}, {cell.arm}", source=(self.folder / f"{cell.problem}.py").read_text("utf-8"),
            strategy=a.strategy, options=options, device=self.device, classes=(self.cls,), trials=most, eps=self.eps,
            window=self.window or most, seed=cell.seed,
        )  # fmt: skip

    @property
    def most_trials(self) -> int:
        """Evaluations that one session can get: with an order, up to four times its share of the common budget."""
        return self.trials if self.order == "each" else min(1000, 4 * self.trials, self.trials * len(self.problems))

    @property
    def settings(self) -> dict[str, Any]:
        """As JSON values; `of_settings` reads them."""
        return {
            "arms": [a.to_json() for a in self.arms], "problems": list(self.problems), "skills": list(self.skills),
            "seeds": list(self.seeds), "class": self.cls, "device": self.device, "trials": self.trials,
            "tokens": self.tokens, "eps": self.eps, "window": self.window, "order": self.order,
            "rehearsed": self.rehearsed,
        }  # fmt: skip


def of_settings(settings: Mapping[str, Any], folder: Path = PROBLEMS) -> Request:
    """Raises BadRequest."""
    s = dict(settings)
    arms = tuple(Arm(**a) for a in s.pop("arms"))
    cls = s.pop("class")
    return Request(arms, cls=cls, folder=folder, **{n: tuple(v) if isinstance(v, list) else v for n, v in s.items()})
