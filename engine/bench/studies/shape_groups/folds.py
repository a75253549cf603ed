"""What sessions over a group of shapes come to: each session's template and configurations, and one general one.

The general configuration is ours: of all configurations that were evaluated at every tuned shape, the one with the
least geometric mean of its time over the shape's own fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.evaluate.reference import baseline_cache
from engine.session import events
from sol.hardware import Hardware

RIGHT = ("clean", "minor")
Key = tuple[tuple[str, int | str], ...]


def key_of(settings: Mapping[str, int | str]) -> Key:
    return tuple(sorted(settings.items()))


def session_of(log: Sequence[events.Event], hardware: Hardware) -> dict[str, Any]:
    """One session: its best right trial of the strategy, its configurations with their times, its template, baselines
    and its end. `configurations`: [{settings, ms, trial}]."""
    end = next((e for e in log if isinstance(e, events.SessionEnded)), None)
    by = {e.trial: e.by for e in log if isinstance(e, events.TrialProposed)}
    judged = {e.trial: e for e in log if isinstance(e, events.TrialJudged) and e.verdict in RIGHT}
    own = [e for n, e in judged.items() if by.get(n) == "strategy"]
    naive = next((e for n, e in judged.items() if by.get(n) == "owner"), None)
    shown = [e for e in log if isinstance(e, events.Shown)]
    failed = [e for e in log if isinstance(e, events.TrialFailed | events.TrialUntimed)]
    baselines = {e.name: e.time.ms for e in log if isinstance(e, events.Baseline)}
    best = min(own, key=lambda e: (e.ms, e.trial), default=None)
    return {
        "state": end.state if end else "", "reason": end.reason if end else "", "trials": end.trials if end else 0,
        "best": None if best is None else timed(best, baselines, hardware),
        "naive": None if naive is None else timed(naive, baselines, hardware),
        "configurations": configurations(shown, judged, baselines, hardware), "template": template(shown),
        "untimed": sum(isinstance(e, events.TrialUntimed) for e in failed),
        "failed": [f"{e.step}: {e.reason[:200]}" for e in failed if isinstance(e, events.TrialFailed)][:8],
        "baselines": baselines,
    }  # fmt: skip


def timed(e: events.TrialJudged, baselines: Mapping[str, float], hardware: Hardware) -> dict[str, Any]:
    """`bandwidth`: the share of the measured copy rate that a kernel with this time moves its bytes at, for work that
    memory limits; `compiled`: torch.compile's time over its own, where that was timed."""
    limit = e.ms / e.gap * hardware.bandwidth / hardware.copy_rate
    return {
        "trial": e.trial, "ms": e.ms, "kind": e.kind, "speedup": e.speedup, "baseline": e.baseline,
        "bandwidth": limit / e.ms, "compiled": over_compile(e.speedup, e.baseline, baselines),
    }  # fmt: skip


def over_compile(speedup: float, baseline: str, baselines: Mapping[str, float]) -> float | None:
    """The time of torch.compile, in the faster of its modes, over that of a kernel that is `speedup` times as fast as
    `baseline`. The kernel's clock is not the one that timed torch.compile, so both are compared through the baseline,
    which each of them timed."""
    compiled = [ms for name, ms in baselines.items() if baseline_cache.parts(name)[0].startswith("compile")]
    return speedup * min(compiled) / baselines[baseline] if compiled and baseline in baselines else None


def configurations(
    shown: Iterable[events.Shown], judged: Mapping[int, events.TrialJudged], baselines: Mapping[str, float],
    hardware: Hardware,
) -> list[dict[str, Any]]:  # fmt: skip
    """The default instance and each evaluated configuration with the times of its trial, each once."""
    rows: dict[Key, dict[str, Any]] = {}
    for e in shown:
        if e.topic == "template" and e.facts["right"]:
            settings, trial = {p["name"]: p["default"] for p in e.facts["parameters"]}, e.facts["trial"]
        elif e.topic == "search":
            settings, trial = e.facts["settings"], e.facts["trial"]
        else:
            continue
        if trial in judged:
            rows.setdefault(key_of(settings), {"settings": settings, **timed(judged[trial], baselines, hardware)})
    return list(rows.values())


def template(shown: Iterable[events.Shown]) -> dict[str, Any] | None:
    """The first right template, in the form of the option `preset`; None if none is right."""
    shown = list(shown)
    right = next((e.facts for e in shown if e.topic == "template" and e.facts["right"]), None)
    if right is None:
        return None
    space = next((e.facts for e in shown if e.topic == "space"), {"limits": [], "needs": {}})
    stated = [
        {name: limit[name] for name in ("expression", "resource", "why")}
        for limit in space["limits"]
        if limit["source"] == "template"
    ]
    names = ("text", "language", "cls", "change", "parameters")
    return {**{name: right[name] for name in names}, "inequalities": stated, **space["needs"]}


def general(sessions: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int | str], float] | None:
    """The general configuration over the sessions of the tuned shapes, and the geometric mean of its time over each
    shape's own fastest; None if no configuration has a time at every shape."""
    times = [{key_of(row["settings"]): row["ms"] for row in s["configurations"]} for s in sessions]
    if not times or not all(times):
        return None
    common = set.intersection(*(set(t) for t in times))
    loss = {key: mean(t[key] / min(t.values()) for t in times) for key in common}
    best = min(loss, key=lambda key: (loss[key], key), default=None)
    return None if best is None else (dict(best), loss[best])


def candidates(sessions: Iterable[Mapping[str, Any]], most: int) -> list[dict[str, int | str]]:
    """What may be the general configuration: each shape's fastest ones in turns, at most `most`."""
    ranked = [[r["settings"] for r in sorted(s["configurations"], key=lambda r: r["ms"])] for s in sessions]
    chosen: dict[Key, dict[str, int | str]] = {}
    for place in range(max(map(len, ranked), default=0)):
        for rows in ranked:
            if place < len(rows) and len(chosen) < most:
                chosen.setdefault(key_of(rows[place]), rows[place])
    return list(chosen.values())


def mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


__all__ = ["candidates", "general", "key_of", "mean", "session_of", "template"]
