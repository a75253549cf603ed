"""A committed bench as a report: engine/results/bench.md, the README's table, the table of the problems furthest from
their bound. Everything is computed from the results file, except why a problem is far and what would help, which is
written by hand (causes.toml); if nobody has written it, the table says so.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from engine.bench.report import coverage
from engine.bench.report.speedups import allowed
from engine.bench.report.table import (
    LOSING,
    NAMES,
    SECONDS_AIM,
    TRIALS_AIM,
    Line,
    lines,
    part,
    summary,
    unguarded,
    words,
)
from engine.words import count

CAUSES = Path(__file__).resolve().parents[2] / "results/causes.toml"
FURTHEST = 10
BESIDE = {  # for each set of modules outside the suite: its title, and what the planner had seen of it
    "outside": (
        "Modules outside the suite",
        "First timed whole on 2026-11-21 at commit 166759f, when nothing had been tuned on them: 1.38x torch.compile "
        "in tf32; chains of products were looked at since.",
    ),
    "heldout": ("Modules held out", "Written down before they were ever run, and nothing was changed because of them."),
}
MISSING = "*not written down yet*"
AIMS = {  # issue 6: geometric mean over eager as shipped, over the best of torch.compile, mean SOL score
    "tf32": {"eager": 4.0, "compile": 1.35, "score": 0.65},
    "f16": {"eager": 5.0},
}


def classes(results: dict[str, Any]) -> list[str]:
    """The classes of a results file's trials, tf32 first."""
    names = {t["class"] for row in results["problems"].values() for t in row["trials"]}
    return sorted(names, key=lambda c: (c != "tf32", c))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# For benches that ran the planner without sessions.
METHOD = (
    "Every time is a median of alternating pairs with the module in eager mode with TF32 allowed, L2 flushed, the",
    "events' own time taken off; speedups over the other baselines come from their own alternation with the same",
    "eager TF32. A problem without a right program counts as 1.0x of eager as shipped. Best of class: the fastest",
    "program that was held to the class's tolerance **or a finer one**: an f16 entry may be won by tf32 products,",
    "as `by` says. `x best`: over the fastest of PyTorch's ways that the class allows. `gap`: time over the limit.",
    "`SOL`: 1 at the limit, 0.5 at PyTorch's eager time of the class. `s`: tracing, planning, opening, every trial",
    "and the slowest build of each wave of trials.",
    "",
    "torch.compile runs with TF32 allowed in every class: it was not timed under autocast, so the means of f16",
    "over it are across classes. Autocast leaves its results in f16 where ours are float32: on a result much",
    "larger than the operands it writes half as much, and may be faster than the limit of what ours must write",
    "(SOL 0). A trial is held against float64 on one draw of the module's own inputs, a guarded one also where a",
    "row is 10^6 times as large, and one that is the class's best so far also on inputs 128 and 2^-10 times as",
    "large, within twice the error of autocast there; a session holds every trial on five families of inputs.",
)


def _sessions_method(settings: dict[str, Any]) -> list[str]:
    """`settings`: common to all sessions of the bench."""
    return [
        f"Each problem is one session, as a page starts it: strategy `{settings['strategy']}`, at most",
        f"{count(settings['trials'], 'trial')} over the classes {', '.join(settings['classes'])}, stop rule eps",
        f"{settings['eps']:g} and window {settings['window']}, seed {settings['seed']}. It begins from the results in",
        "this repository without those of the problem itself, and teaches nothing.",
        "",
        "A trial is validated on six rounds of inputs against the module in float64 and timed in alternation with",
        "PyTorch's eager way of its class, L2 flushed, the events' own time taken off. PyTorch's other ways are timed",
        "in alternation with the eager way of the first class; a speedup over them is a product of these ratios. A",
        "problem without a right program counts as 1.0x of eager as shipped. Best of class: the fastest program that",
        "was held to the class's tolerance **or a finer one**, as `by` says. `x best`: over the fastest of PyTorch's",
        "ways that the class allows. `gap`: time over the limit. `SOL`: 1 at the limit, 0.5 at PyTorch's eager time of",
        "the class. `s`: until the search began, and from one trial's end to the next for the trials of the class.",
    ]


def markdown(results: dict[str, Any], name: str) -> str:
    """`results`: a collected results file; `name`: its file name."""
    rows = [
        f"# The planner on {len(results['problems'])} problems",
        "",
        f"{results['gpu']}, driver {results['driver']}, {results['date']}; torch {results['toolchain']['torch']}.",
        f"Raw data: `{name}`; made by `{results['command']}`.",
        "",
        *(_sessions_method(results["sessions"]) if "sessions" in results else METHOD),
    ]
    for cls in classes(results):
        s = summary(results["problems"], cls)
        rows += [
            "",
            f"## {cls}",
            "",
            *(f"- {line}" for line in [*words(s, cls), *aims(s, cls)]),
            "",
            *table(results, cls),
        ]
    return "\n".join(rows)


