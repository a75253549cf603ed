"""A trial and a session as an agent reads them: verdict, times, gap, mistakes, compiler resources, advice."""

from __future__ import annotations

from typing import Any

import dsl.check
from engine.session.fold import profile
from engine.session.fold.next_step import untried
from engine.session.fold.reduce import View
from engine.session.fold.view import Trial
from engine.session.kernel_text import language_of
from engine.words import baseline_name
from playground.mcp import stages
from playground.mcp.following import Following
from playground.mcp.reported import possible
from playground.mcp.tool import Answer, cut
from playground.models import Command
from sol import lever_check

LISTED = 12  # entries of a list in an answer
NEAR = 1.1  # times the limit: more trials gain little
LOG = 4_000  # characters of a compiler's log
HEADLINE = ("trial", "cls", "ms", "kind", "speedup", "baseline", "gap", "verdict")


def described(following: Following, trial: Trial, device: dict[str, Any]) -> Answer:
    """Everything an agent needs of one trial, ended or not."""
    view = following.view
    data: dict[str, Any] = {
        "trial": trial.number,
        "state": "ended" if trial.ended else "running",
        "outcome": trial.outcome if trial.ended else "",
        "last_step": trial.step,
        "change": trial.change,
        "form": trial.form or "program",
        "precision_class": trial.cls,
        "region": trial.region,
    }
    texts: list[tuple[str, str]] = []
    if trial.judged is not None:
        data |= _judged(view, trial, device)
    elif trial.untimed is not None:
        data |= {"verdict": trial.untimed.verdict, "why_no_time": trial.untimed.code, "text": trial.untimed.text}
    elif trial.failed is not None:
        data["failed"], detail = _failed(following, trial)
        if detail:
            texts.append(("Log of the failed step (its end)", detail))
    end = trial.end
    data["evidence"] = [_short(e) for e in (end.evidence if end is not None else [])][:LISTED]
    if trial.validated is not None:
        v = trial.validated
        data["correctness"] = {k: v.get(k) for k in ("error", "tolerance", "scope") if v.get(k) is not None}
    if trial.compiled is not None:
        data["compiler"] = _compiled(trial.compiled)
    data |= stages.listed(trial.stages)
    if trial.ended:
        data["advice"] = advice(following, trial)
    data["session"] = summary(view)
    return Answer(data, texts)


def _judged(view: View, trial: Trial, device: dict[str, Any]) -> dict[str, Any]:
    j, m = trial.judged, trial.measured
    best = view.best.get(j.cls)
    return {
        "verdict": j.verdict,
        "when_judged": {"text": j.text, "standing": j.standing},
        "now": {"best_of_its_class": best == trial.number, "best_trial_of_its_class": best},
        "time": {"ms": j.ms, "kind": j.kind, "device": device.get("title") or device.get("name", "")},
        "baseline": {"name": baseline_name(j.baseline), "ms": m.baseline_ms if m is not None else None},
        "speedup": j.speedup,
        "speedup_95": [m.ratio_low, m.ratio_high] if m is not None and m.ratio_low is not None else None,
        "gap_to_limit": j.gap,
        "limit_ms": view.bounds.get(trial.roof or j.cls),
        "omits_work": j.algebraic,
    }


def _failed(following: Following, trial: Trial) -> tuple[dict[str, Any], str]:
    """Why a trial failed, and the end of its log."""
    f = trial.failed
    text = following.blob(f.detail)
    failed = {"step": f.step, "code": f.code, "reason": f.reason, "caused_by": f.cause}
    if f.diagnostics:
        mistakes = sorted(f.diagnostics, key=lambda d: d.get("code") != f.code)  # the cause of the others first
        failed["diagnostics"] = [
            {k: d.get(k) for k in ("code", "line", "column", "message", "help") if d.get(k)} for d in mistakes[:LISTED]
        ]
        failed["next"] = "error_page(code) explains a code; check_program(text) costs no trial."
    return failed, text if len(text) <= LOG else f"... {text[-LOG:]}"


