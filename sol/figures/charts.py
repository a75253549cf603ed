"""Figures about limits and choices: shares of the limit, the waterfall of a run, stop policies, levers kept.

Of the same make as `sol.figures.plots` (plain Plotly JSON of bars and scatters, each with the rows of a table that
says the same); a predicted time is pale or hollow, a measured one solid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sol.attainable import StageTime
from sol.budget import Policy
from sol.figures.palette import COLOUR, INK, PARTS, axis, class_name, plot_layout, rounded_log10
from sol.figures.plots import Figure
from sol.triage import Outcome

UNITS = {
    "matrix": "matrix units",
    "vector": "arithmetic pipes",
    "special": "special functions",
    "memory": "device memory",
}
_INK_OF = {"matrix": COLOUR["f32"], "vector": COLOUR["bf16"], "special": COLOUR["f64"], "memory": COLOUR["tf32"]}
BUSY, IDLE = 0.8, 0.6  # above: at the limit; both below: neither unit is the reason (as Nsight Compute's rules say)


def shares(report: dict[str, Any], cls: str, ms: float, kind: str) -> Figure:
    """How much of each limit a run of `ms` used, as a profiler's Speed-of-Light section shows it.

    A share is the time that the unit alone would need for the module's compulsory work over `ms`, so it counts no
    wasted work. `report`: a sol.report as plain data. The title ends in one sentence of advice. Rows: unit, ms alone,
    share. Raises KeyError when the report has no such class.
    """
    parts = report["bounds"][cls]["parts"]
    used = {unit: parts.get(unit, 0.0) / ms if ms > 0 else 0.0 for unit in UNITS}
    shown = [u for u in UNITS if parts.get(u, 0.0) > 0]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [UNITS[u] for u in shown],
            "x": [round(100 * used[u], 2) for u in shown],
            "marker": {
                "color": [_INK_OF[u] for u in shown],
                "opacity": 0.45 if kind == "predicted" else 1.0,
                "line": {"color": [_INK_OF[u] for u in shown], "width": 1.5},
            },
            "text": [f"{100 * used[u]:.0f}%" for u in shown],
            "textposition": "outside",  # inside, it is white on the pale bar of a prediction
            "cliponaxis": False,
            "hovertemplate": f"%{{y}}: %{{x:.1f}}% of the limit<extra>{kind}</extra>",
            "showlegend": False,
        }
    ]
    over = max([100.0, *(100 * s for s in used.values())])
    layout = plot_layout(
        "shares",
        axis(f"% of the limit in {class_name(cls)} ({kind})", range=[0, over * 1.15]),
        axis("", autorange="reversed", type="category"),
    )
    rows = [{"unit": UNITS[u], "ms alone": round(parts[u], 5), "share of limit": round(used[u], 4)} for u in shown]
    return Figure({"data": data, "layout": layout}, rows, f"Share of each limit. {advice(report, cls, ms)}")


def advice(report: dict[str, Any], cls: str, ms: float) -> str:
    """One sentence on what to do about a time, from the shares and the report's first lever."""
    b = report["bounds"][cls]
    parts = b["parts"]
    used = {u: parts.get(u, 0.0) / ms for u in UNITS} if ms > 0 else dict.fromkeys(UNITS, 0.0)
    most = max(used, key=lambda u: used[u])
    # A lower class is a choice of the user's, never advice.
    top = next((x for x in report["levers"] if x["cls"] == cls and x["action"] != "lower_class"), None)
    if used[most] > 1.0:
        return f"This is faster than the {UNITS[most]} allow: distrust the time before anything else."
    if used[most] >= BUSY:
        rest = "a lower precision class or less work" if most == "matrix" else "moving less data"
        rest = "fewer or cheaper functions" if most in ("vector", "special") else rest
        return f"The {UNITS[most]} are busy for {used[most]:.0%} of the time: only {rest} would make it much faster."
    units = "vector" if used["vector"] > used["matrix"] else "matrix"  # in float32, the pipes do the products too
    if max(used[units], used["memory"]) < IDLE:
        launches = sum(o["live"] and o["kind"] not in ("view", "none") for o in report["ops"])
        why = f"Neither the {UNITS[units]} ({used[units]:.0%}) nor memory ({used['memory']:.0%}) is near its limit"
        if ms < 0.01 * max(1, launches):
            return f"{why}: {launches} launches and the waits between them cost most, so fuse."
        first = f", so first {top['title'][0].lower()}{top['title'][1:]}" if top else ", so find what they wait for"
        return f"{why}{first}."
    other = "memory" if most != "memory" else units
    first = f"; next, {top['title'][0].lower()}{top['title'][1:]}" if top else ""
    return (
        f"The {UNITS[most]} are used more ({used[most]:.0%}) than the {UNITS[other]} ({used[other]:.0%}), "
        f"with {1 - used[most]:.0%} left to gain{first}."
    )


