"""The report of a comparison: Markdown, JSON and figures, from the rows of its sessions."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.compare import charts, filters, metrics
from engine.bench.compare.metrics import Row, groups
from engine.strategies import registry
from engine.strategies.forms import form_on
from engine.words import count
from sol.figures.svg import svg


def write(out: Path, about: dict[str, Any], rows: Sequence[Row]) -> list[Path]:
    """Write OUT.md, OUT.report.json and a picture of each figure beside the results."""
    base, kind = out.with_suffix(""), about["kind"]
    figures = charts.figures(rows, kind) if rows else {}
    pictures = {name: base.with_name(f"{base.name}-{name}.svg") for name in figures}
    files = {
        base.with_name(f"{base.name}.md"): markdown(about, rows, {n: p.name for n, p in pictures.items()}) + "\n",
        base.with_name(f"{base.name}.report.json"): json.dumps(
            summaries(about, rows) | {"figures": {n: f.to_json() for n, f in figures.items()}}, indent=1
        ) + "\n",
        **{pictures[name]: svg(f.figure, f.title) + "\n" for name, f in figures.items()},
    }  # fmt: skip
    for path, text in files.items():
        atomic_write.write_text(path, text)
    return list(files)


def summaries(about: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Every figure of the report as JSON values."""
    by_arm = groups(rows, lambda r: r["arm"])
    return {
        "about": about, "arms": {arm: metrics.summary(some) for arm, some in by_arm.items()},
        "by_skill": {
            _skill(skill): {arm: metrics.summary(s) for arm, s in groups(some, lambda r: r["arm"]).items()}
            for skill, some in groups(rows, lambda r: r["skill"]).items()
        },
        "areas": {
            **{f"{p:g}": metrics.areas(rows, p) for p in (1.0, 2.0)},
            "near_best": metrics.areas(metrics.against_the_best(rows), metrics.NEAR),
        },
        "filters": {arm: filters.worth(some) for arm, some in by_arm.items()},
        "unsolved": metrics.unsolved(rows),
    }  # fmt: skip


def markdown(about: dict[str, Any], rows: Sequence[Row], pictures: dict[str, str] | None = None) -> str:
    r = about["request"]
    mark = "rehearsed, " if r["rehearsed"] else ""
    lines = [f"# Strategies compared ({mark}{about['kind']})", "", _intro(about, rows), ""]
    if not rows:
        return "\n".join([*lines, "No session has ended yet."])
    by_arm = groups(rows, lambda row: row["arm"])
    sums = {arm: metrics.summary(some) for arm, some in by_arm.items()}
    lines += [f"## Speed over PyTorch ({mark}{about['kind']})", "", *_speed(sums), ""]
    skills = groups(rows, lambda row: row["skill"])
    if len(skills) > 1:
        lines += [f"## The same by skill ({mark}{about['kind']})", "", *_by_skill(skills), ""]
    if any(s["deviation"] is not None for s in sums.values()):
        lines += [f"## Spread over seeds ({mark}{about['kind']})", "", *_by_seed(sums), ""]
    lines += [f"## Fast-p and Attempt-Fast-p ({mark}{about['kind']})", "", *_fast(by_arm, rows), ""]
    lines += [f"## What was spent ({mark}{about['kind']})", "", *_spent(sums), ""]
    if r["order"] != "each":
        lines += [f"## Where the common budget went ({mark}{about['kind']})", "", *_shared(rows), ""]
    lines += [f"## Where trials ended ({mark}{about['kind']})", "", *_failures(sums), ""]
    lines += [f"## Integrity filters, off one by one ({mark}{about['kind']})", "", *_filters(by_arm), ""]
    lines += [f"## Each problem ({mark}{about['kind']})", "", *_problems(rows), ""]
    lines += [f"## Unsolved, and why ({mark}{about['kind']})", "", *_unsolved(rows), ""]
    lines += [f"![{name}]({file})" for name, file in (pictures or {}).items()]
    return "\n".join(lines)


