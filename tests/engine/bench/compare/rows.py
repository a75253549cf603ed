"""Rows of a comparison as its sessions would leave them."""

from typing import Any


def trial(ratio=None, *, bad=(), would=False, step="", tokens=0, t=0.0):
    """One trial; without a ratio it failed, with `bad` these filters refused it."""
    row: dict[str, Any] = {"counts": ratio is not None and not bad, "tokens": tokens, "t": t}
    if ratio is not None:
        row |= {"ms": 1.0 / ratio, "ratio": ratio, "verdict": "gaming" if bad else "clean"}
    if bad:
        row["bad"] = list(bad)
    if step or ratio is None or would:
        row |= {"step": step or "validate", "code": "wrong_result"}
    return row | ({"would": True} if would else {})


def session(*trials, arm="a", problem="p", skill=0.7, seed=0):
    for number, one in enumerate(trials, 1):
        one |= {"n": number, "used": number}
    return {
        "arm": arm, "strategy": arm, "problem": problem, "skill": skill, "seed": seed, "state": "done",
        "code": "search_over", "reason": "", "cls": "f16", "limit_ms": 0.1, "baseline_ms": 1.0, "kind": "predicted",
        "trials": list(trials), "evaluations": len(trials), "turns": 1, "tokens": {"in": 8, "out": 2}, "unknown": 0,
        "cost": None, "seconds": {"all": 1.0, "model": 0.5},
    }  # fmt: skip
