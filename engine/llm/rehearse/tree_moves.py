"""The replies to the roles of `optiml`, by rule. The candidates themselves are those of every other role (player)."""

from __future__ import annotations

import re
from typing import Any

SURE = 0.5  # of an edit: a rule is sure of nothing
MOST_EVIDENCE = 3
_STAGE = re.compile(r"^- stage ([^\n]{1,200}?): ([0-9.e+-]{1,20}) ms; bound by ([^;\n]{1,60})", re.MULTILINE)
_FACT = re.compile(r"^- ((?:time|memory|compute|occupancy): [^\n]{1,200})$", re.MULTILINE)
_DIAGNOSIS = re.compile(r"^# The diagnosis of trial \d+\nLimited by (\w{1,20})\.", re.MULTILINE)
# The words of engine.session.fold.profile.BOUND -> the judge's.
LIMITS = {
    "the matrix units": "compute", "the arithmetic pipes": "compute", "the special function units": "compute",
    "the epilogue": "compute", "memory bandwidth": "memory", "the L2 cache's bandwidth": "memory",
    "the launch": "latency", "the start of its pipeline": "latency",
}  # fmt: skip
ADVICE = {
    "compute": "Another tile or schedule of the slowest stage.", "memory": "Fewer passes over its data.",
    "latency": "Fewer launches, or more work in flight.", "occupancy": "Fewer registers or less shared memory.",
}  # fmt: skip


def proposals(ideas: dict[str, Any]) -> dict[str, Any]:
    """The hypotheses of the pool as strategies: the expected speedup is the weight."""
    return {
        "strategies": [
            {"title": idea["title"], "weight": max(idea["speedup"], 1e-3), "why": idea.get("why", "")}
            for idea in ideas["hypotheses"]
        ]
    }


def bottleneck(prompt: str) -> dict[str, Any]:
    """What binds the longest stage in the prompt, with the prompt's own lines as evidence."""
    stages = [(float(ms), name, bound.rstrip(". ")) for name, ms, bound in _STAGE.findall(prompt)]
    if not stages:
        evidence = _FACT.findall(prompt)[:MOST_EVIDENCE] or ["Rehearsed: the prompt holds no stage."]
        return {"limit": "memory", "evidence": evidence, "advice": ADVICE["memory"]}
    ms, name, bound = max(stages)
    limit = LIMITS.get(bound, "latency")
    evidence = [f"Rehearsed: {name} takes {ms:g} ms, bound by {bound}", *_FACT.findall(prompt)]
    return {"limit": limit, "evidence": evidence[: 1 + MOST_EVIDENCE], "advice": ADVICE[limit]}


def aim(prompt: str) -> dict[str, Any]:
    """What an edit adds to a candidate: it is aimed at the limit of the prompt's diagnosis."""
    limit = next(iter(_DIAGNOSIS.findall(prompt)), "")
    return {"targets": limit if limit in ADVICE else "memory", "confidence": SURE}