def _named(noun: str, values: Sequence[Any]) -> str:
    """`skill 0.7`, or `the skills 0.5, 0.7`."""
    return f"{noun} {values[0]}" if len(values) == 1 else f"the {noun}s {', '.join(map(str, values))}"


def _intro(about: dict[str, Any], rows: Sequence[Row]) -> str:
    r = about["request"]
    budget = f"{r['trials']} evaluations and {r['tokens']:,} model tokens"
    shared = f"one budget over all problems ({budget} for each of them, added up), spent"
    asked = {"each": f"each with its own budget of {budget}", "in_turn": f"{shared} in turn",
             "sol": f"{shared} by the expected saving (sol.schedule)"}  # fmt: skip
    words = [
        f"{len(rows)} sessions on {count(len(r['problems']), 'problem')} in {r['class']} on {r['device']}, "
        f"{about['date']}; {asked[r['order']]}."
    ]
    if forms := _forms(about):
        words.append(forms)
    since = "the last trial was" if r["window"] == 1 else f"the last {r['window']} trials were"
    rules = [f"it is within {r['eps']:.0%} of the limit"] * bool(r["eps"]) + [f"{since} no better"] * bool(r["window"])
    if rules:
        words.append(f"A session ends early once its best is faster than PyTorch and {' or '.join(rules)}.")
    if r["rehearsed"]:
        words.append(
            "No model wrote a reply: the rehearsal answers every strategy by the same rules, at "
            f"{_named('skill', [f'{s:g}' for s in r['skills']])} and {_named('seed', r['seeds'])}. So this "
            "compares how strategies select, remember and stop, and says nothing about language models or prompts."
        )
        if proposals := about.get("proposals"):
            words.append(f"Its proposals are those of `{proposals['file']}` (SHA-256 `{proposals['sha256'][:16]}`).")
    else:
        words.append(f"The model is {about['model']}.")
    if about["kind"] == "predicted":
        words.append(
            "Every time is a prediction of the attainable model, none is measured. Sessions on one problem share the "
            "check of programs with equal meaning, which is deterministic here, on the inputs of one seed; the seconds "
            "of a check stand in the session that came first. No compiler ran."
        )
    words.append(
        "No session knows anything of other problems, unless its arm says so. An evaluation is a trial, whatever it "
        "came to, or a candidate screened on the device."
    )
    if about.get("seconds"):
        words.append(f"It took {about['seconds'] / 60:.1f} minutes on {about['cores']} cores.")
    return " ".join(words)


def _forms(about: dict[str, Any]) -> str:
    """Which arms write raw kernels and which programs; "" where all write programs. Such times compare forms too."""
    written: dict[str, list[str]] = {}
    for arm in about["request"]["arms"]:
        strategy = registry.available()[arm["strategy"]]
        form = (
            arm["options"].get("form") or strategy.Options.model_fields["form"].default if strategy.asks else "program"
        )
        written.setdefault(form_on(form, about["kind"]), []).append(arm["name"])
    kernels, programs = ", ".join(written.get("kernel", ())), ", ".join(written.get("program", ()))
    if not kernels:
        return ""
    if not programs:
        return "Every arm writes raw kernels."
    return f"{kernels} writes raw kernels, and {programs} programs of the language: these times compare forms too."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]


def _x(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}x"


def _skill(skill: float | None) -> str:
    return "no model" if skill is None else f"{skill:g}"


def _speed(sums: dict[str, dict[str, Any]]) -> list[str]:
    head = ("arm", "sessions", "unsolved", "slower than PyTorch", "own best, geomean of solved", "median of solved",
            "PyTorch kept, geomean of all", "median of all")  # fmt: skip
    rows = [
        (arm, str(s["sessions"]), str(s["unsolved"]), str(s["slower"]), _x(s["own_geomean"]), _x(s["own_median"]),
         _x(s["kept_geomean"]), _x(s["kept_median"]))
        for arm, s in sums.items()
    ]  # fmt: skip
    return [*_table(head, rows), "", "The own best is never raised to PyTorch's speed. With PyTorch kept, an unsolved "
            "problem and a slower program count as 1."]  # fmt: skip


