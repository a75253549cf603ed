"""A finished session as a row of the results file.

    {id, baselines: {name: {ms, cls, ratio, ..}}, beside, limits: {class: ms}, trials: [..], refused, notes,
     coverage: {share, regions, text}, uncovered: [{op, line, reason}],
     not_timed: {baseline: why}, session: {state, code, reason, seconds, ready_s, resumed, best, t, spent, cut}}

`ratio` of a baseline is its time over that of the baseline `beside`, by alternation; `ratio` of a trial is the time of
its own `baseline` over its own, also by alternation. So the speedup over any baseline is a product of ratios of
adjacent calls (engine.bench.report.speedups). `seconds` of a trial runs from the end of the previous trial to its own
end, with screening, planning and waiting for builds. `ready_s`: from the start to the search; `t`: the session's end,
in seconds since the epoch; `cut`: its search ended because of the bench's limit of seconds. `not_timed`: baselines of
torch.compile without a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsl.check.program import check
from engine.classes import class_of
from engine.session import events
from engine.session.fold.view import COUNTING
from engine.session.script.compiled import NOT_TIMED
from engine.session.script.steps import Emitted

# The name of torch.compile with TF32 allowed in results since the first bench.
_NAMES = {"compile_tf32": "compile", "compile_max_tf32": "compile_max"}
_AS_SHIPPED = {"compile": "compile_f32", "compile_max": "compile_max_f32"}  # for a module in float32


def row_of(pid: str, log: Sequence[Emitted], blobs: Mapping[str, str]) -> dict[str, Any]:
    """`log`: from SessionStarted to SessionEnded; `blobs`: the texts that it names. Raises ValueError for a log without
    its end."""
    of = _by_kind(log)
    if not of[events.SessionEnded]:
        raise ValueError("the log has no end")
    (ended,) = (e.event for e in of[events.SessionEnded])
    baselines, beside = _baselines([e.event for e in of[events.Baseline]])
    trials = _trials(log, of, blobs)
    reported = [e.event for e in of[events.Reported]]
    return {
        "id": pid, "baselines": baselines, "beside": beside,
        "limits": _limits(reported[0].bounds if reported else {}, trials), "trials": trials,
        "refused": ended.reason if ended.state in ("refused", "failed") else "",
        "notes": [e.event.text for e in of[events.Progress] if e.event.step == "plan"],
        **_not_timed([e.event for e in of[events.Noted]], baselines),
        **_coverage([e.event for e in of[events.Covered]]), "session": _session(log, of, ended),
    }  # fmt: skip


def searching(event: events.Event) -> bool:
    """Return True for the event at which the search begins."""
    return isinstance(event, events.Progress) and event.step == "search"


def _by_kind(log: Sequence[Emitted]) -> dict[type[events.Event], list[Emitted]]:
    of: dict[type[events.Event], list[Emitted]] = {kind: [] for kind in events.KINDS.values()}
    for e in log:
        of[type(e.event)].append(e)
    return of


def _session(log: Sequence[Emitted], of: Mapping, ended: events.SessionEnded) -> dict[str, Any]:
    searching = next((e.t for e in of[events.Progress] if e.event.step == "search"), None)
    ready = None if searching is None else round(searching - _since(log[0].t, searching, of), 2)
    return {
        "state": ended.state, "code": ended.code, "reason": ended.reason, "seconds": round(ended.seconds, 2),
        "ready_s": ready,
        "resumed": len(of[events.Resumed]), "best": dict(ended.best), "t": log[-1].t, "spent": dict(ended.spent),
        **({"cut": True} if of[events.Controlled] else {}),
    }  # fmt: skip


def _since(began: float, end: float, of: Mapping) -> float:
    """`began`, or the time at which the session was resumed after it, because nothing ran in between."""
    return max([began, *(e.t for e in of[events.Resumed] if e.t <= end)])


def _coverage(covered: list[events.Covered]) -> dict[str, Any]:
    """For a module that is not one program; `share` of the work, by flops, bytes and time at the limit."""
    if not covered:
        return {}
    c = covered[0]
    return {
        "coverage": {
            "share": {name: 1.0 - left for name, left in c.share.items()},
            "regions": len(c.regions),
            "text": c.text,
        },
        "uncovered": [{"op": u["op"], "line": u["line"], "reason": u["reason"]} for u in c.uncovered],
    }


def _baselines(timed: list[events.Baseline]) -> tuple[dict[str, dict[str, Any]], str]:
    """({name: {ms, cls, ratio, low, high, note}}, the baseline beside which the others were timed). A baseline that was
    alternated with one that the session lacks (stored by another session) has no ratio."""
    beside = next((b.beside for b in timed if b.beside), timed[0].name if timed else "")
    native_f32 = any(b.name == "eager" and b.cls == "f32" for b in timed)
    ratios = {beside: 1.0} | {b.name: b.ratio for b in timed if b.ratio is not None and b.beside == beside}
    rows = {}
    for b in timed:
        name = _name(b.name, native_f32)
        row: dict[str, Any] = {"ms": b.time.ms, "cls": b.cls}
        ratio = ratios.get(b.name)
        if ratio is None and b.ratio is not None and b.beside in ratios:
            ratio = b.ratio * ratios[b.beside]
        row |= {"ratio": ratio} if ratio is not None else {}
        row |= {"low": b.ratio_low, "high": b.ratio_high} if b.ratio_low is not None and b.beside == beside else {}
        rows[name] = row | ({"note": b.note} if b.note else {})
    return rows, beside


def _not_timed(noted: list[events.Noted], baselines: Mapping[str, Any]) -> dict[str, Any]:
    """{not_timed: {baseline: why it has no time}}, if there are such."""
    native_f32 = baselines.get("eager", {}).get("cls") == "f32"
    why = {_name(n.baseline, native_f32): n.text for n in noted if n.code == NOT_TIMED}
    return {"not_timed": why} if why else {}


def _name(name: str, native_f32: bool) -> str:
    """A baseline's name in results. `native_f32`: the module is in float32."""
    return _NAMES.get(name) or (_AS_SHIPPED.get(name, name) if native_f32 else name)


