"""The coverage of each module and its speed: a module that is one program, or its regions.

A session times a module in regions as a whole, so every speedup is of the whole module. In files without sessions a
region is a row, and a speedup is of the covered part: the sum of a baseline's times of the regions over the sum of
ours, where a region without a right program counts as eager as shipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.bench.report.speedups import allowed, mean
from engine.bench.report.table import NAMES, Line, line


@dataclass(frozen=True)
class Covered:
    """`units`: the lines of the module or of its regions; `share`: the covered share of the module's time at its limit,
    None if the module is refused; `rest`: the operations that stay PyTorch, each once with its lines; `over`: speedups
    on the covered part (in a session: on the module), `as_whole` on the module as a whole: by baseline, if it was
    timed; `regions`: their number, 0 for a module that is one program."""

    module: str
    units: tuple[Line, ...]
    share: float | None
    rest: tuple[str, ...]
    over: dict[str, float]
    why: str = ""
    as_whole: dict[str, float] = field(default_factory=dict)
    regions: int = 0

    @property
    def whole(self) -> bool:
        return not self.regions


def modules(problems: dict[str, dict], cls: str) -> list[Covered]:
    """One per module, in the file's order, with its regions."""
    return [_covered(m, row, problems, cls) for m, row in problems.items() if "#" not in m]


def summary(covered: list[Covered]) -> dict[str, float]:
    """{baseline: geometric mean over modules}, without modules that are not covered at all."""
    return _means([c.over for c in covered])


def of_wholes(covered: list[Covered]) -> dict[str, float]:
    """The same for modules as a whole, if that was timed, with PyTorch's part."""
    return _means([c.as_whole for c in covered])


def _means(over: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(n for one in over for n in one)
    return {n: mean([one[n] for one in over if n in one]) for n in names}


def _covered(module: str, row: dict, problems: dict[str, dict], cls: str) -> Covered:
    if "session" in row:
        return _of_session(module, row, cls)
    inside = [r for r in row.get("regions", ()) if r in problems]
    units = tuple(line(m, problems[m], cls) for m in inside or [module])
    if inside:
        share = min(1.0, sum(problems[r]["region"]["share"]["time"] for r in inside))
    else:
        share = None if row["refused"] else 1.0
    over = {} if share is None else {n: s for n in allowed(cls) if (s := _speedup(units, n)) is not None}
    itself = line(module, row, cls)
    as_whole = {n: itself.over[n] for n in allowed(cls) if n in itself.over} if itself.trial is not None else {}
    return Covered(module, units, share, _rest(row.get("uncovered", ())), over, row["refused"], as_whole, len(inside))


def _of_session(module: str, row: dict, cls: str) -> Covered:
    itself, part = line(module, row, cls), row.get("coverage")
    share = None if row["refused"] else part["share"]["time"] if part else 1.0
    over = {} if share is None else {n: itself.over[n] for n in allowed(cls) if n in itself.over}
    rest = _rest(row.get("uncovered", ()))
    return Covered(module, (itself,), share, rest, over, row["refused"], {}, part["regions"] if part else 0)


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
    """For a terminal: one line per module, then the means."""
    covered = modules(problems, cls)
    text = [f"\n{cls}: what is covered, and its speedup"]
    for c in covered:
        over = _ratios(c.over) or "nothing was timed"
        over += f"; as a whole {_ratios(c.as_whole)}" if c.as_whole and not c.whole else ""
        what = "refused" if c.share is None else "whole" if c.whole else f"{c.regions} regions, {c.share:.1%}"
        rest = f"; stays PyTorch: {', '.join(c.rest)}" if c.rest else f"; {c.why}"[:120] if c.why else ""
        text.append(f"{c.module:34} {what:20} {over}{rest}")
    means, wholes = _ratios(summary(covered)), _ratios(of_wholes(covered))
    text.append(f"geometric means over modules: {means or 'nothing was timed'}")
    if wholes:
        many = sum(bool(c.as_whole) for c in covered)
        text.append(f"geometric means over modules as a whole: {wholes} ({many} of {len(covered)} modules)")
    return text


def _ratios(over: dict[str, float]) -> str:
    return ", ".join(f"{v:.2f}x {NAMES[n]}" for n, v in over.items())
