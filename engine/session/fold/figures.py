"""The figures of a session: they take the data from its view and the drawing from sol.figures.

    of(view, report) -> {name: sol.figures.Figure or None while there is nothing to draw}

This module checks, prices and predicts nothing: the engine logged what a figure needs of a program. The page requests
these figures from the server (playground/figures.py); exports and the command line render them as pictures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from engine.session.fold.reduce import View
from engine.session.fold.view import Baseline, Trial
from engine.words import baseline_name
from sol import budget, lever_check
from sol.attainable import StageTime
from sol.figures import Figure, breakdown, choices, history, of_report, roofline, shares, stages
from sol.levers import Lever

Report = Mapping[str, Any]  # a sol.report as plain data
T = TypeVar("T")


def of(
    view: View, report: Report | None, trial: int | None = None, names: Iterable[str] | None = None
) -> dict[str, Figure | None]:
    """The requested figures of NAMES, or all. `report`: of the session, None while there is none; `trial`: the number
    of the trial whose time `stages`, `shares` and `waterfall` break down, by default the best."""
    chosen = view.trials.get(trial) if trial is not None else view.shown
    return {name: _MAKERS[name](view, report, chosen) for name in (NAMES if names is None else names)}


def _roofline(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    if report is None:
        return None
    allowed = {*view.classes, *(b.cls for b in view.baselines)} or set(report["classes"])
    classes = [c for c in report["classes"] if c in allowed and c in report["bounds"]]
    roofs = roofline.roofs_of_report(report, classes)
    if not of_report.flops(report) or not roofs:
        return None
    best = set(view.best.values())
    points = [
        of_report.point(
            report, f"trial {t.number}", t.judged.cls, t.judged.ms, t.judged.kind,
            "best" if t.number in best else "trial", t.number,
        )
        for t in _judged(view)
        if t.judged.cls in report["bounds"]
    ]  # fmt: skip
    points += [
        of_report.point(report, baseline_name(b.name), b.cls, b.ms, b.kind, "baseline")
        for b in view.baselines
        if b.ms and b.cls in report["bounds"]
    ]
    note = of_report.launch_note(report, classes)
    return roofline.roofline(roofs, points, report["gpu"]["title"], of_report.spans(report), note)


def _judged(view: View) -> list[Trial]:
    """The trials with a time, by number."""
    judged = [t for t in view.trials.values() if t.judged is not None and t.judged.ms and t.judged.speedup]
    return sorted(judged, key=lambda t: t.number)


def _history(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    """Drawn once a trial has a time."""
    timed = _judged(view)
    if not timed:
        return None
    best: dict[str, float] = {}
    trials = []
    for t in sorted(view.trials.values(), key=lambda t: t.number):
        if t in timed:
            j = t.judged
            counts = view.counts(t)
            is_best = counts and j.best and j.speedup > 1 and (j.cls not in best or j.ms < best[j.cls])
            best |= {j.cls: j.ms} if is_best else {}
            baseline = baseline_name(j.baseline)
            trials.append(history.HistoryTrial(
                t.number, j.cls, j.kind, j.speedup, j.ms, baseline, t.outcome, counts, is_best, _why_not(t, counts)
            ))  # fmt: skip
        elif t.failed is not None:
            reason = t.failed.reason
            trials.append(history.HistoryTrial(t.number, t.cls, "", None, outcome=t.outcome, counts=False, note=reason))
        elif t.untimed is not None:
            note = t.untimed.text
            trials.append(history.HistoryTrial(t.number, t.cls, "", None, outcome=t.outcome, counts=False, note=note))
    stops = [s for cls in dict.fromkeys(t.judged.cls for t in timed) if (s := _stop(view, cls)) is not None]
    return history.history(trials, stops, view.budget.get("eps"))


def _why_not(trial: Trial, counts: bool) -> str:
    j = trial.judged
    if counts:
        return ""
    flaw = next((e.get("said", "") for e in j.evidence if e.get("verdict") == j.verdict), "")
    return f"leaves out work: {j.algebraic}" if j.counts else f"{j.verdict}: {flaw}" if flaw else j.verdict


def _limit(view: View, cls: str) -> float | None:
    """The limit in ms of a class: that of its fastest program, which may be the limit of a guarded program's class."""
    fastest = view.trials[view.fastest[cls]].judged if cls in view.fastest else None
    return fastest.ms / fastest.gap if fastest is not None and fastest.gap else view.bounds.get(cls)


