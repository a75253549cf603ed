"""Figures of a comparison, in the format of sol.figures: Fast-p, Attempt-Fast-p, and speed by what was spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.bench.compare.metrics import (
    NEAR,
    Row,
    against_the_best,
    attempt_fast_p,
    best,
    by_spending,
    groups,
    most_attempts,
)
from sol.figures.figure import Figure, axis, down, layout, scatter, ticks
from sol.figures.palette import COLOUR, INK, rounded_log10

PS = tuple(round(0.25 * 40 ** (i / 80), 4) for i in range(81))  # from 0.25 to 10, evenly on a log axis
TOLD = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
DASHES = ("solid", "dash", "dot")
UNITS = {"tokens": "model tokens of a session", "used": "evaluations of a session", "t": "seconds of a session",
         "cost": "US dollars of a session"}  # fmt: skip


def figures(rows: Sequence[Row], kind: str) -> dict[str, Figure]:
    """Name -> figure. `kind`: predicted | measured."""
    drawn = {
        "fast-p": fast_p(rows, kind),
        "attempts": attempts(rows, kind, 2.0),
        "near-best": near_best(rows, kind),
        "evaluations": spent(rows, kind, "used"),
    }
    if any(t.get("tokens") for row in rows for t in row["trials"]):
        drawn["tokens"] = spent(rows, kind, "tokens")
    if any(t.get("cost") for row in rows for t in row["trials"]):
        drawn["cost"] = spent(rows, kind, "cost")
    return drawn


def _look(i: int) -> dict[str, Any]:
    colours = list(COLOUR.values())
    return {"color": colours[i % len(colours)], "dash": DASHES[i % len(DASHES)], "width": 2}


def _figure(name: str, x: dict, y: dict, data: list, rows: list, title: str, caption: str, **more: Any) -> Figure:
    return Figure({"data": data, "layout": layout(name, x, y, **more)}, rows, title, f"{title}. {caption}")


def fast_p(rows: Sequence[Row], kind: str) -> Figure:
    """One line an arm: the share of its sessions whose own best is more than p times as fast as PyTorch."""
    by = {arm: [best(r) or 0.0 for r in some] for arm, some in groups(rows, lambda r: r["arm"]).items()}

    def share(values: list[float], p: float) -> float:
        return sum(v > p for v in values) / len(values)

    data = [
        scatter(
            mode="lines", name=arm, x=list(PS), y=[round(100 * share(v, p), 2) for p in PS],
            line={**_look(i), "shape": "hv"},
            hovertemplate=f"{arm}: %{{y:.0f}}% are more than %{{x:.2f}} times as fast<extra></extra>",
        )
        for i, (arm, v) in enumerate(by.items())
    ]  # fmt: skip
    x = axis("p, times the speed of PyTorch", type="log", range=[rounded_log10(0.25), rounded_log10(10)],
             **ticks(0.25, 10))  # fmt: skip
    y = axis("% of sessions faster than that", range=[0, 101])
    table = [{"p": p, **{arm: round(share(v, p), 4) for arm, v in by.items()}} for p in TOLD]
    title = f"Fast-p: share of sessions that are more than p times as fast as PyTorch, {kind}"
    caption = "A session without a right result is in no share."
    return _figure("compare fast-p", x, y, data, table, title, caption, shapes=[down(1, INK, "dot")])


def attempts(rows: Sequence[Row], kind: str, p: float) -> Figure:
    """One line an arm: Attempt-Fast-p."""
    title = f"Attempt-Fast-p({p:g}): share of sessions at {p:g} times PyTorch within k attempts, {kind}"
    return _within(rows, p, title, f"% of sessions at {p:g}x")


def near_best(rows: Sequence[Row], kind: str) -> Figure:
    """One line an arm: how soon its sessions come near the best known."""
    title = f"Share of sessions at {NEAR:.0%} of the best known speed within k attempts, {kind}"
    return _within(against_the_best(rows), NEAR, title, f"% of sessions at {NEAR:.0%} of the best")


def _within(rows: Sequence[Row], p: float, title: str, words: str) -> Figure:
    most = most_attempts(rows)
    by = {arm: attempt_fast_p(some, p, most) for arm, some in groups(rows, lambda r: r["arm"]).items()}
    ks = list(range(1, most + 1))
    data = [
        scatter(
            mode="lines+markers", name=arm, x=ks, y=[round(100 * v, 2) for v in line], line={**_look(i), "shape": "hv"},
            marker={"color": _look(i)["color"], "size": 5},
            hovertemplate=f"{arm}: %{{y:.0f}}% within %{{x}} attempts<extra></extra>",
        )
        for i, (arm, line) in enumerate(by.items())
    ]  # fmt: skip
    table = [{"attempts": k, **{arm: round(line[k - 1], 4) for arm, line in by.items()}} for k in ks]
    x, y = axis("attempts k", range=[0.5, most + 0.5]), axis(words, range=[0, 101])
    caption = "The mean distance between two lines is the signed area."
    return _figure(f"compare attempts {p:g}", x, y, data, table, title, caption)


def spent(rows: Sequence[Row], kind: str, unit: str) -> Figure:
    """One line an arm: the geometric mean with PyTorch kept by what a session had spent."""
    data, table, highest = [], [], 1.0
    for i, (arm, some) in enumerate(groups(rows, lambda r: r["arm"]).items()):
        line = by_spending(some, unit)
        highest = max(highest, *(v for _, v in line))
        data.append(
            scatter(
                mode="lines", name=arm, x=[round(s, 2) for s, _ in line], y=[round(v, 4) for _, v in line],
                line={**_look(i), "shape": "hv"}, hovertemplate=f"{arm}: %{{y:.2f}}x after %{{x:,.0f}}<extra></extra>",
            )
        )  # fmt: skip
        table += [{"arm": arm, unit: round(s, 2), "geomean": round(v, 4)} for s, v in line[:: len(line) // 8]]
    title = f"Speed over PyTorch by {UNITS[unit]}, {kind}"
    x, y = (
        axis(f"{UNITS[unit]}, mean", rangemode="tozero"),
        axis("geometric mean over PyTorch, PyTorch kept", range=[0.98, round(1.02 * highest + 0.01, 3)]),
    )
    return _figure(f"compare {unit}", x, y, data, table, title, "Each problem counts with PyTorch until it is beaten.")
