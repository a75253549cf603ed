"""Figures about choices: what stopping earlier costs and saves, and whether levers kept what they promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sol.budget import STUDY, Policy
from sol.figures.figure import Figure, across, axis, down, layout, scatter, ticks
from sol.figures.palette import COLOUR, INK, MUTED, class_name, rounded_log10
from sol.triage import Outcome


def policies(
    grid: Sequence[Policy],
    front: Sequence[Policy],
    chosen: Policy | None = None,
    keep: float = 0.96,
    save: float = 0.43,
) -> Figure:
    """Every stop policy of a grid: trials saved against speedup kept, the Pareto front joined, the chosen one a star,
    that of the μCUTLASS study (sol.budget.STUDY) a diamond.

    `keep`, `save`: what was published (speedup kept, cost saved), drawn as lines. Rows: one a policy.
    """
    on = {(p.eps, p.window) for p in front}
    rest = [p for p in grid if (p.eps, p.window) not in on]
    data = [
        _policies(rest, "policies", "markers", color=MUTED, size=7, symbol="circle-open"),
        _policies(front, "Pareto front", "lines+markers", color=COLOUR["f32"], size=8, symbol="circle"),
    ]
    if theirs := [p for p in grid if (p.eps, p.window) == STUDY]:
        data.append(
            _policies(
                theirs, "best of the μCUTLASS study", "markers", color=COLOUR["tf32"], size=20, symbol="diamond-open"
            )
        )
    if chosen is not None:
        star = _policies([chosen], "best that keeps enough", "markers", color=COLOUR["fp8"], size=15, symbol="star")
        data.append(star)
    low = min([100 * keep, *(100 * p.speedup_kept for p in grid)])
    figure_layout = layout(
        "policies", axis("trials saved, %", range=[-2, 102]), axis("speedup kept, %", range=[low - 1, 100.5]),
        shapes=[across(100 * keep, INK, "dot"), down(100 * save, INK, "dot")],
    )  # fmt: skip
    rows = [
        {"eps": p.eps, "window": p.window, "trials saved": round(p.trials_saved, 4),
         "speedup kept": round(p.speedup_kept, 4), "efficiency": round(p.efficiency, 3),
         "front": (p.eps, p.window) in on}
        for p in grid
    ]  # fmt: skip
    title = "What stopping earlier costs and saves"
    return Figure({"data": data, "layout": figure_layout}, rows, title, f"{title}.")


def _policies(some: Sequence[Policy], name: str, mode: str, **marker: Any) -> dict[str, Any]:
    hover = "%{text}<br>%{x:.0f}% of the trials saved, %{y:.1f}% of the speedup kept<extra></extra>"
    return scatter(
        mode=mode, name=name, x=[round(100 * p.trials_saved, 3) for p in some],
        y=[round(100 * p.speedup_kept, 3) for p in some], marker=marker,
        text=[f"eps {p.eps:g}, window {p.window}, {p.efficiency:.2f}x efficiency" for p in some],
        line={"color": marker["color"], "width": 1.5, "shape": "vh"}, hovertemplate=hover,
    )  # fmt: skip


def levers(outcomes: Sequence[Outcome]) -> Figure:
    """Predicted against observed gain of each lever tried: on the diagonal it kept its promise. Rows: one a try."""
    actions = list(dict.fromkeys(o.action for o in outcomes))
    colours = list(COLOUR.values())
    ran = [o for o in outcomes if o.observed]
    data = []
    for i, action in enumerate(actions):
        some, words = [o for o in ran if o.action == action], action.replace("_", " ")
        data.append(
            scatter(
                mode="markers", name=words, x=[o.predicted for o in some], y=[o.observed for o in some],
                text=[f"{f'{o.problem} ' if o.problem else ''}{class_name(o.cls)}" for o in some],
                marker={"color": colours[i % len(colours)], "size": 9, "symbol": i},
                hovertemplate=f"{words}: %{{text}}<br>predicted %{{x:.2f}}x, observed %{{y:.2f}}x<extra></extra>",
            )
        )  # fmt: skip
    values = [v for o in ran for v in (o.predicted, o.observed) if v]
    low, high = min([0.9, *values]) * 0.95, max([1.5, *values]) * 1.05
    diagonal = {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "line": {"color": INK, "width": 1}}
    span = {"type": "log", "range": [rounded_log10(low), rounded_log10(high)], **ticks(low, high)}
    figure_layout = layout(
        "levers", axis("predicted speedup", **span), axis("observed speedup", **span), shapes=[diagonal]
    )
    rows = [
        {"action": o.action, "problem": o.problem, "class": o.cls, "predicted": round(o.predicted, 4),
         "observed": None if o.observed is None else round(o.observed, 4)}
        for o in outcomes
    ]  # fmt: skip
    title = "Levers: predicted against observed"
    return Figure({"data": data, "layout": figure_layout}, rows, title, f"{title}.")
