"""Figures of a bench: the share of problems that are faster by p, and speedup against distance to the limit.

In the format of `sol.figures`; all measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bench.report.speedups import allowed
from engine.bench.report.table import NAMES, Line
from sol.figures.figure import Figure, across, axis, down, layout, scatter, ticks
from sol.figures.palette import COLOUR, INK, class_name, marker, rounded_log10

PS = tuple(round(0.5 * 20 ** (i / 80), 4) for i in range(81))  # from 0.5 to 10, evenly on a log axis
TOLD = (0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)  # those in the table
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


def fast_p(table: Sequence[Line], cls: str) -> Figure:
    """One line per baseline: how many of all problems are faster than p times it. A problem without a program counts as
    eager. Rows: p, one column per baseline."""
    over = {n: [x.over[n] for x in table if n in x.over] for n in allowed(cls)}
    over = {n: values for n, values in over.items() if values}
    data = [
        scatter(
            mode="lines", name=NAMES[n], x=list(PS), y=[round(100 * share(values, p), 2) for p in PS],
            line={"color": _LINE[n][0], "dash": _LINE[n][1], "width": 2, "shape": "hv"},
            hovertemplate=f"%{{y:.0f}}% are more than %{{x:.2f}} times as fast as {NAMES[n]}<extra></extra>",
        )
        for n, values in over.items()
    ]  # fmt: skip
    figure_layout = layout(
        f"fast-p {cls}",
        axis("p, times the baseline's speed", type="log", range=[rounded_log10(0.5), rounded_log10(10)],
             tickvals=[0.5, 1, 2, 3, 5, 10], ticktext=["0.5", "1", "2", "3", "5", "10"]),
        axis("% of problems faster than that", range=[0, 101]),
        shapes=[down(1, INK, "dot")],
    )  # fmt: skip
    rows = [{"p": p, **{NAMES[n]: round(share(values, p), 4) for n, values in over.items()}} for p in TOLD]
    words = ", ".join(f"{share(v, 1.0):.0%} of {NAMES[n]}" for n, v in over.items())
    title = f"Share of {len(table)} problems that are faster than p times a baseline in {cls}"
    return Figure({"data": data, "layout": figure_layout}, rows, title, f"{title}. Faster at all: {words}.")


def speedup_gap(by_class: Mapping[str, Sequence[Line]]) -> Figure:
    """Each problem's speedup over PyTorch's best mode in the class against its distance to the limit.
    `by_class`: class -> lines. Rows: problem, class, speedup, the baseline, gap."""
    data: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for cls, some in by_class.items():
        shown = [x for x in some if x.trial and x.against]
        data.append(
            scatter(
                mode="markers", name=class_name(cls), x=[round(x.trial["gap"], 4) for x in shown],
                y=[round(x.against, 4) for x in shown], text=[f"{x.pid} {x.module}" for x in shown],
                marker=marker(cls, "measured"),
                hovertemplate="%{text}<br>%{y:.2f} times as fast as the best of PyTorch, %{x:.2f} times the limit"
                f"<extra>{cls}</extra>",
            )
        )  # fmt: skip
        rows += [
            {"problem": x.module, "class": cls, "speedup": round(x.against, 3), "over": NAMES[x.rival],
             "gap": round(x.trial["gap"], 3)}
            for x in shown
        ]  # fmt: skip
    gaps, speeds = [r["gap"] for r in rows], [r["speedup"] for r in rows]
    low, high, far = 0.9 * min([0.8, *speeds]), 1.1 * max([2.0, *speeds]), 1.1 * max([2.0, *gaps])
    figure_layout = layout(
        "speedup and gap",
        axis("gap: time over the limit", type="log", range=[rounded_log10(0.9), rounded_log10(far)],
             **ticks(0.9, far, _steps(0.9, far))),
        axis("speedup over PyTorch's best", type="log", range=[rounded_log10(low), rounded_log10(high)],
             **ticks(low, high, _steps(low, high))),
        shapes=[across(1, INK), down(1, INK, "dash")],
    )  # fmt: skip
    title = "Speedup over the fastest of PyTorch's ways against the distance to the limit"
    caption = f"{title}. Left of the dashed line lies what the hardware cannot do."
    return Figure({"data": data, "layout": figure_layout}, rows, title, caption)


def _steps(low: float, high: float) -> tuple[float, ...]:
    """The marks of a log axis in each decade: more of them on a short axis."""
    return (1, 2, 3, 5, 7) if high / low < 12 else (1, 2, 5)
