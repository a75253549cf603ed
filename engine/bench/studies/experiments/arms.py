"""The experiments with the rehearsal, as data. An arm whose strategy this version lacks is left out, and the results
say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.bench.compare.request import Arm
from engine.strategies import registry
from engine.strategies.api import Options

TRIALS = 12  # evaluations of a session
_PHASES = {"iterations": 6, "hypotheses": 2, "attempts": 2}  # twice TRIALS: a hypothesis may need one attempt
_WITHOUT = "without memory"


@dataclass(frozen=True)
class Experiment:
    """`shows`, `shows_not`: a sentence or two each; `seeds`: those that the experiment needs."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    shows: str
    shows_not: str
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    skills: tuple[float, ...] = (0.5, 0.7, 1.0)

    def present(self) -> tuple[Arm, ...]:
        """The arms that this version can play."""
        return tuple(arm for arm in self.arms if not missing(arm))

    def absent(self) -> dict[str, str]:
        """Arm -> why it cannot be played."""
        return {arm.name: why for arm in self.arms if (why := missing(arm))}


def missing(arm: Arm) -> str:
    """Why this version cannot play an arm, or ""."""
    strategy = registry.available().get(arm.strategy)
    if strategy is None:
        return f"there is no strategy {arm.strategy} in this version"
    try:
        strategy.Options(**arm.options)
    except ValueError as e:
        return f"{arm.strategy} does not take {_options(strategy.Options, arm.options)} ({type(e).__name__})"
    return ""


def _options(known: type[Options], options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _phase(name: str, memory: str = _WITHOUT, **options: Any) -> Arm:
    return Arm(name, "mucutlass", {**_PHASES, **options}, memory)


EXPERIMENTS = (
    Experiment(
        "phases",
        "The phases of the orchestrated search, each left out",
        (
            _phase(_WITHOUT, memory=""),
            _phase("all phases"),
            _phase("without analyze", analyze=False),
            _phase("without triage", triage=False),
            _phase("without summarize", summarize=False),
        ),
        "It shows whether triage by return on investment and the memory of other problems choose better among equal "
        "proposals than the order in which they were drawn.",
        "It cannot show what analysis or lessons are worth, because the rehearsal reads neither: those two arms differ "
        "by their tokens and by other draws alone.",
    ),
    Experiment(
        "drafts",
        "Independent drafts, a conversation and a tree at equal evaluations",
        (
            Arm("best of n", "best_of", {"n": TRIALS}),
            Arm("chain", "chain", {"attempts": TRIALS}),
            Arm("flat", "flat", {"attempts": TRIALS}),
            Arm("tree", "optiml", {}),
        ),
        "It shows what it is worth to see earlier candidates, or to choose which one to go on from, when a proposal is "
        "a draw without the candidates in its prompt.",
        "It cannot show whether a model writes a better candidate when it sees an earlier one, because the rehearsal "
        "only avoids repeating it.",
    ),
    Experiment(
        "template",
        "A template and a search of its parameters against direct rewriting",
        (Arm("two stages", "two_stage", {}), Arm("direct rewriting", "flat", {"attempts": TRIALS})),
        "It shows, over five seeds with their spread, what a search of parameters inside the hardware's limits reaches "
        "with the same evaluations as rewriting.",
        "It cannot show how good a template a model would write, because the rehearsal takes it from the planner.",
    ),
    Experiment(
        "profile",
        "The profile shown never, late or always",
        tuple(
            Arm(f"profile {when}", "cutegen", {"form": "program", "profile": when})
            for when in ("never", "late", "always")
        ),
        "It shows what the strategy itself derives from the moment of the profile (tokens, order of the menu), at "
        "equal evaluations. A session tries a first kernel and ten depths, so one whose candidates all pass at once "
        "ends after 11 of its 12 evaluations, and the mean lies below 12.",
        "It cannot show what a model would learn from a profile, because the rehearsal does not read it.",
    ),
)