def _by_skill(skills: dict[Any, list[Row]]) -> list[str]:
    rows = []
    for skill, some in sorted(skills.items(), key=lambda item: -1.0 if item[0] is None else item[0]):
        for arm, mine in groups(some, lambda r: r["arm"]).items():
            s = metrics.summary(mine)
            own, both = _x(s["own_geomean"]), _x(s["kept_geomean"])
            rows.append((_skill(skill), arm, str(s["sessions"]), str(s["unsolved"]), own, both, f"{s['trials']:.1f}"))
    return _table(("skill", "arm", "sessions", "unsolved", "own best, geomean", "PyTorch kept", "trials"), rows)


def _by_seed(sums: dict[str, dict[str, Any]]) -> list[str]:
    seeds = list(dict.fromkeys(seed for s in sums.values() for seed in s["by_seed"]))
    rows = [
        (arm, *(_x(s["by_seed"].get(seed)) for seed in seeds),
         "" if s["deviation"] is None else f"{s['deviation']:.3f}")
        for arm, s in sums.items()
    ]  # fmt: skip
    return _table(("arm", *(f"seed {seed}" for seed in seeds), "standard deviation"), rows)


def _fast(by_arm: dict[str, list[Row]], rows: Sequence[Row]) -> list[str]:
    most = metrics.most_attempts(rows)
    ks = sorted({1, 2, 4, 8, most} & set(range(1, most + 1)))
    lines = []
    for arm, some in by_arm.items():
        curve = metrics.attempt_fast_p(some, 2.0, most)
        shares = [f"{metrics.fast_p(some, p):.0%}" for p in metrics.PS]
        lines.append((arm, *shares, *(f"{curve[k - 1]:.0%}" for k in ks)))
    head = ("arm", *(f"Fast-{p:g}" for p in metrics.PS), *(f"2x within {k}" for k in ks))
    text = [*_table(head, lines), "", "Signed area between the curves of Attempt-Fast-p, of the row against the column "
            "(definitions: engine/bench/compare/metrics.py):", ""]  # fmt: skip
    near = metrics.areas(metrics.against_the_best(rows), metrics.NEAR)
    of = {"p = 1": metrics.areas(rows, 1.0), "p = 2": metrics.areas(rows, 2.0), "near the best": near}
    for words, areas in of.items():
        cells = [(a, *("" if a == b else f"{areas[a][b]:+.3f}" for b in areas)) for a in areas]
        text += [*_table((words, *areas), cells), ""]
    return text[:-1]


def _spent(sums: dict[str, dict[str, Any]]) -> list[str]:
    kinds = metrics.KINDS
    head = (
        "arm",
        "evaluations",
        "trials",
        "turns",
        "tokens",
        "US dollars in all",
        *(f"{k}, s" for k in kinds),
        "all, s",
    )
    rows = [
        (arm, f"{s['evaluations']:.1f}", f"{s['trials']:.1f}", f"{s['turns']:.1f}", f"{s['tokens']:,.0f}",
         "no price" if s["cost"] is None else f"{s['cost']:.4f}", *(f"{s['seconds'][k]:.2f}" for k in kinds),
         f"{s['seconds']['all']:.2f}")
        for arm, s in sums.items()
    ]  # fmt: skip
    lost = sum(s["unknown_turns"] for s in sums.values())
    more = [f"{lost} turns were lost; what they cost is in no figure."] if lost else []
    return [*_table(head, rows), "", "Means of a session. Pieces of work beside each other count each.", *more]


