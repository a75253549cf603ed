"""Where the time goes: what each unit would need alone, the limit that they set, PyTorch and the best trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sol.figures.figure import Figure, axis, bar, layout
from sol.figures.palette import CLEAR, FAINT, INK, LIMIT, class_name, colour
from sol.render import ms as time_words

UNITS = {
    "matrix": "matrix units", "vector": "arithmetic pipes", "special": "special functions", "memory": "memory",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A time of the module in ms. `kind`: measured | predicted."""

    name: str
    ms: float
    kind: str


def breakdown(
    report: Mapping[str, Any], cls: str, best: Run | None = None, baseline: Run | None = None
) -> Figure | None:
    """Bars of one class of a SOL report (as plain data); None where the report lacks the class. `best`: of our trials,
    `baseline`: PyTorch's. A bound is pale grey, a prediction hollow. Rows: what, ms, kind, share of the slowest."""
    bound = report["bounds"].get(cls)
    if bound is None:
        return None
    bars = [
        (f"{UNITS.get(unit, unit)} alone", ms, FAINT, "bound") for unit, ms in bound["parts"].items() if ms > 0
    ]  # fmt: skip
    bars.append(("limit", bound["ms"], LIMIT, "bound"))
    if best is not None:
        bars.append((f"{best.name}, {best.kind}", best.ms, colour(cls), best.kind))
    if baseline is not None:
        bars.append((f"{baseline.name}, {baseline.kind}", baseline.ms, INK, baseline.kind))
    most = max(ms for _, ms, _, _ in bars) or 1.0
    data = bar(
        x=[ms for _, ms, _, _ in bars], y=[name for name, *_ in bars],
        text=[time_words(ms) for _, ms, _, _ in bars], textangle=0, cliponaxis=False, showlegend=False,
        # A number stands beside its bar: on a pale one no ink reads in both themes.
        textposition="outside", outsidetextfont={"color": INK}, hoverinfo="skip",
        marker={"color": [CLEAR if kind == "predicted" else ink for _, _, ink, kind in bars],
                "line": {"color": [ink for _, _, ink, _ in bars], "width": 1.6}},
    )  # fmt: skip
    figure_layout = layout(
        "breakdown", axis(f"ms, {class_name(cls)}", range=[0, most * 1.4]),
        axis("", autorange="reversed", type="category"), bargap=0.35,
    )  # fmt: skip
    rows = [
        {"what": name, "ms": round(ms, 5), "kind": kind, "share of the slowest": round(ms / most, 4)}
        for name, ms, _, kind in bars
    ]
    caption = sentence(report, cls, baseline)
    return Figure({"data": [data], "layout": figure_layout}, rows, f"Where the time goes in {class_name(cls)}", caption)


SET_BY = {
    "matrix": "the matrix units", "vector": "the arithmetic pipes", "special": "the special function units",
    "memory": "memory bandwidth",
}  # fmt: skip


def sentence(report: Mapping[str, Any], cls: str, baseline: Run | None) -> str:
    """What the bars say: of the class that is drawn and with the very baseline that is drawn, no other."""
    bound = report["bounds"][cls]
    kernels = f"no kernel on {report['gpu']['title']}{bound.get('holds_for', '')}"
    text = f"In {class_name(cls)} {kernels} can be faster than {time_words(bound['ms'])}"
    if bound.get("launch_ms"):
        text += f", but starting one takes about {time_words(bound['launch_ms'])}, which binds it"
        return f"{text}{f'; PyTorch takes {time_words(baseline.ms)} ({baseline.kind})' if baseline else ''}."
    if bound["bound_by"] in SET_BY:
        text += f", a limit set by {SET_BY[bound['bound_by']]}"
    if baseline is not None:
        text += f"; PyTorch takes {time_words(baseline.ms)} ({baseline.kind})"
        text += f", {baseline.ms / bound['ms']:.2f} times that" if bound["ms"] > 0 else ""
    lever = next((x["title"] for x in report.get("levers", ()) if x["action"] != "lower_class"), "")
    return f"{text}.{f' The first thing to try: {lever[0].lower()}{lever[1:]}.' if lever else ''}"
