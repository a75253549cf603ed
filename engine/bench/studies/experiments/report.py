"""The report of the experiments as Markdown."""

from __future__ import annotations

from typing import Any

from engine.bench.studies.experiments.recorded import KNOWN


def markdown(results: dict[str, Any]) -> str:
    about = results["about"]
    lines = [
        "# Experiments with search policies", "",
        f"{about['date']}. Part one replays logs that an H200 measured. In part two the rehearsal answers every arm of "
        "an experiment by the same rules, drawing from one distribution that was committed before the runs, on a "
        "modelled H200, whose times are predictions. Results are published whichever way they fall. Nothing is claimed "
        "about language models or prompts.",
        "",
    ]  # fmt: skip
    if recorded := results.get("recorded"):
        lines += [
            "## Recorded logs (measured)",
            "",
            *_policies(recorded["policies"]),
            *_scheduler(recorded["scheduler"]),
        ]
        lines += _attempts(recorded["attempts"])
    for name, one in results.get("rehearsed", {}).items():
        lines += _experiment(name, one)
    if led := results.get("led"):
        lines += [
            "## With a language model",
            "",
            "Part three is the same experiments with the model of each heading.",
            "",
        ]
        for name, one in led.items():
            lines += _experiment(name, one)
    return "\n".join(lines).rstrip()


def _known(name: str) -> list[str]:
    title, shows, shows_not = KNOWN[name]
    return [f"### {title} (recorded)", "", f"{shows} {shows_not}", ""]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def _policy(name: str, p: dict[str, Any] | None) -> list[str]:
    if p is None:
        return [name, "none keeps enough", "", "", "", ""]
    others = ", ".join(f"{share:.0%} of {kind}" for kind, share in p["saved"].items())
    keeps, gain = f"{p['speedup_kept']:.1%}", f"{p['efficiency']:.2f}x"
    return [name, f"{p['eps']:.0%}, {p['window']}", f"{p['trials_saved']:.0%}", others, keeps, gain]


def _policies_table(data: dict[str, Any]) -> list[str]:
    head = ["policy", "eps, window", "trials saved", "also saved", "speedup kept", "efficiency"]
    rows = [("page's default", "default"), ("best of the study", "study"), (f"best by {data['cost']} at 96%", "best")]
    return _table(head, [_policy(words, data[name]) for words, name in rows])


def _policies(data: dict[str, Any]) -> list[str]:
    words = f"{data['sessions']} sessions, {data['trials']} trials, from {' and '.join(data['from'])}."
    return [*_known("policies"), words, "", *_policies_table(data)]


def _scheduler(rows: list[dict[str, Any]]) -> list[str]:
    head = ["set", "sessions", "trials", "after", "by expected saving", "in turn"]
    return [*_known("scheduler"), *_table(head, [
        [r["set"], str(r["sessions"]), str(r["trials"]), f"{r['after']:.0%}", f"{r['sol']:.1%}", f"{r['in_turn']:.1%}"]
        for r in rows
    ])]  # fmt: skip


def _attempts(rows: list[dict[str, Any]]) -> list[str]:
    ks = list(rows[0]["within"])
    head = ["set", "class", "p", "problems", *(f"within {k}" for k in ks), "signed area over tf32"]
    return [*_known("attempts"), *_table(head, [
        [r["set"], r["class"], f"{r['p']:g}", str(r["problems"]), *(f"{r['within'][k]:.0%}" for k in ks),
         f"{r['area_over_tf32']:+.3f}" if "area_over_tf32" in r else ""]
        for r in rows
    ])]  # fmt: skip


def _experiment(name: str, one: dict[str, Any]) -> list[str]:
    how = f"{one['model']}, {one['kind']}" if "model" in one else "rehearsed, predicted"
    lines = [f"## {one['title']} ({how})", "", f"{one['shows']} {one['shows_not']}", ""]
    lines += [f"Not run: {arm}, because {why}." for arm, why in one["absent"].items()]
    lines += [""] if one["absent"] else []
    if not one.get("arms"):
        return lines
    r = one["request"]
    skills, drawn = f"skills {', '.join(f'{s:g}' for s in r['skills'])}, ", ""
    if "model" in one:
        skills = ""
    else:
        drawn = f", drawn from `{one['proposals']['file']}` (SHA-256 `{one['proposals']['sha256'][:16]}`)"
    lines += [
        f"{one['sessions']} sessions: {len(r['problems'])} problems, {skills}seeds "
        f"{', '.join(map(str, r['seeds']))}, {r['trials']} evaluations each (`{one['rows']}`){drawn}.", "",
    ]  # fmt: skip
    head = ["arm", "sessions", "unsolved", "own best, geomean", "PyTorch kept", "deviation over seeds", "Fast-2",
            "evaluations", "tokens"]  # fmt: skip
    lines += _table(head, [
        [arm, str(s["sessions"]), str(s["unsolved"]), _x(s["own_geomean"]), _x(s["kept_geomean"]),
         "" if s["deviation"] is None else f"{s['deviation']:.3f}", f"{s['fast_p']['2']:.0%}",
         f"{s['evaluations']:.1f}", f"{s['tokens']:,.0f}"]
        for arm, s in one["arms"].items()
    ])  # fmt: skip
    names = list(one["areas"])
    lines += ["Signed area of the curves to 95% of the best known speed, of the row against the column:", ""]
    lines += _table(
        ["", *names], [[a, *("" if a == b else f"{one['areas'][a][b]:+.3f}" for b in names)] for a in names]
    )
    if one.get("policies"):
        lines += ["Stop policies on these sessions, with tokens as the cost:", "", *_policies_table(one["policies"])]
    return lines


def _x(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}x"