def _limits(bounds: Mapping[str, float], trials: list[dict[str, Any]]) -> dict[str, float]:
    """The limits of the requested classes, and of other classes whose limit applied to trials."""
    limits = dict(bounds)
    for t in trials:
        if "gap" in t and not t["algebraic"]:
            limits.setdefault(t["roof"], t["ms"] / t["gap"])
    return limits


def _trials(log: Sequence[Emitted], of: Mapping, blobs: Mapping[str, str]) -> list[dict[str, Any]]:
    steps: dict[int, dict[type[events.Event], Emitted]] = {}
    for e in log:
        if getattr(e.event, "trial", None) is not None and not isinstance(e.event, events.Progress | events.Screened):
            steps.setdefault(e.event.trial, {}).setdefault(type(e.event), e)
    began = next((e.t for e in of[events.Progress] if e.event.step == "search"), log[0].t)
    rows = []
    for number in sorted(steps):
        end = next((steps[number][kind] for kind in events.ENDS if kind in steps[number]), None)
        if end is not None:
            steps_of = {kind: e.event for kind, e in steps[number].items()}
            seconds = end.t - _since(began, end.t, of)
            rows.append(_trial(steps_of, blobs) | {"seconds": round(max(0.0, seconds), 3)})
            began = end.t
    return rows


def _trial(of: Mapping[type[events.Event], Any], blobs: Mapping[str, str]) -> dict[str, Any]:
    p: events.TrialProposed = of[events.TrialProposed]
    text = blobs.get(p.program, "")
    program = check(text).program if p.form == "program" else None
    row: dict[str, Any] = {
        "trial": p.trial, "class": p.cls, "backend": p.backend, "change": p.change, "why": p.why, "by": p.by,
        "predicted_ms": p.predicted_ms, "text": text, "derived": class_of(program) if program is not None else None,
        "roof": p.roof or p.cls, "algebraic": "",
    }  # fmt: skip
    if events.TrialCompiled in of:
        row |= {"build_seconds": of[events.TrialCompiled].seconds, "cached": of[events.TrialCompiled].cached}
    if events.TrialValidated in of:
        row |= _validated(of[events.TrialValidated])
    if events.TrialMeasured in of:
        row |= _measured(of[events.TrialMeasured])
    if events.TrialUntimed in of:  # a kernel: its verdict is known, and it has no time
        u: events.TrialUntimed = of[events.TrialUntimed]
        return row | {"ok": u.verdict in COUNTING, "verdict": u.verdict, "step": u.step, "message": u.text}
    if events.TrialFailed in of:
        f: events.TrialFailed = of[events.TrialFailed]
        log = {"log": blobs.get(f.detail, "")[-2000:]} if f.detail else {}
        return row | {"ok": False, "failed": f.code, "step": f.step, "message": f.reason, **log}
    j: events.TrialJudged = of[events.TrialJudged]
    row |= {"ok": True, "verdict": j.verdict, "gap": j.gap, "score": j.sol_score, "algebraic": j.algebraic}
    row |= {"limit_ms": j.ms / j.gap} if j.algebraic else {}
    if j.verdict not in COUNTING:
        row["message"] = next((c["said"] for c in j.evidence if c["verdict"] == j.verdict), j.text)
    return row


def _validated(v: events.TrialValidated) -> dict[str, Any]:
    """`families`: the largest error of each."""
    families: dict[str, float] = {}
    for c in v.checks:
        families[c["family"]] = max(families.get(c["family"], 0.0), c["error"])
    worst = max(v.checks, key=lambda c: c["error"], default={})
    return {
        "error": v.error, "max_error": v.max_error, "tolerance": v.tolerance, "families": families, "scope": v.scope,
        "pytorch_error": worst.get("pytorch_error"),
    }  # fmt: skip


def _measured(m: events.TrialMeasured) -> dict[str, Any]:
    row: dict[str, Any] = {
        "ms": m.time.ms, "baseline": m.baseline, "baseline_ms": m.baseline_ms, "ratio": m.ratio,
        "ratio_low": m.ratio_low, "ratio_high": m.ratio_high, "checks": m.checks,
    }  # fmt: skip
    if isinstance(m.time, events.Measurement):
        row |= {"low": m.time.low, "high": m.time.high, "call_ms": m.time.call_ms}
    return row | ({"part": m.part} if m.part else {})