def _shared(rows: Sequence[Row]) -> list[str]:
    arms = list(groups(rows, lambda r: r["arm"]))
    lines = []
    for problem, some in groups(rows, lambda r: r["problem"]).items():
        by = groups(some, lambda r: r["arm"])
        used = [statistics.mean(r["evaluations"] for r in by[arm]) if arm in by else None for arm in arms]
        lines.append((problem, *("" if many is None else f"{many:.1f}" for many in used)))
    return [*_table(("problem", *arms), lines), "", "Evaluations of a session, means. The turns of each arm, skill and "
            "seed in their order stand in the results (`turns_of`)."]  # fmt: skip


def _failures(sums: dict[str, dict[str, Any]]) -> list[str]:
    steps = ("check", "generate", "compile", "validate", "measure", "judge")
    steps = (*steps, *sorted({f for s in sums.values() for f in s["failures"]} - set(steps)))
    rows = [
        (arm, *(str(s["failures"].get(step, 0)) for step in steps),
         ", ".join(f"{n} {k}" for k, n in s["states"].items()))
        for arm, s in sums.items()
    ]  # fmt: skip
    return [*_table(("arm", *steps, "how sessions ended"), rows), "", "Trials whose time does not count, by the step "
            "that ended them; `judge`: a verdict."]  # fmt: skip


def _filters(by_arm: dict[str, list[Row]]) -> list[str]:
    worth = {arm: filters.worth(some) for arm, some in by_arm.items()}
    busy = list(dict.fromkeys(line["off"] for lines in worth.values() for line in lines if line["refused"]))
    idle = {
        of: ", ".join(f"`{name}`" for name in some if name not in busy) or "none"
        for of, some in (("trial", filters.OF_TRIALS), ("kernel", filters.OF_KERNELS))
    }
    nothing = (
        f"Refused 0 trials in every arm, so each is worth a factor of 1.000 here: {idle['trial']}; of the filters for "
        f"raw kernels alone: {idle['kernel']}."
    )
    rows = [
        (arm, line["off"], str(line["refused"]), str(line["untimed"]), _x(line["geomean"]), f"{line['factor']:.3f}",
         str(line["changed"]))
        for arm, lines in worth.items()
        for line in lines
        if line["off"] in busy
    ]  # fmt: skip
    if not rows:
        return ["No filter refused a trial.", "", nothing]
    head = ("arm", "filter off", "trials refused", "of them without a time", "geomean then", "too high by", "sessions")
    words = (
        "A factor of 1 says that the filter changed no best result here, because what it refused was not faster or has "
        "no time. It does not say that a wrong result may be accepted."
    )
    return [*_table(head, rows), "", words, "", nothing]


def _unsolved(rows: Sequence[Row]) -> list[str]:
    lines = []
    for u in metrics.unsolved(rows):
        steps = ", ".join(f"{many} at {step}" for step, many in u["failures"].items()) or "no trial"
        words = "; ".join(f"{step}: {_cell(text)}" for step, text in u["words"].items()) or "none"
        lines.append((u["problem"], u["arm"], f"{u['sessions']} of {u['all']}", steps, words))
    if not lines:
        return ["Each session has a trial that counts."]
    head = ("problem", "arm", "unsolved", "trials ended", "in their own words")
    note = (
        "The first message of each step; `end`: the session's own reason. Results of older versions hold codes alone."
    )
    return [*_table(head, lines), "", note]


def _cell(text: str) -> str:
    """A text in a table of Markdown."""
    return " ".join(text.replace("|", "\\|").split())


def _problems(rows: Sequence[Row]) -> list[str]:
    arms = list(groups(rows, lambda r: r["arm"]))
    lines = []
    for problem, some in groups(sorted(rows, key=lambda r: r["problem"]), lambda r: r["problem"]).items():
        by = groups(some, lambda r: r["arm"])
        cells = []
        for arm in arms:
            own = [metrics.best(r) for r in by.get(arm, [])]
            solved = [s for s in own if s is not None]
            mean = metrics.geomean(solved)
            cells.append("" if not own else f"{_x(mean)} ({len(solved)}/{len(own)})")
        lines.append((problem, *cells))
    return [*_table(("problem", *arms), lines), "", "The own best, geometric mean of the solved sessions (solved/all)."]
