"""Figures of a bench: the share of problems that are faster by p, and speedup against what is left to the limit.

Of the make of `sol.figures.charts`: plain Plotly JSON, each with the rows of a table that says the same; all measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bench.report.speedups import allowed
from engine.bench.report.table import NAMES, Line
from sol.figures.palette import COLOUR, INK, axis, colour, plot_layout, rounded_log10, symbol
from sol.figures.plots import Figure

PS = tuple(round(0.5 * 20 ** (i / 80), 4) for i in range(81))  # from 0.5 to 10, evenly on a log axis
TOLD = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)  # those of the table
_LINE = {  # colour and dash of a baseline
    "eager": (COLOUR["f32"], "solid"), "eager_tf32": (COLOUR["tf32"], "solid"), "eager_f16": (COLOUR["f16"], "solid"),
    "compile": (COLOUR["fp8"], "dash"), "compile_max": (COLOUR["f64"], "dot"),
    "eager_bf16": (COLOUR["bf16"], "solid"), "compile_f32": (COLOUR["f32"], "dash"),
    "compile_max_f32": (COLOUR["f32"], "dot"), "compile_f16": (COLOUR["f16"], "dash"),
    "compile_max_f16": (COLOUR["f16"], "dot"), "compile_bf16": (COLOUR["bf16"], "dash"),
    "compile_max_bf16": (COLOUR["bf16"], "dot"),
}  # fmt: skip


def share(speedups: Sequence[float], p: float) -> float:
    """fast-p: the share of problems that are more than p times as fast (KernelBench)."""
    return sum(s > p for s in speedups) / len(speedups) if speedups else 0.0


def fast_p(found: Sequence[Line], cls: str) -> Figure:
    """A line a baseline: of all problems, how many are faster than p times it. A problem without a program counts as
    eager. Rows: p, one column a baseline."""
    over = {n: [x.over[n] for x in found if n in x.over] for n in allowed(cls)}
    over = {n: values for n, values in over.items() if values}
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": NAMES[n],
            "x": list(PS),
            "y": [round(100 * share(values, p), 2) for p in PS],
            "line": {"color": _LINE[n][0], "dash": _LINE[n][1], "width": 2, "shape": "hv"},
            "hovertemplate": f"%{{y:.0f}}% are more than %{{x:.2f}} times as fast as {NAMES[n]}<extra></extra>",
        }
        for n, values in over.items()
    ]
    line = {"color": INK, "width": 1, "dash": "dot"}
    shapes = [{"type": "line", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "line": line}]
    layout = plot_layout(
        f"fast-p {cls}",
        axis("p, times the baseline's speed", type="log", range=[rounded_log10(0.5), rounded_log10(10)],
             tickvals=[0.5, 1, 2, 3, 5, 10], ticktext=["0.5", "1", "2", "3", "5", "10"]),
        axis("% of problems faster than that", range=[0, 101]),
        shapes=shapes,
    )  # fmt: skip
    rows = [{"p": p, **{NAMES[n]: round(share(values, p), 4) for n, values in over.items()}} for p in TOLD]
    words = ", ".join(f"{share(v, 1.0):.0%} of {NAMES[n]}" for n, v in over.items())
    return Figure(
        {"data": data, "layout": layout}, rows,
        f"Share of {len(found)} problems that are faster than p times a baseline in {cls}. Faster at all: {words}.",
    )  # fmt: skip


def speedup_gap(found: Mapping[str, Sequence[Line]]) -> Figure:
    """Each problem's speedup over PyTorch's best way in the class against its distance to the limit. `found`: class ->
    lines. Rows: problem, class, speedup, the baseline, gap."""
    data: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for cls, some in found.items():
        shown = [x for x in some if x.trial and x.against]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": cls,
                "x": [round(x.trial["gap"], 4) for x in shown],
                "y": [round(x.against, 4) for x in shown],
                "text": [f"{x.pid} {x.module}" for x in shown],
                "marker": {"color": colour(cls), "symbol": symbol(cls, "measured"), "size": 9},
                "hovertemplate": "%{text}<br>%{y:.2f} times as fast as the best of PyTorch, %{x:.2f} times the limit"
                f"<extra>{cls}</extra>",
            }
        )
        rows += [
            {"problem": x.module, "class": cls, "speedup": round(x.against, 3), "over": NAMES[x.rival],
             "gap": round(x.trial["gap"], 3)}
            for x in shown
        ]  # fmt: skip
    gaps, speeds = [r["gap"] for r in rows], [r["speedup"] for r in rows]
    line = {"color": INK, "width": 1}
    shapes = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": line},
        {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 1, "x1": 1, "line": line | {"dash": "dash"}},
    ]
    low, high = 0.9 * min([0.8, *speeds]), 1.1 * max([2.0, *speeds])
    layout = plot_layout(
        "speedup and gap",
        axis("gap: time over the limit", type="log", range=[rounded_log10(0.9), rounded_log10(1.1 * max([2.0, *gaps]))],
             **_ticks(0.9, 1.1 * max([2.0, *gaps]))),
        axis("speedup over PyTorch's best", type="log", range=[rounded_log10(low), rounded_log10(high)],
             **_ticks(low, high)),
        shapes=shapes,
    )  # fmt: skip
    title = (
        "Speedup over the fastest of PyTorch's ways against the distance to the limit. Left of the dashed line lies "
    )
    return Figure({"data": data, "layout": layout}, rows, f"{title}what the hardware cannot do.")


def _ticks(low: float, high: float) -> dict[str, Any]:
    """Plain numbers on a log axis."""
    steps = (1, 2, 3, 5, 7) if high / low < 12 else (1, 2, 5)
    values = [s * d for d in (0.1, 1, 10, 100) for s in steps if low <= s * d <= high]
    return {"tickvals": [round(v, 4) for v in values], "ticktext": [f"{v:g}" for v in values]}
