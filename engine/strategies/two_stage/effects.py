"""What the evaluated configurations say about each parameter, and the spread of repeated measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.strategies.two_stage.space import Config, Space


def main_effects(space: Space, ms: Mapping[Config, float | None]) -> list[dict[str, Any]]:
    """For each parameter its values with the geometric mean of the times in ms, how many were evaluated and the fastest
    one; `range`: the slowest mean over the fastest, None with fewer than two values; `untimed`: the values without a
    time, and how many of their configurations failed. The parameter with the largest range comes first."""
    timed = {config: time for config, time in ms.items() if time is not None}
    effects = []
    for place, parameter in enumerate(space.parameters):
        rows, untimed = [], []
        for value in parameter.values:
            times = [time for config, time in timed.items() if config[place] == value]
            if times:
                mean = math.exp(sum(map(math.log, times)) / len(times))
                rows.append({"value": value, "ms": mean, "best_ms": min(times), "many": len(times)})
            else:
                untimed.append({"value": value, "failed": sum(config[place] == value for config in ms)})
        means = [row["ms"] for row in rows]
        effects.append({
            "name": parameter.name, "values": rows, "range": max(means) / min(means) if len(means) > 1 else None,
            "untimed": untimed,
        })  # fmt: skip
    return sorted(effects, key=lambda e: -(e["range"] or 0.0))


def spread(times: Sequence[float]) -> dict[str, float] | None:
    """Least, median and most of repeated times in ms, and most / least; None for fewer than two."""
    if len(times) < 2:
        return None
    ordered = sorted(times)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return {"least": ordered[0], "median": median, "most": ordered[-1], "ratio": ordered[-1] / ordered[0]}


def lines(effects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The effects in words, for the plan: each value's mean over the fastest value's, and the values without one."""
    written = []
    for effect in effects:
        rows = effect["values"]
        if effect["range"] is None:
            only = f"only {rows[0]['value']} was timed{_untimed(effect['untimed'])}" if rows else "no value was timed"
            written.append(f"{effect['name']}: {only}")
            continue
        least = min(row["ms"] for row in rows)
        values = ", ".join(f"{row['value']} {row['ms'] / least:.2f}x ({row['many']})" for row in rows)
        written.append(f"{effect['name']}: {values}{_untimed(effect['untimed'])}")
    return written


def _untimed(values: Sequence[Mapping[str, Any]]) -> str:
    """`; not evaluated: 256; failed: 512`."""
    skipped = ", ".join(str(v["value"]) for v in values if not v["failed"])
    failed = ", ".join(str(v["value"]) for v in values if v["failed"])
    return (f"; not evaluated: {skipped}" if skipped else "") + (f"; failed: {failed}" if failed else "")


__all__ = ["lines", "main_effects", "spread"]
