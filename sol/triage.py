"""Which hypothesis to try next: return on investment, and a memory of what was predicted against what came.

    ROI = S^(1 + max(0, log10(g / 5))) / (R_impl * R_perf)

S is the predicted speedup, g the gap to the limit, R_impl and R_perf (from 1) the risks that it cannot be built and
that it does not bring what was predicted (design/sol.md, Steering; after the orchestrated steering of
arXiv 2603.29010). Far from the limit (g over 5) the exponent grows, so bold moves win; near it the safe ones do.

The risks are not guessed: `Memory` keeps every finished trial's action, prediction and outcome, over problems, and
reads R_impl from how often an action ran at all and R_perf from how much of the predicted gain it brought.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log, log10
from statistics import median

PRIOR = 2.0  # trials that an unknown action counts as having behind it, half of its promise kept
MOST_RISK = 10.0


def roi(speedup: float, gap: float, implementation: float = 1.0, performance: float = 1.0) -> float:
    """Return on investment of one hypothesis. `gap` from 1; risks from 1. Raises ValueError for what cannot be."""
    if speedup <= 0 or gap <= 0 or implementation < 1 or performance < 1:
        raise ValueError(
            f"speedup {speedup:g} and gap {gap:g} must be above 0, risks {implementation:g} and {performance:g} from 1"
        )
    return speedup ** (1 + max(0.0, log10(gap / 5))) / (implementation * performance)


@dataclass(frozen=True)
class Hypothesis:
    """One thing to try. `action`: a lever's (sol.levers); `speedup`: predicted, over the present best."""

    action: str
    title: str
    speedup: float


@dataclass(frozen=True)
class Outcome:
    """A finished try of an action. `predicted`, `observed`: speedup over what it started from; observed None: it was
    not built, was wrong or was flagged. `problem`: whose, for a person; `cls`: the precision class."""

    action: str
    predicted: float
    observed: float | None
    problem: str = ""
    cls: str = ""


@dataclass(frozen=True)
class Ranked:
    """A hypothesis after triage. `expected`: the speedup that the memory makes of the prediction."""

    hypothesis: Hypothesis
    roi: float
    implementation: float
    performance: float
    expected: float
    why: str


@dataclass
class Memory:
    """Outcomes by action, across problems and sessions; JSON lines on disk, one outcome a line.

    `fitted`: words of actions whose price was fitted to measurements of what they are now, after these outcomes: those
    tell whether such an action runs, by all that have the words, and no more what its promises are worth.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    fitted: tuple[str, ...] = ()

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def of(self, action: str) -> list[Outcome]:
        return [o for o in self.outcomes if o.action == action]

    def implementation_risk(self, action: str) -> float:
        """1 / share of tries that ran, with Laplace's rule: 1.33 for an action never tried, towards 1 as it works."""
        words = self._fitted(action)
        tried = [o for o in self.outcomes if words in o.action] if words else self.of(action)
        worked = sum(o.observed is not None for o in tried)
        return min(MOST_RISK, (len(tried) + 2 * PRIOR) / (worked + 1.5 * PRIOR))

    def _fitted(self, action: str) -> str:
        return next((words for words in self.fitted if words in action), "")

    def kept(self, action: str) -> float:
        """The share of a predicted gain (in logarithms) that came: 1 all of it, 0 nothing, below 0 it got slower.

        The median of what was seen, drawn towards one half while little was; all of it where the price is fitted.
        """
        if self._fitted(action):
            return 1.0
        shares = [
            log(o.observed) / log(o.predicted)
            for o in self.of(action)
            if o.observed is not None and o.predicted > 1.001 and o.observed > 0
        ]
        if not shares:
            return 0.5
        weight = len(shares) / (len(shares) + PRIOR)
        return weight * max(-1.0, min(1.5, median(shares))) + (1 - weight) * 0.5

    def performance_risk(self, action: str, predicted: float) -> float:
        """How many times too good the prediction was: predicted speedup over the one that the memory expects."""
        return min(MOST_RISK, max(1.0, predicted / self.expected(action, predicted)))

    def expected(self, action: str, predicted: float) -> float:
        """The speedup to expect of an action that promises `predicted`."""
        return exp(self.kept(action) * log(predicted)) if predicted > 0 else 0.0

    def to_lines(self) -> str:
        return "".join(json.dumps(asdict(o)) + "\n" for o in self.outcomes)

    @staticmethod
    def from_lines(text: str) -> Memory:
        """Raises ValueError that names the line which is no outcome."""
        found = Memory()
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                outcome = Outcome(**json.loads(line))
                if not outcome.predicted > 0 or not (outcome.observed is None or outcome.observed > 0):
                    raise ValueError("speedups must be above 0")
            except (TypeError, ValueError) as e:
                raise ValueError(f"memory, line {number}: not an outcome ({e})") from None
            found.add(outcome)
        return found


def triage(hypotheses: Iterable[Hypothesis], gap: float, memory: Memory | None = None) -> list[Ranked]:
    """The hypotheses with the best return first; equal returns in the given order."""
    memory = memory or Memory()
    ranked = []
    for h in hypotheses:
        build, perform = memory.implementation_risk(h.action), memory.performance_risk(h.action, h.speedup)
        seen = memory.of(h.action)
        ran = sum(o.observed is not None for o in seen)
        past = f"{ran} of {len(seen)} tries of it ran" if seen else "never tried before"
        expected = memory.expected(h.action, h.speedup)
        why = f"{past}; predicted {h.speedup:.2f}x, expected {expected:.2f}x at {gap:.2g} times the limit"
        ranked.append(Ranked(h, roi(h.speedup, max(gap, 1e-9), build, perform), build, perform, expected, why))
    return sorted(ranked, key=lambda r: -r.roi)


def summary(memory: Memory) -> list[dict[str, object]]:
    """One row an action: tries, ran, median predicted and observed speedup, share of the gain kept."""
    rows = []
    for action in dict.fromkeys(o.action for o in memory.outcomes):
        tried = memory.of(action)
        ran = [o for o in tried if o.observed is not None]
        rows.append(
            {
                "action": action,
                "tries": len(tried),
                "ran": len(ran),
                "predicted": _middle([o.predicted for o in tried]),
                "observed": _middle([o.observed for o in ran if o.observed is not None]),
                "kept": round(memory.kept(action), 3),
            }
        )
    return sorted(rows, key=lambda r: -r["tries"])


def _middle(values: Sequence[float]) -> float | None:
    return round(median(values), 4) if values else None
