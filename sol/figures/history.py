"""The history of a search: speedup over PyTorch by trial, the best so far, the limit, and where the rules stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sol.budget import launch_binds
from sol.figures.figure import Figure, across, apart, axis, beside, down, layout, scatter, ticks
from sol.figures.palette import BAD, FAINT, INK, class_name, colour, marker, rounded_log10

WIDE = 6  # speedups that span more than this get a log axis; a few tenths are read better on a plain one


@dataclass(frozen=True)
class HistoryTrial:
    """A trial that ended. `speedup` over `baseline` (in words), or None where it has no time. `outcome` as in a
    session's view (counted, flagged, failed, ...); `counts`: whether its time is a result; `best`: whether it was the
    best of its class when it came; `note`: a sentence."""

    trial: int
    cls: str
    kind: str
    speedup: float | None
    ms: float | None = None
    baseline: str = "PyTorch"
    outcome: str = "counted"
    counts: bool = True
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class StopLine:
    """The rules of one class: limit and baseline in ms, eps, window, and the trial at which they stopped it."""

    cls: str
    baseline_ms: float
    t_sol_ms: float
    eps: float
    window: int
    stopped_at: int | None = None

    @property
    def limit(self) -> float | None:
        """The speedup at the limit."""
        return self.baseline_ms / self.t_sol_ms if self.t_sol_ms > 0 and self.baseline_ms > 0 else None


OUTCOMES = {"failed": "failed", "undecided": "not verified", "stopped": "stopped"}
UNTIMED = {"verified": "right, not timed", "unverified": "not run", "flagged": "flagged, not timed"}  # raw kernels


def history(trials: Sequence[HistoryTrial], stop: Sequence[StopLine] = (), eps: float | None = None) -> Figure:
    """Rows: trial, class, outcome, ms, speedup, over, best so far, note. A trial that failed is a cross on the floor, a
    raw kernel without a time a ring there; one whose time is no result is crossed out where it stands. `eps`: that of
    the session, for the caption."""
    ordered = sorted(trials, key=lambda t: t.trial)
    last = max((t.trial for t in ordered), default=1)
    timed = [t for t in ordered if t.speedup is not None]
    speeds = [t.speedup for t in timed if t.speedup]
    classes = list(dict.fromkeys(t.cls for t in ordered))
    lines = [s for s in stop if s.limit is not None and s.cls in classes]
    roofs = [s for s in lines if not launch_binds(s.t_sol_ms)]
    top = max([1.0, *speeds, *(s.limit for s in roofs)]) * 1.14
    low = min([0.9, *speeds]) * 0.97
    wide = top / low > WIDE
    data = [trace for cls in classes for trace in _of_class(cls, [t for t in timed if t.cls == cls], last)]
    floor = low if wide else 0.0
    without = [t for t in ordered if t.speedup is None]
    data.append(_on_the_floor("failed", [t for t in without if t.outcome not in UNTIMED], floor, "x-thin", BAD))
    if rings := [t for t in without if t.outcome in UNTIMED]:
        data.append(_on_the_floor("no time", rings, floor, "circle-open", FAINT))
    labels, shapes = [beside(1.0, "PyTorch", INK)], [across(1.0, INK, width=1.4)]
    for s in roofs:
        name = class_name(s.cls)
        shapes.append(across(s.limit, colour(s.cls), "dash"))
        labels.append(beside(s.limit, f"{name} limit"))
        if s.eps > 0:
            shapes.append(across(s.limit / (1 + s.eps), colour(s.cls), "dot"))
            labels.append(beside(s.limit / (1 + s.eps), f"{name} stop"))
    shapes += [down(s.stopped_at, colour(s.cls), "dot", 1.5) for s in lines if s.stopped_at is not None]
    span: dict[str, Any] = {"range": [0, top]}
    if wide:
        for one in labels:
            one["y"] = rounded_log10(one["y"])
        span = {"type": "log", "range": [rounded_log10(low), rounded_log10(top)], **ticks(low, top)}
    figure_layout = layout(
        "history",
        axis("trial", range=[0.4, last + 0.6], tickformat="d", dtick=max(1, -(-last // 10))),
        axis("speedup", ticksuffix="×", **span),
        margin={"r": 74}, shapes=shapes, annotations=apart(labels, *span["range"]),
    )  # fmt: skip
    caption = ["Each class against the baseline of its own class"]
    if "fp8" in classes:
        caption.append("; FP8, which PyTorch lacks, against its half precision")
    if len(roofs) < len(lines):
        caption.append(". Launch binds: a limit far below the time of a launch is not drawn")
    if eps and roofs:
        caption.append(f". Dotted: within {eps:.0%} of the limit, where the search of a class stops")
    if any(not t.counts for t in timed):
        caption.append(". Crossed out: times that are no result")
    return Figure({"data": data, "layout": figure_layout}, _rows(ordered), "Speedup by trial", f"{''.join(caption)}.")


def _of_class(cls: str, timed: Sequence[HistoryTrial], last: int) -> list[dict[str, Any]]:
    """The marks of a class, by kind, and the best so far as a step that never falls."""
    out = []
    for kind, counts in dict.fromkeys((t.kind, t.counts) for t in timed):
        some = [t for t in timed if (t.kind, t.counts) == (kind, counts)]
        mark = marker(cls, kind) | ({} if counts else {"symbol": "x-open"})
        out.append(
            scatter(
                mode="markers", name=f"{class_name(cls)}, {kind}{'' if counts else ', no result'}",
                x=[t.trial for t in some], y=[t.speedup for t in some], customdata=[t.trial for t in some],
                text=[f"trial {t.trial}, {kind}<br>{t.speedup:.3g}× over {t.baseline}{_note(t)}" for t in some],
                hovertemplate="%{text}<extra></extra>", marker=mark,
                selected={"marker": {"size": 14}}, unselected={"marker": {"opacity": 1}},
            )
        )  # fmt: skip
    steps = _best(timed)
    if steps:
        xs, ys = [t for t, _ in steps], [s for _, s in steps]
        out.append(
            scatter(
                mode="lines", name=f"best so far, {class_name(cls)}", x=[*xs, last], y=[*ys, ys[-1]], showlegend=False,
                line={"shape": "hv", "color": colour(cls), "width": 2}, hoverinfo="skip",
            )
        )  # fmt: skip
    return out


def _best(timed: Sequence[HistoryTrial]) -> list[tuple[int, float]]:
    """(trial, speedup of the best so far), from the first best on."""
    out: list[tuple[int, float]] = []
    for t in timed:
        if t.best:
            out.append((t.trial, t.speedup or 0.0))
        elif out:
            out.append((t.trial, out[-1][1]))
    return out


def _note(t: HistoryTrial) -> str:
    return f"<br>{t.note}" if t.note else ""


def _on_the_floor(name: str, trials: Sequence[HistoryTrial], floor: float, symbol: str, ink: str) -> dict[str, Any]:
    """The marks of trials that have no time."""
    return scatter(
        mode="markers", name=name, x=[t.trial for t in trials], y=[floor] * len(trials), cliponaxis=False,
        customdata=[t.trial for t in trials], showlegend=bool(trials), hovertemplate="%{text}<extra></extra>",
        text=[f"trial {t.trial}: {_outcome(t)}{_note(t)}" for t in trials],
        marker={"symbol": symbol, "size": 9, "color": ink, "line": {"width": 2, "color": ink}},
        selected={"marker": {"size": 14}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip


def _outcome(t: HistoryTrial) -> str:
    if t.speedup is None:
        return OUTCOMES.get(t.outcome) or UNTIMED.get(t.outcome, t.outcome)
    return t.kind if t.counts else f"{t.kind}, no result"


def _rows(ordered: Sequence[HistoryTrial]) -> list[dict[str, Any]]:
    best: dict[str, float] = {}
    rows = []
    for t in ordered:
        if t.best and t.speedup:
            best[t.cls] = t.speedup
        rows.append(
            {
                "trial": t.trial, "class": class_name(t.cls),
                "outcome": _outcome(t),
                "ms": t.ms, "speedup": None if t.speedup is None else round(t.speedup, 4),
                "over": "" if t.speedup is None else t.baseline,
                "best so far": round(best[t.cls], 4) if t.cls in best else None, "note": t.note,
            }
        )  # fmt: skip
    return rows
