"""A run stage by stage: bars that add up to its time, and the same end to end as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sol.attainable import StageTime
from sol.figures.figure import Figure, axis, bar, down, label, layout
from sol.figures.palette import INK, MUTED, PARTS, filling


def _parts(stage: StageTime) -> dict[str, float]:
    return dict(stage.parts or {"main": stage.ms})


def _names(stages: Sequence[StageTime]) -> list[str]:
    """The parts that any stage spends time in, in the order in which they come."""
    return list(dict.fromkeys(p for s in stages for p, ms in _parts(s).items() if ms))


def _slice(stages: Sequence[StageTime], part: str, kind: str, **place: Any) -> dict[str, Any]:
    ink, pattern = PARTS.get(part, (MUTED, ""))
    return bar(
        name=part, y=[s.name for s in stages], x=[_parts(s).get(part, 0.0) for s in stages],
        marker=filling(ink, kind) | {"pattern": {"shape": pattern, "fgcolor": MUTED}},
        hovertemplate=f"%{{y}}, {part}: %{{x:.4f}} ms<extra>{kind}</extra>", **place,
    )  # fmt: skip


def stages(run: Sequence[StageTime], kind: str = "predicted") -> Figure:
    """A bar a stage, first at the top, sliced into launch, main loop, epilogue and the rest.

    Rows: stage, kind, ms, share, bound by, and one column a part.
    """
    total = sum(s.ms for s in run) or 1.0
    parts = _names(run)
    rows = [
        {"stage": s.name, "kind": s.kind, "ms": round(s.ms, 5), "share": round(s.ms / total, 4), "bound by": s.bound_by,
         **{p: round(_parts(s).get(p, 0.0), 5) for p in parts}}
        for s in run
    ]  # fmt: skip
    figure_layout = layout(
        "stages", axis(f"ms ({kind})", rangemode="tozero"), axis("", autorange="reversed", type="category"),
        barmode="stack", showlegend=len(parts) > 1, bargap=0.4,
    )  # fmt: skip
    data = [_slice(run, part, kind) for part in parts]
    title = f"Time by stage ({kind})"
    return Figure({"data": data, "layout": figure_layout}, rows, title, f"{title}.")


def waterfall(run: Sequence[StageTime], limit_ms: float | None = None, kind: str = "predicted", of: str = "") -> Figure:
    """A run from left to right: each stage begins where the one before it ends, sliced by where its time goes.

    `limit_ms` (t_sol) is drawn as a line; `of`: what is limited, where it is a part of the module. Rows: stage, starts,
    ms, ends, one column a part.
    """
    parts = _names(run)
    starts = [sum(s.ms for s in run[:i]) for i in range(len(run))]
    total = sum(s.ms for s in run)
    ends = list(starts)
    data = []
    for part in parts:
        data.append(_slice(run, part, kind, base=list(ends)))
        ends = [at + _parts(s).get(part, 0.0) for at, s in zip(ends, run, strict=True)]
    shapes, labels = [], []
    if limit_ms:
        shapes.append(down(limit_ms, INK, "dash", 1.5))
        labels.append(label("limit", INK, x=limit_ms, xanchor="left", xshift=4, yref="paper", y=1, yanchor="top"))
    figure_layout = layout(
        "waterfall",
        axis(f"ms ({kind})", range=[0, max(total, limit_ms or 0.0) * 1.03 or 1.0]),
        axis("", autorange="reversed", type="category"),
        barmode="overlay", shapes=shapes, annotations=labels, showlegend=len(parts) > 1, bargap=0.4,
    )  # fmt: skip
    rows = [
        {"stage": s.name, "starts": round(at, 5), "ms": round(s.ms, 5), "ends": round(at + s.ms, 5),
         **{p: round(_parts(s).get(p, 0.0), 5) for p in parts}}
        for s, at in zip(run, starts, strict=True)
    ]  # fmt: skip
    title = f"Time by stage, end to end ({kind})"
    beside = f": {of}, beside its own limit" if of and limit_ms else ""
    return Figure({"data": data, "layout": figure_layout}, rows, title, f"{title}{beside}.")
