"""How much of each limit a run used, as a profiler's Speed-of-Light section shows it, with one sentence of advice."""

from __future__ import annotations

from typing import Any

from sol.figures.figure import Figure, axis, bar, layout
from sol.figures.palette import COLOUR, INK, class_name

UNITS = {
    "matrix": "matrix units",
    "vector": "arithmetic pipes",
    "special": "special functions",
    "memory": "device memory",
}
_INK_OF = {"matrix": COLOUR["f32"], "vector": COLOUR["bf16"], "special": COLOUR["f64"], "memory": COLOUR["tf32"]}
BUSY, IDLE = 0.8, 0.6  # above: at the limit; both below: neither unit is the reason (as Nsight Compute's rules say)


def shares(report: dict[str, Any], cls: str, ms: float, kind: str) -> Figure:
    """A share is the time that the unit alone would need for the module's compulsory work over `ms`, so it counts no
    wasted work. `report`: a sol.report as plain data. Rows: unit, ms alone, share of limit. Raises KeyError when the
    report has no such class."""
    parts = report["bounds"][cls]["parts"]
    used = {unit: parts.get(unit, 0.0) / ms if ms > 0 else 0.0 for unit in UNITS}
    shown = [u for u in UNITS if parts.get(u, 0.0) > 0]
    inks = [_INK_OF[u] for u in shown]
    data = bar(
        y=[UNITS[u] for u in shown], x=[round(100 * used[u], 2) for u in shown],
        marker={"color": inks, "opacity": 0.45 if kind == "predicted" else 1.0, "line": {"color": inks, "width": 1.5}},
        text=[f"{100 * used[u]:.0f}%" for u in shown], textangle=0, cliponaxis=False,
        textposition="outside",  # inside, it is white on the pale bar of a prediction
        outsidetextfont={"color": INK},
        hovertemplate=f"%{{y}}: %{{x:.1f}}% of the limit<extra>{kind}</extra>", showlegend=False,
    )  # fmt: skip
    over = max([100.0, *(100 * s for s in used.values())])
    figure_layout = layout(
        "shares", axis(f"% of the limit in {class_name(cls)} ({kind})", range=[0, over * 1.15]),
        axis("", autorange="reversed", type="category"), bargap=0.4,
    )  # fmt: skip
    rows = [{"unit": UNITS[u], "ms alone": round(parts[u], 5), "share of limit": round(used[u], 4)} for u in shown]
    caption = f"Share of each limit. {advice(report, cls, ms)}"
    return Figure({"data": [data], "layout": figure_layout}, rows, "Share of each limit", caption)


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
