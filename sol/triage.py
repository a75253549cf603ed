"""Rank hypotheses by return on investment, with a memory of predicted and observed speedups.

    ROI = S^(1 + max(0, log10(g / 5))) / (R_impl * R_perf)

S is the predicted speedup, g the gap to the limit, R_impl and R_perf (each at least 1) the risks that it cannot be
built and that it brings less than predicted (after the orchestrated steering of arXiv 2603.29010). Far from the limit
(g over 5) the exponent grows, so bold moves win; near it, safe ones win.

`Memory` stores the action, prediction and outcome of every finished trial over all problems. R_impl is computed from
the share of an action's trials that ran, R_perf from the share of the predicted gain that was observed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log, log10
from statistics import median

PRIOR = 2.0  # assumed earlier trials of a new action, with half of the predicted gain observed
MOST_RISK = 10.0


def roi(speedup: float, gap: float, implementation: float = 1.0, performance: float = 1.0) -> float:
    """Return on investment of one hypothesis. `gap` and risks are at least 1. Raises ValueError for others."""
    if speedup <= 0 or gap <= 0 or implementation < 1 or performance < 1:
        raise ValueError(
            f"speedup {speedup:g} and gap {gap:g} must be above 0, risks {implementation:g} and {performance:g} from 1"
        )
    return speedup ** exponent(gap) / (implementation * performance)


def exponent(gap: float) -> float:
    """The weight of the speedup: 1 up to a gap of 5, and one more for each factor of ten beyond it."""
    return 1 + max(0.0, log10(gap / 5))


@dataclass(frozen=True)
class Hypothesis:
    """One thing to try. `action`: a lever's (sol.levers); `speedup`: predicted, over the current best."""

    action: str
    title: str
    speedup: float


@dataclass(frozen=True)
class Outcome:
    """A finished trial of an action. `predicted`, `observed`: speedup over the program that it changed; observed None:
    the build failed, the result was wrong or the time was flagged. `problem`: for display; `cls`: precision class."""

    action: str
    predicted: float
    observed: float | None
    problem: str = ""
    cls: str = ""


@dataclass(frozen=True)
class Ranked:
    """A hypothesis after triage. `expected`: the predicted speedup, corrected by the memory."""

    hypothesis: Hypothesis
    roi: float
    implementation: float
    performance: float
    expected: float
    why: str


@dataclass
class Memory:
    """Outcomes by action, across problems and sessions; JSON lines on disk, one outcome per line.

    `fitted`: words in the names of actions whose predicted time was fitted again after these outcomes. For such an
    action the outcomes of all actions with the word count for R_impl, and none for R_perf.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    fitted: tuple[str, ...] = ()

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def of(self, action: str) -> list[Outcome]:
        return [o for o in self.outcomes if o.action == action]

    def implementation_risk(self, action: str) -> float:
        """1 / share of trials that ran, with Laplace's rule: 1.33 for a new action, towards 1 as its trials run."""
        words = self._fitted(action)
        trials = [o for o in self.outcomes if words in o.action] if words else self.of(action)
        ran = sum(o.observed is not None for o in trials)
        return min(MOST_RISK, (len(trials) + 2 * PRIOR) / (ran + 1.5 * PRIOR))

    def _fitted(self, action: str) -> str:
        return next((words for words in self.fitted if words in action), "")

    def gain_share(self, action: str) -> float:
        """The share of a predicted gain (in logarithms) that was observed: 1 all of it, 0 none, below 0 a slowdown.

        The median over the outcomes, weighted with one half while they are few; 1 for a `fitted` action.
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
        """The predicted speedup over the one that the memory expects, from 1 to `MOST_RISK`."""
        return min(MOST_RISK, max(1.0, predicted / self.expected(action, predicted)))

    def expected(self, action: str, predicted: float) -> float:
        """The speedup to expect of an action with this predicted speedup."""
        return exp(self.gain_share(action) * log(predicted)) if predicted > 0 else 0.0

    def to_lines(self) -> str:
        return "".join(json.dumps(asdict(o)) + "\n" for o in self.outcomes)

    @staticmethod
    def from_lines(text: str) -> Memory:
        """Raises ValueError that names the first line that is no outcome."""
        memory = Memory()
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                outcome = Outcome(**json.loads(line))
                if not outcome.predicted > 0 or not (outcome.observed is None or outcome.observed > 0):
                    raise ValueError("speedups must be above 0")
            except (TypeError, ValueError) as e:
                raise ValueError(f"memory, line {number}: not an outcome ({e})") from None
            memory.add(outcome)
        return memory


def triage(hypotheses: Iterable[Hypothesis], gap: float, memory: Memory | None = None) -> list[Ranked]:
    """The hypotheses with the best return first; equal returns in the given order."""
    memory = memory or Memory()
    ranked = []
    for h in hypotheses:
        build, perform = memory.implementation_risk(h.action), memory.performance_risk(h.action, h.speedup)
        past_trials = memory.of(h.action)
        ran = sum(o.observed is not None for o in past_trials)
        past = f"earlier trials: {ran} of {len(past_trials)} ran" if past_trials else "not tried before"
        expected = memory.expected(h.action, h.speedup)
        why = (
            f"the model predicts {h.speedup:.2f}x over the best so far, which takes {gap:.2g} times its limit; "
            f"after past trials expect {expected:.2f}x ({past})"
        )
        ranked.append(Ranked(h, roi(h.speedup, max(gap, 1e-9), build, perform), build, perform, expected, why))
    return sorted(ranked, key=lambda r: -r.roi)


def summary(memory: Memory) -> list[dict[str, object]]:
    """One row per action: tries, ran, median predicted and observed speedup, share of the gain observed (`kept`)."""
    rows = []
    for action in dict.fromkeys(o.action for o in memory.outcomes):
        trials = memory.of(action)
        ran = [o for o in trials if o.observed is not None]
        rows.append(
            {
                "action": action,
                "tries": len(trials),
                "ran": len(ran),
                "predicted": _middle([o.predicted for o in trials]),
                "observed": _middle([o.observed for o in ran if o.observed is not None]),
                "kept": round(memory.gain_share(action), 3),
            }
        )
    return sorted(rows, key=lambda r: -r["tries"])


def _middle(values: Sequence[float]) -> float | None:
    return round(median(values), 4) if values else None