def waterfall(stages: Sequence[StageTime], limit_ms: float | None = None, kind: str = "predicted") -> Figure:
    """A run from left to right: each stage begins where the one before it ends, sliced by where its time goes.

    `limit_ms` (t_sol) is drawn as a line. Rows: stage, starts, ms, ends, one column a part.
    """
    parts = list(dict.fromkeys(p for s in stages for p, ms in (s.parts or {"main": s.ms}).items() if ms))
    starts: list[float] = []
    for _s in stages:
        starts.append(starts[-1] + stages[len(starts) - 1].ms if starts else 0.0)
    total = starts[-1] + stages[-1].ms if stages else 0.0
    offsets = list(starts)
    data = []
    for part in parts:
        ink, pattern = PARTS.get(part, (INK, ""))
        lengths = [(s.parts or {"main": s.ms}).get(part, 0.0) for s in stages]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": part,
                "y": [s.name for s in stages],
                "x": lengths,
                "base": list(offsets),
                "marker": {
                    "color": ink,
                    "opacity": 0.45 if kind == "predicted" else 1.0,
                    "line": {"color": ink, "width": 1.5},
                    "pattern": {"shape": pattern, "fgcolor": INK},
                },
                "hovertemplate": f"%{{y}}, {part}: %{{x:.4f}} ms<extra>{kind}</extra>",
            }
        )
        offsets = [o + x for o, x in zip(offsets, lengths, strict=True)]
    shapes = []
    notes = []
    if limit_ms:
        line = {"color": INK, "width": 1.5, "dash": "dash"}
        shapes.append({"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": limit_ms, "x1": limit_ms, "line": line})
        notes.append({"x": limit_ms, "yref": "paper", "y": 1, "yanchor": "bottom", "text": "limit", "showarrow": False,
                      "font": {"color": INK, "size": 11}})  # fmt: skip
    layout = plot_layout(
        "waterfall",
        axis(f"ms ({kind})", range=[0, max(total, limit_ms or 0.0) * 1.03 or 1.0]),
        axis("", autorange="reversed", type="category"),
        barmode="overlay",
        shapes=shapes,
        annotations=notes,
    )
    rows = [
        {"stage": s.name, "starts": round(at, 5), "ms": round(s.ms, 5), "ends": round(at + s.ms, 5),
         **{p: round((s.parts or {"main": s.ms}).get(p, 0.0), 5) for p in parts}}
        for s, at in zip(stages, starts, strict=True)
    ]  # fmt: skip
    return Figure({"data": data, "layout": layout}, rows, f"Time by stage, end to end ({kind})")


