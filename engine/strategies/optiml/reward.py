"""The reward of an edit: its run time, with bottleneck proxies, compared with a reference. Pure.

The study (arXiv 2602.12305) combines run time with hardware bottleneck proxies and guards against regressions. Its
weights are not known to us; weights, bounds and the way in which missing figures are left out are ours:

    reward = sum over the known parts of weight * score / sum of their weights, from 0 to 1
    score  = 0.5 + 0.5 * log(before / after) / log(bound), from 0 to 1, for time, memory traffic and arithmetic
    score  = 0.5 + 0.5 * (after - before) for the occupancy, which is a share
    0.5    = as the reference

A wrong candidate has the reward 0. A candidate that is slower than the incumbent gains nothing from the proxies: its
reward is at most the score of its time. Both values of a part have the same source: Nsight Compute where it measured
the candidate and its reference, else the model of the GPU and the compiler's resources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from engine.strategies.optiml.figures import NAMES, UNITS, Figures, alike

AS_BEFORE = 0.5
WRONG = 0.0
OTHER_REGION = "the reference is a program of another region of the module"
NO_REFERENCE = "the reference has none: {}"


@dataclass(frozen=True)
class Weights:
    """Relative weights of the parts, and the factor at which a score is 0 or 1."""

    time: float = 70.0
    memory: float = 10.0
    compute: float = 10.0
    occupancy: float = 10.0
    bound: float = 4.0


@dataclass(frozen=True)
class Part:
    """One part of a reward. `weight`: its share once the missing parts are left out; `missing`: why it is left out;
    `by`: the source of both values, measured | predicted."""

    name: str
    weight: float
    score: float | None = None
    before: float | None = None
    after: float | None = None
    missing: str = ""
    by: str = ""

    def to_json(self) -> dict[str, Any]:
        shown = {
            "name": self.name, "unit": UNITS[self.name], "weight": round(self.weight, 4),
            "score": None if self.score is None else round(self.score, 4), "before": _short(self.before),
            "after": _short(self.after), "missing": self.missing, "by": self.by,
        }  # fmt: skip
        return {key: value for key, value in shown.items() if value not in (None, "")}


@dataclass(frozen=True)
class Reward:
    """`value`: from 0 to 1; `parts`: in the order of NAMES; `note`: what changed the sum, in words."""

    value: float
    parts: tuple[Part, ...] = ()
    note: str = ""


def of(after: Figures, before: Figures, weights: Weights, *, slower: bool = False) -> Reward:
    """The reward of a right candidate against its reference. `slower`: the guardrail calls it a regression."""
    scored = [_part(name, after, before, weights) for name in NAMES]
    total = sum(part.weight for part in scored if part.score is not None)
    if not total:
        parts = tuple(replace(p, weight=0.0) for p in scored)
        return Reward(AS_BEFORE, parts, "nothing that is weighted is known of it, so it counts as the reference")
    parts = tuple(replace(p, weight=0.0 if p.score is None else p.weight / total) for p in scored)
    value = sum(p.weight * p.score for p in parts if p.score is not None)
    time = parts[0].score
    if slower and time is not None and value > time:
        return Reward(time, parts, "slower than the incumbent, so the proxies add nothing")
    return Reward(min(1.0, max(0.0, value)), parts)


def _part(name: str, after: Figures, before: Figures, weights: Weights) -> Part:
    """The part with its weight before others are left out."""
    weight, (a, b, by) = getattr(weights, name), alike(name, after, before)
    if a is None or b is None:
        why = after.missing.get(name, "") if a is None else NO_REFERENCE.format(before.missing.get(name, "unknown"))
        return Part(name, weight, None, b, a, why or "unknown", by)
    if name != "time" and after.region != before.region:
        return Part(name, weight, None, None, a, OTHER_REGION, by)
    score = share_score(a, b) if name == "occupancy" else ratio_score(a, b, weights.bound)
    return Part(name, weight, score, b, a, by=by)


def ratio_score(after: float, before: float, bound: float) -> float:
    """0.5 for equal figures, 1 if `after` is a `bound`-th of `before` or less, 0 if it is `bound` times as much."""
    if after <= 0 or before <= 0:
        return AS_BEFORE
    return min(1.0, max(0.0, 0.5 + 0.5 * math.log(before / after) / math.log(bound)))


def share_score(after: float, before: float) -> float:
    return min(1.0, max(0.0, 0.5 + 0.5 * (after - before)))


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