def outside(which: str, results: dict[str, Any], name: str) -> list[str]:
    """The modules outside the suite: the coverage of each, the speed of that part, and what stays PyTorch."""
    title, standing = BESIDE[which]
    lines_out = [
        "", f"## {title}", "",
        f"{results['date']}; raw data: `{name}`; made by `{results['command']}`.",
        *([f"{standing} Speedups are of the module as a whole."] if "sessions" in results else
          [f"{standing} Speedups are of the part that is covered: the sum of PyTorch's times of the same",
           "regions over the sum of ours."]),
    ]  # fmt: skip
    lines_out[-1] += " The share is of the module's time at its limit."
    for cls in classes(results):
        covered = coverage.modules(results["problems"], cls)
        timed = [n for n in allowed(cls) if any(n in c.over for c in covered)]
        wholes = any(c.as_whole and not c.whole for c in covered)
        heads = ["module", "covered", *(f"over {NAMES[n]}" for n in timed), "error", "verdict", "stays PyTorch"]
        heads += ["as a whole"] if wholes else []
        lines_out += ["", f"### {cls}", "", f"{_outside_words(covered)}.", "", f"| {' | '.join(heads)} |",
                 "|" + "---|" * len(heads)]  # fmt: skip
        lines_out += [f"| {' | '.join(_outside_row(c, timed) + ([_whole(c)] if wholes else []))} |" for c in covered]
    return lines_out


def _outside_words(covered: list[coverage.Covered]) -> str:
    all_of = sum(bool(c.over) for c in covered)
    of = {n: sum(n in c.over for c in covered) for n in coverage.summary(covered)}
    few = {n: f" (of {many})" if many < all_of else "" for n, many in of.items()}
    means = ", ".join(f"{v:.2f}x {NAMES[n]}{few[n]}" for n, v in coverage.summary(covered).items())
    return f"Geometric means over {all_of} of {len(covered)} modules: {means or 'nothing was timed'}"


def _outside_row(c: coverage.Covered, timed: list[str]) -> list[str]:
    parts = "refused" if c.share is None else "whole" if c.whole else f"{c.share:.1%} in {c.regions} regions"
    errors = [u.trial["error"] for u in c.units if u.trial]
    verdicts = list(dict.fromkeys(u.verdict for u in c.units)) if c.share is not None else [_cell(c.why)]
    return [
        c.module, parts, *(_number(c.over.get(n), 2) for n in timed), f"{max(errors):.1e}" if errors else "",
        ", ".join(verdicts), ", ".join(c.rest),
    ]  # fmt: skip


def _whole(c: coverage.Covered) -> str:
    """A module in regions as a whole, composed of the best programs and PyTorch."""
    return "" if c.whole else ", ".join(f"{v:.2f}x {NAMES[n]}" for n, v in c.as_whole.items())


def outside_sentence(which: str, results: dict[str, Any]) -> str:
    """The sentence for the README."""
    first = classes(results)[0]
    covered = coverage.modules(results["problems"], first)
    whole = sum(c.whole and c.share is not None for c in covered)
    return (
        f"{BESIDE[which][0]}, {whole} of {len(covered)} one program each ({first}). {BESIDE[which][1]} "
        f"{_outside_words(covered)}."
    )


def aims(s: dict, cls: str) -> list[str]:
    """Each aim of the issue beside its measured value."""
    aim, clauses = AIMS.get(cls, {}), []
    over = s["over"]
    if "eager" in aim and "eager" in over:
        clauses.append(_aim("over eager as shipped", over["eager"], aim["eager"], "x"))
    if "compile" in aim and {"compile", "compile_max"} & over.keys():
        timed = [n for n in ("compile", "compile_max") if n in over]
        name = min(timed, key=lambda n: (-s["of"][n], over[n]))  # of those timed for most problems, the stronger rival
        clauses.append(_aim(f"over {NAMES[name]}{part(s, name)}", over[name], aim["compile"], "x"))
    if "score" in aim:
        clauses.append(_aim("mean SOL score", s["score"], aim["score"], ""))
    many = "" if s["trials"] <= TRIALS_AIM else ", not reached"
    clauses.append(f"trials a problem: {s['trials']:.1f} (aim: at most {TRIALS_AIM:g}){many}")
    if s["seconds"] is not None:
        late = "" if s["seconds"] < SECONDS_AIM else ", not reached"
        clauses.append(f"seconds a problem with warm workers: {s['seconds']:.0f} (aim: under {SECONDS_AIM:g}){late}")
    clauses.append(f"problems below {LOSING}x of the best baseline: {len(s['slower'])}")
    return clauses


def _aim(what: str, value: float, aim: float, unit: str) -> str:
    return f"{what}: {value:.2f}{unit} (aim: at least {aim:g}{unit}){'' if value >= aim else ', not reached'}"