def policies(
    grid: Sequence[Policy],
    front: Sequence[Policy],
    chosen: Policy | None = None,
    keep: float = 0.96,
    save: float = 0.43,
) -> Figure:
    """Every stop policy of a grid: trials saved against speedup kept, the Pareto front joined, the chosen one a star.

    `keep`, `save`: what was published (speedup kept, cost saved), drawn as lines. Rows: one a policy.
    """
    on = {(p.eps, p.window) for p in front}

    def points(some: Sequence[Policy], name: str, **marker: Any) -> dict[str, Any]:
        return {
            "type": "scatter",
            "mode": "lines+markers" if name == "Pareto front" else "markers",
            "name": name,
            "x": [100 * p.trials_saved for p in some],
            "y": [100 * p.speedup_kept for p in some],
            "text": [f"eps {p.eps:g}, window {p.window}" for p in some],
            "customdata": [[p.eps, p.window, p.efficiency] for p in some],
            "marker": marker,
            "line": {"color": marker["color"], "width": 1.5, "shape": "vh"},
            "hovertemplate": "%{text}<br>%{x:.0f}% of the trials saved, %{y:.1f}% of the speedup kept, "
            "%{customdata[2]:.2f}x efficiency<extra></extra>",
        }

    data = [
        points([p for p in grid if (p.eps, p.window) not in on], "policies", color=INK, size=7, symbol="circle-open"),
        points(front, "Pareto front", color=COLOUR["f32"], size=8, symbol="circle"),
    ]
    if chosen is not None:
        data.append(points([chosen], "best that keeps enough", color=COLOUR["fp8"], size=15, symbol="star"))
    line = {"color": INK, "width": 1, "dash": "dot"}
    shapes = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 100 * keep, "y1": 100 * keep, "line": line},
        {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 100 * save, "x1": 100 * save, "line": line},
    ]
    low = min([100 * keep, *(100 * p.speedup_kept for p in grid)])
    layout = plot_layout(
        "policies",
        axis("trials saved, %", range=[-2, 102]),
        axis("speedup kept, %", range=[low - 1, 100.5]),
        shapes=shapes,
    )
    rows = [
        {"eps": p.eps, "window": p.window, "trials saved": round(p.trials_saved, 4),
         "speedup kept": round(p.speedup_kept, 4), "efficiency": round(p.efficiency, 3),
         "front": (p.eps, p.window) in on}
        for p in grid
    ]  # fmt: skip
    return Figure({"data": data, "layout": layout}, rows, "What stopping earlier costs and saves")


def levers_kept(outcomes: Sequence[Outcome]) -> Figure:
    """Predicted against observed gain of each lever tried: on the diagonal it kept its promise. Rows: one a try."""
    actions = list(dict.fromkeys(o.action for o in outcomes))
    colours = list(COLOUR.values())
    ran = [o for o in outcomes if o.observed]
    data = []
    for i, action in enumerate(actions):
        some, words = [o for o in ran if o.action == action], action.replace("_", " ")
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": words,
                "x": [o.predicted for o in some],
                "y": [o.observed for o in some],
                "text": [f"{o.problem} ({class_name(o.cls)})" for o in some],
                "marker": {"color": colours[i % len(colours)], "size": 9, "symbol": i},
                "hovertemplate": f"{words}: %{{text}}<br>predicted %{{x:.2f}}x, observed %{{y:.2f}}x<extra></extra>",
            }
        )
    values = [v for o in ran for v in (o.predicted, o.observed) if v]
    low, high = min([0.9, *values]) * 0.95, max([1.5, *values]) * 1.05
    shapes = [{"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "line": {"color": INK, "width": 1}}]
    span = [rounded_log10(low), rounded_log10(high)]
    layout = plot_layout(
        "levers",
        axis("predicted speedup", type="log", range=span),
        axis("observed speedup", type="log", range=span),
        shapes=shapes,
    )
    rows = [
        {"action": o.action, "problem": o.problem, "class": o.cls, "predicted": round(o.predicted, 4),
         "observed": None if o.observed is None else round(o.observed, 4)}
        for o in outcomes
    ]  # fmt: skip
    return Figure({"data": data, "layout": layout}, rows, "Levers: predicted against observed")
