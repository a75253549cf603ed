"""Plotly figures as plain JSON, each with the rows of the table that says the same.

Made for a log that grows: every function is a few list comprehensions (well under 5 ms for a session of hundreds of
trials), keeps its trace order, and sets `uirevision`, so that a redraw neither jumps nor forgets a zoom. Colours are
Okabe and Ito's, every class has a marker shape too, and ink and grid are the grey with the same contrast (4.5) on
white and on black. A predicted time is hollow, a measured one filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sol.attainable import StageTime
from sol.figures.palette import COLOUR, INK, PARTS, SHAPE, axis, class_name, colour, plot_layout, rounded_log10, symbol
from sol.hardware import Hardware


@dataclass(frozen=True)
class Figure:
    """`figure`: {data, layout} for Plotly; `rows`: the same facts as a table, one dict a row, same keys in each."""

    figure: dict[str, Any]
    rows: list[dict[str, Any]]
    title: str = ""


@dataclass(frozen=True)
class Point:
    """A run on the roofline. `kind`: measured | predicted; `marker`: trial | best | baseline.

    `intensity` FLOP/byte (use the problem's own FLOPs and compulsory bytes, so that all points of a problem lie on
    one vertical line), `rate` FLOP/s.
    """

    label: str
    kind: str
    intensity: float
    rate: float
    cls: str
    marker: str = "trial"
    trial: int | None = None


@dataclass(frozen=True)
class HistoryTrial:
    """A finished trial. `speedup` over the baseline of its class, or None where it failed (`note` says why). `best`:
    whether it may be the best of its class; False of a time that is not counted or brings nothing."""

    trial: int
    cls: str
    kind: str
    speedup: float | None
    ms: float | None = None
    note: str = ""
    best: bool = True


@dataclass(frozen=True)
class StopLine:
    """The rules of one class: limit and baseline in ms, eps, window, and where they stopped it, if they did."""

    cls: str
    baseline_ms: float
    t_sol_ms: float
    eps: float
    window: int
    stopped_at: int | None = None
    reason: str = ""


def _si(value: float, unit: str) -> str:
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def roofline(hw: Hardware, points: Sequence[Point], classes: Sequence[str]) -> Figure:
    """The roofline of a device, log-log: a solid roof a class, its measured ceiling dashed, the trail of trials.

    Rows: what (roof | ceiling | baseline | trial | best), label, class, kind, FLOP/byte, TFLOP/s, share of its roof.
    """
    shown = [c for c in classes if c in hw.peaks]
    ridges = [hw.ridge(c) for c in shown]
    spots = [v for v in [*(p.intensity for p in points), *ridges] if v > 0] or [hw.ridge("f32")]
    x0, x1 = min(spots) / 8, max(spots) * 4
    data: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []

    def roof(name: str, what: str, cls: str, peak: float, bandwidth: float, line: dict[str, Any]) -> None:
        ridge = min(max(peak / bandwidth, x0), x1)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": [x0, ridge, x1],
                "y": [min(peak, bandwidth * x0), min(peak, bandwidth * ridge), min(peak, bandwidth * x1)],
                "line": line,
                "hovertemplate": f"{name}: {_si(peak, 'FLOP/s')}, ridge {peak / bandwidth:.3g} FLOP/byte"
                "<extra></extra>",
            }
        )
        kind = "measured" if what == "ceiling" else "published"
        rows.append(_row(what, name, cls, kind, peak / bandwidth, peak, 1.0))

    for cls in shown:
        roof(f"{class_name(cls)} roof", "roof", cls, hw.peak(cls), hw.bandwidth, {"color": colour(cls), "width": 2})
        if cls in hw.measured or "copy" in hw.measured:
            dash = {"color": colour(cls), "width": 1.5, "dash": "dash"}
            roof(f"{class_name(cls)} measured ceiling", "ceiling", cls, hw.ceiling(cls), hw.copy_rate, dash)
    if "f32" not in shown and "f32" in hw.peaks and hw.kind == "gpu":
        dots = {"color": INK, "width": 1.5, "dash": "dot"}
        roof("FP32 pipes (epilogues)", "roof", "f32", hw.peaks["f32"], hw.bandwidth, dots)

    trail = [p for p in points if p.marker != "baseline"]
    if len(trail) > 1:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "trail",
                "x": [p.intensity for p in trail],
                "y": [p.rate for p in trail],
                "line": {"color": INK, "width": 1},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    for marker, size in (("trial", 9), ("best", 14), ("baseline", 14)):
        some = [p for p in points if p.marker == marker]
        if not some:
            continue
        data.append(
            {
                "type": "scatter",
                "mode": "markers" if marker == "trial" else "markers+text",
                "name": {"trial": "trials", "best": "best", "baseline": "PyTorch"}[marker],
                "x": [p.intensity for p in some],
                "y": [p.rate for p in some],
                "text": [p.label for p in some],
                "textposition": "top left" if marker == "best" else "bottom right",
                "customdata": [[p.kind, class_name(p.cls), p.trial] for p in some],
                "marker": {
                    "color": [colour(p.cls) for p in some],
                    "symbol": ["star" if marker == "baseline" and p.kind == "measured" else
                               "star-open" if marker == "baseline" else symbol(p.cls, p.kind) for p in some],
                    "size": size,
                    "line": {"width": 2, "color": [colour(p.cls) for p in some]},
                },
                "hovertemplate": "%{text}<br>%{y:.3s}FLOP/s, %{customdata[1]}, %{customdata[0]}<extra></extra>",
            }
        )  # fmt: skip
    for p in points:
        limit = min(hw.peak(p.cls), hw.bandwidth * p.intensity) if p.cls in hw.peaks else 0.0
        rows.append(_row(p.marker, p.label, p.cls, p.kind, p.intensity, p.rate, p.rate / limit if limit else None))
    top = max([hw.peak(c) for c in shown] or [hw.peaks["f32"]])
    y0 = min([2 * hw.bandwidth * x0, top / 10, *(p.rate for p in points if p.rate > 0)]) / 2
    y1 = max([top, *(p.rate for p in points)]) * 2
    log = {"type": "log", "exponentformat": "SI"}
    layout = plot_layout(
        "roofline",
        axis("arithmetic intensity, FLOP/byte", range=[rounded_log10(x0), rounded_log10(x1)], **log),
        axis("FLOP/s", range=[rounded_log10(y0), rounded_log10(y1)], **log),
    )
    return Figure({"data": data, "layout": layout}, rows, f"Roofline of {hw.title}")


def _row(what: str, label: str, cls: str, kind: str, intensity: float, rate: float, share: float | None):
    return {
        "what": what,
        "label": label,
        "class": cls,
        "kind": kind,
        "FLOP/byte": round(intensity, 3),
        "TFLOP/s": round(rate / 1e12, 3),
        "share of roof": None if share is None else round(share, 4),
    }


def history(trials: Sequence[HistoryTrial], stop: Sequence[StopLine] = ()) -> Figure:
    """Speedup by trial, the best so far as a step a class, the limit and the stop rules drawn.

    Rows: trial, class, kind, speedup, ms, best so far, note. A failed trial is a cross on the floor.
    """
    data: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    ordered = sorted(trials, key=lambda t: t.trial)
    last = max((t.trial for t in ordered), default=0)
    classes = list(dict.fromkeys(t.cls for t in ordered))
    best: dict[str, float] = {}
    best_at: dict[str, int] = {}
    steps: dict[str, tuple[list[int], list[float]]] = {c: ([], []) for c in classes}
    for t in ordered:
        if t.best and t.speedup is not None and t.speedup > best.get(t.cls, 0.0):
            best[t.cls], best_at[t.cls] = t.speedup, t.trial
        if t.cls in best:
            steps[t.cls][0].append(t.trial)
            steps[t.cls][1].append(best[t.cls])
        rows.append(
            {
                "trial": t.trial,
                "class": t.cls,
                "kind": t.kind,
                "speedup": None if t.speedup is None else round(t.speedup, 4),
                "ms": t.ms,
                "best so far": round(best[t.cls], 4) if t.cls in best else None,
                "note": t.note,
            }
        )
    speeds = [t.speedup for t in ordered if t.speedup]
    limits = [s.baseline_ms / s.t_sol_ms for s in stop if s.t_sol_ms > 0]
    low = min([0.9, *speeds])
    for cls in classes:
        some = [t for t in ordered if t.cls == cls and t.speedup is not None]
        tail = [last] if steps[cls][0] and steps[cls][0][-1] != last else []  # the best stands to the last trial
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"best so far, {class_name(cls)}",
                "x": steps[cls][0] + tail,
                "y": steps[cls][1] + steps[cls][1][-1:] * len(tail),
                "line": {"shape": "hv", "color": colour(cls), "width": 2},
                "hoverinfo": "skip",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{class_name(cls)} trials",
                "x": [t.trial for t in some],
                "y": [t.speedup for t in some],
                "customdata": [[t.ms, t.kind, t.note] for t in some],
                "marker": {
                    "color": colour(cls),
                    "symbol": [symbol(t.cls, t.kind) for t in some],
                    "size": 9,
                    "line": {"width": 2, "color": colour(cls)},
                },
                "hovertemplate": "trial %{x}: %{y:.3f}x, %{customdata[0]:.4g} ms %{customdata[1]}"
                "<br>%{customdata[2]}<extra></extra>",
            }
        )
    failed = [t for t in ordered if t.speedup is None]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "failed",
            "x": [t.trial for t in failed],
            "y": [low * 0.97] * len(failed),
            "text": [t.note for t in failed],
            "marker": {"symbol": "x-thin", "size": 8, "color": INK, "line": {"width": 2, "color": INK}},
            "hovertemplate": "trial %{x} failed: %{text}<extra></extra>",
            "visible": True if failed else "legendonly",
        }
    )
    right = max([last + 1, *(best_at.get(s.cls, 0) + s.window for s in stop if s.window < 4 * max(8, last))])
    shapes.append(_hline(1.0, INK, "solid", 1))
    notes.append(_note(1.0, "PyTorch", INK))
    for s in stop:
        if s.t_sol_ms <= 0 or s.baseline_ms <= 0:
            continue
        limit = s.baseline_ms / s.t_sol_ms
        shapes.append(_hline(limit, colour(s.cls), "solid", 1.5))
        notes.append(_note(limit, f"{class_name(s.cls)} limit", colour(s.cls)))
        enough = limit / (1 + s.eps)
        if enough > 1:
            shapes.append(_hline(enough, colour(s.cls), "dot", 1.5))
            notes.append(_note(enough, f"{class_name(s.cls)} stop: within {s.eps:.0%}", colour(s.cls)))
        if s.window > 0 and best.get(s.cls, 0) > 1:
            shapes.append(_vline(best_at[s.cls] + s.window, colour(s.cls), "dot"))
        if s.stopped_at is not None:
            shapes.append(_vline(s.stopped_at, colour(s.cls), "solid"))
    y0, y1 = max(low * 0.95, 0.02), max([1.1, *speeds, *limits]) * 1.05
    wide = y1 / y0 > 6  # a decade of speedups needs a log axis; a few tenths are read better on a plain one
    if wide:
        for note in notes:
            note["y"] = rounded_log10(note["y"])
    span = {"type": "log", "range": [rounded_log10(y0), rounded_log10(y1)]} if wide else {"range": [y0, y1]}
    layout = plot_layout(
        "history",
        axis("trial", range=[0.5, right + 0.5], tickformat="d"),
        axis("speedup over PyTorch of the same class", **span),
        shapes=shapes,
        annotations=notes,
    )
    return Figure({"data": data, "layout": layout}, rows, "Speedup by trial")


def _hline(y: float, ink: str, dash: str, width: float) -> dict[str, Any]:
    line = {"color": ink, "dash": dash, "width": width}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def _vline(x: float, ink: str, dash: str) -> dict[str, Any]:
    line = {"color": ink, "dash": dash, "width": 1.5}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": x, "x1": x, "line": line}


def _note(y: float, text: str, ink: str) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 0.01,
        "xanchor": "left",
        "y": y,
        "yanchor": "bottom",
        "text": text,
        "showarrow": False,
        "font": {"color": ink, "size": 11},
    }


def breakdown(stages: Sequence[StageTime], kind: str = "predicted") -> Figure:
    """Where the time goes: a bar a stage, first at the top, sliced into launch, main loop, epilogue and the rest.

    Rows: stage, kind, ms, share, bound by, and one column a part. Predictions are drawn pale with an outline.
    """
    total = sum(s.ms for s in stages) or 1.0
    parts = list(dict.fromkeys(p for s in stages for p, ms in (s.parts or {"main": s.ms}).items() if ms))
    data = []
    for part in parts:
        ink, pattern = PARTS.get(part, (INK, ""))
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part,
                "y": [s.name for s in stages],
                "x": [(s.parts or {"main": s.ms}).get(part, 0.0) for s in stages],
                "marker": {
                    "color": ink,
                    "opacity": 0.45 if kind == "predicted" else 1.0,
                    "line": {"color": ink, "width": 1.5},
                    "pattern": {"shape": pattern, "fgcolor": INK},
                },
                "hovertemplate": f"%{{y}}, {part}: %{{x:.4f}} ms<extra>{kind}</extra>",
            }
        )
    rows = [
        {
            "stage": s.name,
            "kind": s.kind,
            "ms": round(s.ms, 5),
            "share": round(s.ms / total, 4),
            "bound by": s.bound_by,
            **{p: round((s.parts or {"main": s.ms}).get(p, 0.0), 5) for p in parts},
        }
        for s in stages
    ]
    layout = plot_layout(
        "breakdown",
        axis(f"ms ({kind})", rangemode="tozero"),
        axis("", autorange="reversed", type="category"),
        barmode="stack",
    )
    return Figure({"data": data, "layout": layout}, rows, f"Time by stage ({kind})")


__all__ = [
    "COLOUR",
    "SHAPE",
    "Figure",
    "HistoryTrial",
    "Point",
    "StopLine",
    "breakdown",
    "history",
    "roofline",
]
