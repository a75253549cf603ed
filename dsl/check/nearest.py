"""The way out of a configuration that no back end takes: the nearest clauses that pass.

A stage may break several rules. Each help assumes the helps of the errors above it, so a reader who applies them in
turn, or applies one and checks again, reaches a program that passes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import log2

from dsl.fixes import Help, LeaveClauses, SetArch, help_of, leave_clause, or_else, write_clause
from dsl.ir import Config
from dsl.resolve import possible
from dsl.rules import legal

CLAUSES = ("tile", "cluster", "schedule", "scheduler", "stages", "swizzle")
COVERED_ARCH = help_of("arch sm_90a", SetArch("sm_90a"))
# The clauses that end an error, the nearest first, where another clause may give way too.
_GIVES_WAY = {"E204": ("stages", "tile"), "E207": ("schedule", "tile"), "E209": ("schedule", "tile")}
_Way = tuple[str, Config]  # the clause that changes, and the configuration with the change


def helps(
    p: legal.Problem,
    c: Config,
    choices: tuple[str, ...],
    broken: list[legal.Objection],
    beside: list[legal.Objection],
) -> list[Help | None]:
    """The help for each broken rule.

    `choices`: the back ends that the stage may use. `beside`: the rules that it breaks on the back end beside the one
    of `broken`, so that a help also names the change with which that one takes the stage.
    """
    if any(o.code == "E212" for o in broken):  # the backend clause is left out first
        c, choices = replace(c, backend=None), legal.BACKENDS
    open_ = {o.clause for o in broken} & set(CLAUSES)  # clauses with an error that no help above has ended
    out: list[Help | None] = []
    last: Help | None = None
    for o in broken:
        help = _of_rule(p, c, o, choices)
        if help is None and last is not None and _passes(p, c, choices):
            help = last
        if help is None:
            others = dict.fromkeys(open_ - {o.clause})  # auto
            order = _GIVES_WAY.get(o.code, (o.clause,))
            ways = _ways(p, c, order, choices) or _ways(p, replace(c, **others), order, choices, now=c)
            if o not in beside:
                ways += _ways(p, c, tuple({x.clause: 0 for x in beside if x.clause not in order}), choices)
            if ways:
                clause, changed = ways[0]
                c, open_ = replace(c, **{clause: getattr(changed, clause)}), open_ - {clause}
                help = last = or_else(*(say(*way, fits=o.code == "E204") for way in ways))
        out.append(help)
    return out


def _of_rule(p: legal.Problem, c: Config, o: legal.Objection, choices: tuple[str, ...]) -> Help | None:
    """The help of a rule whose way out needs no search; None for the other rules."""
    if o.code == "E212":
        return help_of("leave the backend clause out", LeaveClauses(("backend",)))
    if o.code == "E201":
        return COVERED_ARCH
    if o.code == "E202":
        if p.compute.bits == 8:
            return or_else(COVERED_ARCH, "transform the operands to f16")
        return help_of("leave compute to auto", LeaveClauses(("compute",)))
    if o.code == "E208":
        other = o.schedule if o.schedule and _passes(p, replace(c, schedule=o.schedule), choices) else None
        return or_else(write_clause("scheduler", "persistent"), other and write_clause("schedule", other))
    if o.code == "E207" and legal.schedules(p) == (None,):
        return leave_clause("schedule")
    return leave_clause(o.clause) if o.code == "E216" else None


def _ways(
    p: legal.Problem, c: Config, clauses: tuple[str, ...], choices: tuple[str, ...], now: Config | None = None
) -> list[_Way]:
    """The changes of one of these clauses of `c` that pass, at most one each; `now`: the clauses as written."""
    ways = []
    for clause in clauses:
        if clause in ("stages", "schedule") and getattr(now or c, clause) is None:
            continue
        written = getattr(now or c, clause)
        nearest = [f for f in (_nearest(p, c, clause, written, b) for b in choices) if f is not None]
        if nearest:
            ways.append((clause, min(nearest, key=lambda f: distance(written, getattr(f, clause)))))
    return ways


def say(clause: str, c: Config, fits: bool = False) -> Help:
    """The help that names the value of a clause in `c`; `fits`: in answer to a tile that does not fit."""
    value = getattr(c, clause)
    if clause == "scheduler":
        return write_clause(clause, value.kind + (f"({value.splits})" if value.kind == "split_k" else ""))
    written = write_clause(clause, legal.dims(value) if isinstance(value, tuple) else str(value))
    if clause == "stages" and fits:
        return replace(written, text=f"{value} stages fit ({written.text})")
    if clause == "tile" and c.stages:
        return replace(written, text=f"{written.text} with {c.stages}")
    return written


def distance(a, b) -> float:
    """The distance between two values of one clause; of sizes in halvings and doublings."""
    if isinstance(a, tuple):
        steps = [abs(log2(max(x, 0.5) / y)) for x, y in zip(a, b, strict=True)]
        return sum(steps) + max(steps) / 2
    return abs(a - b) if isinstance(a, int) else 0


def _passes(p: legal.Problem, c: Config, choices: tuple[str, ...]) -> bool:
    return any(not legal.objections(p, c, b) for b in choices) and possible(p, c)


def _nearest(p: legal.Problem, c: Config, clause: str, now, backend: str) -> Config | None:
    """`c` with the value of one clause that is nearest to `now`, differs from it and passes; None if there is none."""
    options: list
    if clause == "tile":
        options = sorted(legal.tiles_for(p), key=lambda t: -t[0] * t[1])  # of two as near, the larger one
    elif clause == "cluster":
        options = [(m, n, 1) for m, n in product((1, 2, 4, 8), repeat=2) if m * n <= 8]
    elif clause == "stages":
        options = list(range(legal.MIN_STAGES, legal.MAX_STAGES + 1))
    elif clause == "schedule":
        options = list(legal.SCHEDULES)
    elif clause == "swizzle":
        options = list(legal.SWIZZLES)
    else:
        return None
    if now is not None:
        options.sort(key=lambda o: distance(now, o))
    for option in options:
        changed = replace(c, **{clause: option})
        if option != now and not legal.objections(p, changed, backend) and possible(p, changed):
            return changed
    return None