def _stop(view: View, cls: str) -> history.StopLine | None:
    """The stop rules of a class, and the trial at which they ended its search."""
    baseline, limit = view.beside(cls), _limit(view, cls)
    if baseline is None or baseline.ms is None or limit is None:
        return None
    eps, window = view.budget.get("eps", 0.0), int(view.budget.get("window", 0))
    best, since, at = None, 0, None
    for t in sorted(view.trials.values(), key=lambda t: t.number):
        if t.cls != cls or not t.ended or t.untimed is not None or t.by == "engine":
            continue
        if view.counts(t) and (best is None or t.judged.ms < best):
            best, since = t.judged.ms, 0
        else:
            since += 1
        if budget.should_stop(best, baseline.ms, limit, since, eps, window):
            at = t.number
            break
    return history.StopLine(cls, baseline.ms, limit, eps, window, at)


def _breakdown(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    """For the class of the trial in the page's head, or for the first allowed class while there is none."""
    if report is None:
        return None
    trial = view.shown
    j = trial.judged if trial is not None else None
    classes = [*([j.cls] if j else []), *view.classes, *report["classes"]]
    cls = next((c for c in classes if c in report["bounds"]), "")
    theirs = next((b for b in view.baselines if j is not None and b.name == j.baseline), None) or view.baseline(cls)
    best = None
    if j is not None and j.ms and j.cls == cls:
        best = breakdown.Run("best" if view.headline is not None else "fastest trial", j.ms, j.kind)
    return breakdown.breakdown(report, cls, best, _run(theirs))


def _run(baseline: Baseline | None) -> breakdown.Run | None:
    return breakdown.Run("PyTorch", baseline.ms, baseline.kind) if baseline is not None and baseline.ms else None


def _stages(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    run = _times(chosen)
    return stages.stages(run) if run else None


def _times(trial: Trial | None) -> list[StageTime]:
    """The trial's time by stage, as the model of the device predicts it, also for a measured trial."""
    return [_known(StageTime, s) for s in trial.stages] if trial is not None else []


def _shares(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    """How much of each limit a trial used. Without a trial: how much PyTorch uses."""
    if report is None:
        return None
    j = chosen.judged if chosen is not None else None
    if j is not None and j.cls in report["bounds"] and j.ms:
        return shares.shares(dict(report), j.cls, j.ms, j.kind)
    first = next((b for b in view.baselines if b.cls in report["bounds"] and b.ms), None)
    return shares.shares(dict(report), first.cls, first.ms, first.kind) if first is not None else None


def _waterfall(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    """From the limit of the program's computation, which may be a region of the module, to its predicted time."""
    run = _times(chosen)
    if not run:
        return None
    if chosen.judged is None:
        return stages.waterfall(run)
    if chosen.region is None or view.coverage is None:
        return stages.waterfall(run, view.bounds.get(chosen.judged.cls))
    limit = view.coverage.limits(chosen.region).get(chosen.judged.cls)
    return stages.waterfall(run, limit, of=f"region {chosen.region}")


def _levers(view: View, report: Report | None, chosen: Trial | None) -> Figure | None:
    """What the report's levers promised, and the results of the trials that tried them."""
    if report is None or not report["levers"] or not any(t.ended for t in view.trials.values()):
        return None
    trials = [
        lever_check.Timed(t.number, t.judged.cls, frozenset(t.tried), t.judged.ms)
        for t in _judged(view)
        if t.judged.counts
    ]
    theirs = {cls: b.ms for cls in view.all_classes if (b := view.beside(cls)) is not None and b.ms}
    checked = lever_check.check([_known(Lever, x) for x in report["levers"]], trials, theirs)
    drawn = choices.levers(lever_check.outcomes(checked))
    rows = [
        {"lever": c.title, "class": c.cls, "predicted": round(c.predicted, 3),
         "observed": None if c.observed is None else round(c.observed, 3), "trial": c.trial, "against": c.against}
        for c in checked
    ]  # fmt: skip
    return dataclasses.replace(drawn, rows=rows)


def _known(cls: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass from data of any version. Fields that the dataclass lacks are dropped."""
    names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{k: v for k, v in data.items() if k in names})


_MAKERS: dict[str, Callable[[View, Report | None, Trial | None], Figure | None]] = {
    "roofline": _roofline, "history": _history, "breakdown": _breakdown, "stages": _stages, "shares": _shares,
    "waterfall": _waterfall, "levers": _levers,
}  # fmt: skip
NAMES = tuple(_MAKERS)
