"""What of each module is covered, and how fast the covered part is: a module that one program is, or its regions.

Speedup on what is covered: the sum of a baseline's times of the regions over the sum of ours. A region without a right
program counts as eager as shipped.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.judge import allowed, mean
from engine.bench.table import NAMES, Line, line


@dataclass(frozen=True)
class Covered:
    """`units`: the lines of the module itself or of its regions; `share`: of the module's time at its limit that is
    covered, None where the module is refused; `rest`: what stays PyTorch, each operation once with its lines."""

    module: str
    units: tuple[Line, ...]
    share: float | None
    rest: tuple[str, ...]
    over: dict[str, float]
    why: str = ""

    @property
    def whole(self) -> bool:
        return len(self.units) == 1 and self.units[0].module == self.module


def modules(problems: dict[str, dict], cls: str) -> list[Covered]:
    """One a module, in the file's order; regions stand under theirs."""
    return [_covered(m, row, problems, cls) for m, row in problems.items() if "#" not in m]


def summary(found: list[Covered]) -> dict[str, float]:
    """{baseline: geometric mean over modules}; a module of which nothing is covered has no part in it."""
    names = dict.fromkeys(n for c in found for n in c.over)
    return {n: mean([c.over[n] for c in found if n in c.over]) for n in names}


def _covered(module: str, row: dict, problems: dict[str, dict], cls: str) -> Covered:
    inside = [r for r in row.get("regions", ()) if r in problems]
    units = tuple(line(m, problems[m], cls) for m in inside or [module])
    if inside:
        share = min(1.0, sum(problems[r]["region"]["share"]["time"] for r in inside))
    else:
        share = None if row["refused"] else 1.0
    over = {} if share is None else {n: s for n in allowed(cls) if (s := _speedup(units, n)) is not None}
    return Covered(module, units, share, _rest(row.get("uncovered", ())), over, row["refused"])


def _speedup(units: tuple[Line, ...], name: str) -> float | None:
    theirs = ours = 0.0
    for u in units:
        if u.trial is not None and name in u.over:
            ours += u.trial["ms"]
            theirs += u.trial["ms"] * u.over[name]
        elif u.trial is None and {name, "eager"} <= u.baselines.keys():
            ours += u.baselines["eager"]
            theirs += u.baselines[name]
        else:
            return None
    return theirs / ours if ours else None


def _rest(uncovered: list[dict] | tuple) -> tuple[str, ...]:
    at: dict[str, list[int]] = {}
    for u in uncovered:
        lines = at.setdefault(u["op"], [])
        if u["line"] and u["line"] not in lines:
            lines.append(u["line"])
    return tuple(
        f"{op} (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))})" if lines else op
        for op, lines in at.items()
    )


def words(problems: dict[str, dict], cls: str) -> list[str]:
    """For a terminal: a line a module, then the means."""
    found = modules(problems, cls)
    said = [f"\n{cls}: what is covered, and its speedup"]
    for c in found:
        over = ", ".join(f"{v:.2f}x {NAMES[n]}" for n, v in c.over.items()) or "nothing was timed"
        what = "refused" if c.share is None else "whole" if c.whole else f"{len(c.units)} regions, {c.share:.1%}"
        rest = f"; stays PyTorch: {', '.join(c.rest)}" if c.rest else f"; {c.why}"[:120] if c.why else ""
        said.append(f"{c.module:34} {what:20} {over}{rest}")
    means = ", ".join(f"{v:.2f}x {NAMES[n]}" for n, v in summary(found).items())
    return [*said, f"geometric means over modules: {means or 'nothing was timed'}"]
