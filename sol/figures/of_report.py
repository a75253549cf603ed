"""The figures that a SOL report has by itself, and where a time of its module lies on its roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sol.budget import launch_binds
from sol.figures.breakdown import Run, breakdown
from sol.figures.figure import Figure
from sol.figures.roofline import Point, roofline, roofs_of_report
from sol.model.tiles import LAUNCH_MS
from sol.render import ms as time_words

Report = Mapping[str, Any]  # a sol.report as plain data
SLOW = 4.0  # times PyTorch's time: what is slower lies beyond the axis


def flops(report: Report) -> float:
    """What the module must compute, in all units; older reports have what PyTorch counts alone."""
    totals = report["totals"]
    return totals.get("needed_flops", totals["matrix_flops"]) + totals["vector_flops"]


def point(
    report: Report, label: str, cls: str, ms: float, kind: str, marker: str = "trial", trial: int | None = None
) -> Point:
    """A time of the whole module. All points of a class lie on one vertical line: the module's own FLOPs over its
    compulsory bytes in the class. Raises KeyError for a class that the report lacks."""
    return Point(label, kind, report["bounds"][cls]["intensity"], flops(report) / (ms * 1e-3), cls, marker, trial, ms)


def spans(report: Report) -> list[tuple[float, float]]:
    """The (FLOP/byte, FLOP/s) that a roofline of the report shows, whatever was timed: of every class the ridge, the
    limit, and a time of SLOW times PyTorch's."""
    work, bandwidth = flops(report), report["gpu"]["bandwidth"]
    out = []
    for cls, b in report["bounds"].items():
        out += [(b["peak"] / bandwidth, b["peak"]), (b["intensity"], min(b["peak"], bandwidth * b["intensity"]))]
        if theirs := report["baselines"].get(cls, {}).get("ms"):
            out.append((b["intensity"], work / (SLOW * theirs * 1e-3)))
    return out


def launch_note(report: Report, classes: Sequence[str]) -> str:
    """A sentence for a module whose work takes far less time in these classes than starting a kernel, else ""."""
    limits = [report["bounds"][c]["ms"] for c in classes if c in report["bounds"]]
    if not limits or not launch_binds(max(limits)):
        return ""
    return f"Launch binds: starting one kernel takes about {time_words(LAUNCH_MS)}, far longer than the work itself."


def figures(report: Report) -> dict[str, Figure]:
    """{roofline, breakdown} with PyTorch's times and the best ones, as far as the report has them."""
    roofs = roofs_of_report(report, report["classes"])
    theirs, best = report["baselines"], report.get("best", {})
    drawn: dict[str, Figure] = {}
    if roofs and flops(report):
        points = [point(report, "PyTorch", c, b["ms"], b["kind"], "baseline") for c, b in theirs.items() if b["ms"]]
        points += [point(report, "best", c, b["ms"], "measured", "best") for c, b in best.items() if b["ms"]]
        note = launch_note(report, report["classes"])
        drawn["roofline"] = roofline(roofs, points, report["gpu"]["title"], note=note)
    cls = next(iter(best), "") or report.get("main") or next(iter(report["classes"]), "")
    mine = Run("best", best[cls]["ms"], "measured") if cls in best else None
    base = Run("PyTorch", theirs[cls]["ms"], theirs[cls]["kind"]) if cls in theirs else None
    bars = breakdown(report, cls, mine, base)
    return drawn | ({"breakdown": bars} if bars is not None else {})
