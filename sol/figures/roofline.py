"""The roofline: log-log, a roof for each class, what is reached in practice, PyTorch pinned, the trail of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sol.figures.beside_marks import SAME, Named, place
from sol.figures.figure import PLOT, Figure, axis, label, layout, scatter, ticks
from sol.figures.palette import INK, MUTED, class_name, colour, marker, rounded_log10
from sol.hardware import Hardware
from sol.render import ms as time_words

FINE = ("f16", "bf16", "fp8", "i8")  # classes whose label stands to the right of PyTorch's mark, if there is room
MOST_TICKS = 11


@dataclass(frozen=True)
class Roof:
    """The roof of a class: published `peak` in FLOP/s and `bandwidth` in B/s; `ceiling` and `copy_rate`: the same as
    reached in practice, None where nobody measured them."""

    cls: str
    peak: float
    bandwidth: float
    ceiling: float | None = None
    copy_rate: float | None = None


@dataclass(frozen=True)
class Point:
    """A run. `kind`: measured | predicted; `marker`: trial | best | baseline. `intensity` in FLOP/byte (of the problem:
    its own FLOPs over its compulsory bytes, so that all points of a problem lie on one vertical line), `rate` in
    FLOP/s, `ms` where the run has one time."""

    label: str
    kind: str
    intensity: float
    rate: float
    cls: str
    marker: str = "trial"
    trial: int | None = None
    ms: float | None = None


def roofs_of_hardware(hw: Hardware, classes: Sequence[str]) -> list[Roof]:
    """The roofs of a device in the classes that it has."""
    known = [c for c in classes if c in hw.peaks]
    return [
        Roof(c, hw.peak(c), hw.bandwidth, hw.ceiling(c), hw.copy_rate)
        if c in hw.measured or "copy" in hw.measured
        else Roof(c, hw.peak(c), hw.bandwidth)
        for c in known
    ]


def roofs_of_report(report: Mapping[str, Any], classes: Sequence[str]) -> list[Roof]:
    """The roofs of a SOL report (as plain data) in those of `classes` that it has."""
    bandwidth, measured = report["gpu"]["bandwidth"], report["gpu"].get("measured", True)
    return [
        Roof(c, b["peak"], bandwidth, b["ceiling"] if measured else None, b["copy_rate"] if measured else None)
        for c in classes
        if (b := report["bounds"].get(c)) is not None
    ]


def roofline(
    roofs: Sequence[Roof],
    points: Sequence[Point],
    title: str,
    spans: Sequence[tuple[float, float]] | None = None,
    note: str = "",
) -> Figure:
    """Roofs solid, ceilings dotted, the best runs on top.

    `title`: of the device; `note`: the first sentence of the caption. `spans`: the (FLOP/byte, FLOP/s) that the axes
    show, so that they stay while points are added; a point beyond them is a triangle at their edge. By default the axes
    show all points. Rows: what (roof | ceiling | baseline | trial | best), run, class, kind, FLOP/byte, TFLOP/s, time,
    share of its roof. Raises ValueError without a roof.
    """
    if not roofs:
        raise ValueError("a roofline needs at least one roof")
    spots = [(r.peak / r.bandwidth, r.peak) for r in roofs]
    spots += [(p.intensity, p.rate) for p in points] if spans is None else spans
    x0, x1 = min(x for x, _ in spots if x > 0) / 3, max(x for x, _ in spots) * 5
    y0, y1 = min(y for _, y in spots if y > 0) / 1.7e12, max(y for _, y in spots) * 2.2e-12
    data, rows = [], []
    for r in roofs:
        name = class_name(r.cls)
        data.append(_roof(f"{name} roof", r.peak, r.bandwidth, x0, x1, {"color": colour(r.cls), "width": 1.8}))
        rows.append(_row("roof", f"{name} roof (published peak)", r.cls, "published", r.peak / r.bandwidth, r.peak))
        if r.ceiling and r.copy_rate and r.ceiling < r.peak:
            dots = {"color": colour(r.cls), "width": 1, "dash": "dot"}
            data.append(_roof(f"{name}, reached in practice", r.ceiling, r.copy_rate, x0, x1, dots))
            rows.append(_row("ceiling", f"{name} in practice", r.cls, "measured", r.ceiling / r.copy_rate, r.ceiling))
    inside = [p for p in points if y0 <= p.rate / 1e12 <= y1]
    data += [_baseline(p) for p in inside if p.marker == "baseline"]
    data += _trials([p for p in inside if p.marker != "baseline"])  # over PyTorch: they may lie where it does
    data += [_beyond(p, y0, y1) for p in points if p not in inside]
    data += [trace for p in inside if p.marker == "best" for trace in _best(p)]
    limits = {r.cls: r for r in roofs}
    for p in points:
        roof = limits.get(p.cls)
        limit = min(roof.peak, roof.bandwidth * p.intensity) if roof else 0.0
        share = round(p.rate / limit, 4) if limit else None
        rows.append(_row(p.marker, p.label, p.cls, p.kind, p.intensity, p.rate, p.ms, share))
    x_range, y_range = (rounded_log10(x0), rounded_log10(x1)), (rounded_log10(y0), rounded_log10(y1))
    columns = [rounded_log10(p.intensity) for p in points if p.intensity > 0]
    flat = [rounded_log10(v / 1e12) for r in roofs for v in (r.peak, r.ceiling) if v]
    peaks = _peaks(roofs)
    beside = [(note["y"], note["text"].count("<br>") + 1) for note in peaks]
    names = _names([p for p in inside if p.marker == "baseline"], y_range)
    figure_layout = layout(
        "roofline",
        axis("FLOP per byte", type="log", range=list(x_range), **ticks(x0, x1, (1,))),
        axis("TFLOP/s", type="log", range=list(y_range), **_few(ticks(y0, y1), ticks(y0, y1, (1,)))),
        margin={"r": 74}, annotations=[*peaks, *place(names, columns, x_range, y_range, flat, beside)],
    )  # fmt: skip
    practice = any(r.ceiling for r in roofs)
    caption = f"On {title}. Solid: published roofs.{' Dotted: rates reached in practice.' * practice}"
    caption += " Ringed: the best of a class." * any(p.marker == "best" for p in inside)
    caption += " Triangles lie beyond the axis." * (len(inside) < len(points))
    return Figure({"data": data, "layout": figure_layout}, rows, f"Roofline of {title}", f"{note} {caption}".strip())


def _few(fine: dict[str, Any], decades: dict[str, Any]) -> dict[str, Any]:
    """The ticks of an axis: 1, 2 and 5 of each decade, or the decades alone where these would crowd it."""
    return fine if len(fine["tickvals"]) <= MOST_TICKS else decades


def _roof(name: str, peak: float, bandwidth: float, x0: float, x1: float, line: dict[str, Any]) -> dict[str, Any]:
    xs = [x0, min(max(peak / bandwidth, x0), x1), x1]
    hover = f"{name}<br>%{{y:.4g}} TFLOP/s, ridge at {peak / bandwidth:.3g} FLOP/byte<extra></extra>"
    ys = [min(peak, bandwidth * x) / 1e12 for x in xs]
    return scatter(mode="lines", name=name, x=xs, y=ys, line=line, showlegend=False, hovertemplate=hover)


def _trials(points: Sequence[Point]) -> list[dict[str, Any]]:
    """A trail for each class and kind, in the order of the trials."""
    out = []
    for cls, kind in dict.fromkeys((p.cls, p.kind) for p in points):
        some = [p for p in points if (p.cls, p.kind) == (cls, kind)]
        out.append(
            scatter(
                mode="lines+markers", name=f"{class_name(cls)}, {kind}", x=[p.intensity for p in some],
                y=[p.rate / 1e12 for p in some], customdata=[p.trial for p in some], marker=marker(cls, kind),
                line={"color": colour(cls), "width": 1, "dash": "dot"},
                text=[f"{p.label}, {kind}{_time(p)}" for p in some],
                hovertemplate="%{text} · %{y:.4g} TFLOP/s<extra></extra>",
                selected={"marker": {"size": 15}}, unselected={"marker": {"opacity": 1}},
            )
        )  # fmt: skip
    return out


def _baseline(p: Point) -> dict[str, Any]:
    shape = "square" if p.kind == "measured" else "square-open"
    time = "" if p.ms is None else f"{time_words(p.ms)} · "
    return scatter(
        mode="markers", name=p.label, x=[p.intensity], y=[p.rate / 1e12], showlegend=False,
        marker={"symbol": shape, "size": 11, "color": INK, "line": {"width": 2, "color": INK}},
        hovertemplate=f"{p.label}, {p.kind}<br>{time}%{{y:.4g}} TFLOP/s<extra></extra>",
    )  # fmt: skip


def _best(p: Point) -> list[dict[str, Any]]:
    """A ring and the mark of a best run, over all other marks."""
    at: dict[str, Any] = {
        "mode": "markers", "x": [p.intensity], "y": [p.rate / 1e12], "showlegend": False, "customdata": [p.trial],
        "name": f"best in {class_name(p.cls)}", "hovertemplate": "%{text} · %{y:.4g} TFLOP/s<extra></extra>",
        "text": [f"{p.label}, {p.kind}, the best in {class_name(p.cls)}{_time(p)}"],
    }  # fmt: skip
    ring = {"symbol": "circle-open", "size": 17, "color": INK, "line": {"width": 1.8, "color": INK}}
    return [scatter(**at, marker=ring), scatter(**at, marker=marker(p.cls, p.kind))]


def _beyond(p: Point, low: float, high: float) -> dict[str, Any]:
    """A triangle at the edge of the axis for a run that lies beyond it. `low`, `high`: its ends in TFLOP/s."""
    rate, ink = p.rate / 1e12, INK if p.marker == "baseline" else colour(p.cls)
    shape = f"triangle-{'down' if rate < low else 'up'}{'' if p.kind == 'measured' else '-open'}"
    return scatter(
        mode="markers", name=f"{p.label}, beyond the axis", x=[p.intensity], y=[max(low, min(rate, high))],
        showlegend=False, customdata=[p.trial], cliponaxis=False,
        marker={"symbol": shape, "size": 10, "color": ink, "line": {"width": 1.6, "color": ink}},
        text=[f"{p.label}, {p.kind}{_time(p)} · {rate:.4g} TFLOP/s, beyond the axis"],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _time(p: Point) -> str:
    return "" if p.ms is None else f"<br>{time_words(p.ms)}"


def _named(p: Point) -> Named:
    """What times PyTorch, and its class, beside its mark."""
    who = "compile" if p.label.startswith("torch.compile") else "PyTorch"
    at = rounded_log10(p.intensity), rounded_log10(p.rate / 1e12)
    return Named(f"{who}<br>{class_name(p.cls)}", *at, p.cls in FINE)


def _names(points: Sequence[Point], y: tuple[float, float]) -> list[Named]:
    """The labels of PyTorch's marks. Marks at one place, such as those of float16 and bfloat16, share a label."""
    places: list[list[Named]] = []
    for one in map(_named, points):
        near = (
            group for group in places
            if group[0].text.split("<br>")[0] == one.text.split("<br>")[0]
            and group[0].x == one.x and abs(group[0].y - one.y) * PLOT < SAME * (y[1] - y[0])
        )  # fmt: skip
        if (group := next(near, None)) is None:
            places.append([one])
        else:
            group.append(one)
    return [
        Named("<br>".join([group[0].text, *(one.text.split("<br>")[1] for one in group[1:])]), group[0].x, group[0].y,
              group[0].right)
        for group in places
    ]  # fmt: skip


def _peaks(roofs: Sequence[Roof]) -> list[dict[str, Any]]:
    """The classes' names at the right end of their roofs; classes with the same peak (f16 and bf16) share one."""
    by_peak: dict[float, list[str]] = {}
    for r in roofs:
        by_peak.setdefault(r.peak, []).append(class_name(r.cls))
    place = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 5, "yanchor": "middle"}
    return [label("<br>".join(names), MUTED, y=rounded_log10(peak / 1e12), **place) for peak, names in by_peak.items()]


def _row(
    what: str, name: str, cls: str, kind: str, intensity: float, rate: float, ms: float | None = None,
    share: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "run": name, "what": what, "class": class_name(cls), "kind": kind, "FLOP/byte": round(intensity, 3),
        "TFLOP/s": round(rate / 1e12, 3), "ms": ms, "share of roof": share,
    }  # fmt: skip