def table(results: dict[str, Any], cls: str) -> list[str]:
    """One line per problem, as Markdown."""
    timed = [n for n in allowed(cls) if any(n in row["baselines"] for row in results["problems"].values())]
    heads = ["problem", *(f"{NAMES[n]}, ms" for n in timed), "ours, ms", "x eager", "x best", "by", "error", "gap",
             "SOL", "trials", "s", "verdict"]  # fmt: skip
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for x in lines(results["problems"], cls):
        theirs = [_number(x.baselines.get(n), 4) for n in timed]
        cells = [f"{x.pid} {x.module}", *theirs]
        tail = [str(x.trials), _number(x.seconds, 0)]
        if x.trial is None:
            cells += ["", _number(x.over.get("eager"), 2), "", "", "", "", "", *tail, f"no program: {_cell(x.why)}"]
        else:
            t = x.trial
            remarks = ", ".join(notes(x))
            cells += [
                f"{t['ms']:.4f}", _number(x.over.get("eager"), 2), _number(x.against, 2), t["by"],
                f"{t['error']:.1e}", f"{t['gap']:.2f}", f"{t['score']:.2f}", *tail, remarks,
            ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def notes(x: Line) -> list[str]:
    """The verdict, and remarks about the winning program."""
    t = x.trial
    return [
        x.verdict,
        *(["guarded f16" + (" that tripped: timed in f32" if t.get("tripped") else "")] if t["guarded"] else []),
        *([f"algebraic {x.offer['ms']:.4f} ms"] if x.offer else []),
    ]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _cell(text: str) -> str:
    return text.replace("|", "/").split("\n")[0][:120]


# ---- the problems furthest from their bound ----


def furthest(results: dict[str, Any], cls: str) -> list[Line]:
    """The largest gaps; a problem without a program counts as eager."""
    behind = [x for x in lines(results["problems"], cls) if _gap(x) is not None]
    return sorted(behind, key=lambda x: -_gap(x))[:FURTHEST]


def _gap(x: Line) -> float | None:
    if x.trial:
        return x.trial["gap"]
    return x.baselines["eager"] / x.limit if x.limit and "eager" in x.baselines else None


def causes() -> dict[str, dict[str, dict[str, str]]]:
    """{class: {module: {profile, cause, help}}}, written by hand."""
    return tomllib.loads(CAUSES.read_text(encoding="utf-8"))


def furthest_table(results: dict[str, Any], cls: str) -> str:
    """The ten of a class, as Markdown, with the hand-written notes. The limit is that of the gap's roof: f16's for
    guarded f16 products."""
    written = causes().get(cls, {})
    rows = [
        f"| {cls} | ours, ms | limit, ms | gap | x best | profile | cause | what would help |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for x in furthest(results, cls):
        own = written.get(x.module, {})
        ms = x.trial["ms"] if x.trial else x.baselines["eager"]
        cells = [f"{x.pid} {x.module}", f"{ms:.4f}" + ("" if x.trial else " (eager)"), f"{ms / _gap(x):.4f}",
                 f"{_gap(x):.2f}", _number(x.against, 2)]  # fmt: skip
        cells += [own.get(name, MISSING) for name in ("profile", "cause", "help")]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def short_table(results: dict[str, Any]) -> str:
    """One line per class for the README, as Markdown, followed by a sentence on what the table does not show."""
    rows = [
        "| class | over eager as shipped | over eager of the class | over torch.compile | over max-autotune | "
        "over the best of these | mean SOL score | problems below 0.95x | trials | s a problem |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cls in classes(results):
        s = summary(results["problems"], cls)
        own = "eager_f16" if cls == "f16" else "eager_tf32"
        names = ("eager", own, "compile", "compile_max")
        over = [_number(s["over"].get(n), 2) + (part(s, n) if n in s["over"] else "") for n in names]
        cells = [cls, *over, _number(s["best"], 2), f"{s['score']:.2f}", str(len(s["slower"])), f"{s['trials']:.1f}",
                 _number(s["seconds"], 0)]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    below = sentence(results["problems"], classes(results))
    return "\n".join([*rows, *(["", below] if below else [])])


def sentence(problems: dict[str, dict], of: list[str]) -> str:
    """The same data in tf32 without guarded programs, and the classes in which the aim of seconds is met."""
    clauses = []
    if "tf32" in of and summary(problems, "tf32")["guarded"]:
        s = summary(unguarded(problems), "tf32")
        shown = [n for n in ("eager", "compile", "compile_max") if n in s["over"]]
        over = ", ".join(f"{s['over'][n]:.2f}x {NAMES[n]}{part(s, n)}" for n in shown)
        without = s["problems"] - s["solved"]
        none = f" ({count(without, 'problem')} without a program)" if without else ""
        clauses.append(f"without guarded f16 programs the same data give in tf32 {over} and "
                    f"{count(len(s['slower']), 'problem')} below {LOSING}x of the best baseline{none}")  # fmt: skip
    took = {cls: s for cls in of if (s := summary(problems, cls)["seconds"]) is not None}
    verdicts = [f"{'met' if s < SECONDS_AIM else 'missed'} in {cls} ({s:.0f} s)" for cls, s in took.items()]
    if verdicts:
        clauses.append(f"the aim of under {SECONDS_AIM:g} s a problem with warm workers is {', '.join(verdicts)}")
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}." if text else ""