def _compiled(compiled: dict[str, Any]) -> dict[str, Any]:
    """The compiler's resources without zeros; kernels that agree in all of them are one row."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for r in compiled.get("resources") or []:
        if not isinstance(r, dict):
            continue
        use = {k: r[k] for k in ("registers", "shared_bytes", "spill_bytes") if r.get(k)}
        row = rows.setdefault(tuple(use.items()), {"kernels": [], **use})
        row["kernels"].append(str(r.get("stage") or cut(str(r.get("kernel", "")), 120)))
    kernels = [row | {"kernels": ", ".join(dict.fromkeys(row["kernels"]))} for row in rows.values()]
    build = {"backend": compiled.get("backend"), "how": compiled.get("how"), "kernels": kernels[:LISTED]}
    return {k: v for k, v in build.items() if v} | (
        {"note": cut(compiled["note"], 400)} if compiled.get("note") else {}
    )


def _short(evidence: dict[str, Any]) -> dict[str, Any]:
    return {k: cut(v, 300) if isinstance(v, str) else v for k, v in evidence.items()}


def advice(following: Following, trial: Trial) -> list[str]:
    """What to do next, by rules from the report and the trials: sentences, the most useful first."""
    out: list[str] = []
    if trial.failed is not None:
        mistakes = sorted(trial.failed.diagnostics, key=lambda d: d.get("code") != trial.failed.code)
        out += [f"Line {d.get('line')}: {d['help']}" for d in mistakes if d.get("help")][:3]
        if trial.failed.step == "validate":
            out.append("The result is wrong or not precise enough: compare each stage with the module's lines.")
        return out
    if trial.untimed is not None and trial.untimed.code == "needs_gpu":
        out.append("This device runs no GPU code. Propose a program, or start a session on a GPU (see devices()).")
    if trial.judged is None:
        return out
    if not trial.judged.counts:
        out.append("This trial does not count: the evidence says which work it leaves out or hides.")
    spilled = [r for r in (trial.compiled or {}).get("resources") or [] if isinstance(r, dict) and r.get("spill_bytes")]
    if spilled:
        out.append("Registers are spilled to memory: a smaller tile or a smaller epilogue avoids that.")
    if trial.judged.gap is not None and trial.judged.gap <= NEAR:
        out.append("This is within 10% of the limit of its class: more trials in this class can gain little.")
    slow = profile.longest(trial.stages)
    if slow is not None:
        words = f"The longest stage by the model, launches apart: {profile.stage_in_words(slow)}."
        out.append(words.replace("..", "."))
    levers = _levers(following)
    if following.report is not None and (trial.judged.gap or 0) > NEAR and not levers:
        out += _rest(trial)
    return out + levers


def _levers(following: Following) -> list[str]:
    """The levers of the report that no trial uses and no candidate that waits, best first."""
    view, report = following.view, following.report
    if report is None:
        return []
    wanted = [x for x in report["levers"] if possible(x, view.classes)]
    return [
        f"Not tried yet: {lever.title} (predicted {lever.speedup:.2f}x): {lever.why}."
        for lever in untried(view, wanted, _waiting(following))
    ][:3]


def _waiting(following: Following) -> set[str]:
    """The levers that programs use which were handed in and are no trials with a check yet."""
    checked = {t.program for t in following.view.trials.values() if t.tried or t.ended}
    new = Command.objects.filter(session=following.session_id, kind="try", handled=None).values_list("data", flat=True)
    names = [c.data.get("program") for c in following.view.controls if c.action == "try"]
    waiting = [*(d.get("program", "") for d in new), *(following.blob(n) for n in names if n not in checked)]
    programs = (dsl.check.check(text).program for text in waiting if language_of(text) == "program")
    return {action for program in programs if program is not None for action in lever_check.tried(program)}


def _rest(trial: Trial) -> list[str]:
    """Where a trial far from its limit still loses time by the model, if every lever of the report is used."""
    stages = [s for s in trial.stages if s.get("ms")]
    if len(stages) < 2:
        return []
    total = sum(s["ms"] for s in stages)
    launch = sum((s.get("parts") or {}).get("launch") or 0.0 for s in stages)
    words = f"Of the predicted {total:.4g} ms, the launches of {len(stages)} stages take {launch:.4g} ms"
    out = [f"Every lever of the report is used. {words}: fewer stages save that."]
    copies = [s for s in stages if s.get("kind") == "transform"]
    if copies:
        verb = "only copies" if len(copies) == 1 else "only copy"
        names, ms = ", ".join(s["name"] for s in copies), sum(s["ms"] for s in copies)
        way = "let a neighbour read or store that type and layout, or `prepack` a parameter"
        out.append(f"{names} {verb}, in {ms:.4g} ms: {way}.")
    return out


def row_of(trial: Trial) -> dict[str, Any]:
    """A trial in one line."""
    row: dict[str, Any] = {"trial": trial.number, "change": cut(trial.change, 160), "outcome": trial.outcome}
    row["class"] = trial.cls
    if trial.judged is not None:
        j = trial.judged
        row |= {"ms": j.ms, "kind": j.kind, "speedup": j.speedup, "gap": j.gap}
    if trial.failed is not None:
        row["failed"] = f"{trial.failed.step}: {trial.failed.code}"
    return row


def summary(view: View) -> dict[str, Any]:
    """The session in short: state, budget, the best so far or, if nothing is faster than PyTorch, what came closest."""
    headline = view.headline
    best = None
    if headline is not None:
        values = {"trial": headline.number} | {k: getattr(headline.judged, k) for k in HEADLINE[1:]}
        best = values | {"baseline": baseline_name(headline.judged.baseline)}
    return {
        "state": view.state,
        "trials_used": view.used,
        "trials_allowed": view.budget.get("trials"),
        "best": best or _closest(view),
        "ended_because": view.end.reason if view.end is not None else None,
    }


def _closest(view: View) -> str:
    """The best of a session in which nothing is faster than PyTorch, as the tool `best` returns it."""
    shown = view.shown
    if shown is None:
        return "none yet: no trial has a time that counts"
    return f"none is faster than PyTorch; trial {shown.number} came closest, at {shown.judged.speedup:.3g}x"
