"""The stages of a prediction as an agent reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LISTED = 12  # stages in an answer


def listed(stages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """{predicted_stages, stages_left_out}: the stages that take time, in order. Where they are too many, the LISTED
    slowest stay and `stages_left_out` says how many went, and their time."""
    timed = [s for s in stages if s.get("ms")]
    slowest = sorted(range(len(timed)), key=lambda i: -timed[i]["ms"])[:LISTED]
    rows = [{k: timed[i][k] for k in ("name", "ms", "bound_by") if k in timed[i]} for i in sorted(slowest)]
    left = len(timed) - len(rows)
    if not left:
        return {"predicted_stages": rows}
    ms = sum(s["ms"] for s in timed) - sum(row["ms"] for row in rows)
    words = f"{left} of {len(timed)} stages, the fastest, with {ms:.4g} ms in all"
    return {"predicted_stages": rows, "stages_left_out": words}
