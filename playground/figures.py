"""Plotly figures of a session, made from its log: the log says what happened, sol.figures.plots how to draw it.

Nothing is checked, priced or predicted here: what a figure needs of a program, the engine wrote beside it."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

from engine.session import events
from playground.live import log
from playground.models import Blob, Session
from playground.summary import HONEST
from sol import budget, lever_check
from sol.attainable import StageTime
from sol.figures import charts, plots
from sol.hardware import Hardware, HardwareError, load
from sol.levers import Lever

NAMES = ("roofline", "history", "breakdown", "shares", "waterfall", "levers")
EMPTY: dict[str, Any] = dict.fromkeys(NAMES)


@dataclass
class Story:
    """What the figures need of a log. Times in ms."""

    hardware: str = ""
    classes: list[str] = field(default_factory=list)
    budget: dict[str, Any] = field(default_factory=dict)
    report: str = ""
    bounds: dict[str, float] = field(default_factory=dict)
    baselines: dict[str, events.Baseline] = field(default_factory=dict)
    cls_of: dict[int, str] = field(default_factory=dict)
    checked: dict[int, events.TrialChecked] = field(default_factory=dict)
    limits: dict[int, dict[str, float]] = field(default_factory=dict)  # of each region, by class
    region: dict[int, int] = field(default_factory=dict)  # of a trial whose program is not the whole module
    finished: dict[int, events.TrialJudged | events.TrialFailed] = field(default_factory=dict)

    @staticmethod
    def read(session_id: str) -> Story:
        s = Story()
        for _, event in log.history(session_id):
            match event:
                case events.SessionStarted():
                    s.hardware = event.device.get("hardware", "")
                    s.classes, s.budget = list(event.classes), dict(event.budget)
                case events.Reported():
                    s.report, s.bounds = event.report, event.bounds
                case events.Covered():
                    s.limits = {r["number"]: r["limits"] for r in event.regions}
                case events.TrialMeasured() if event.part:
                    s.region[event.trial] = event.part["region"]
                case events.Baseline():
                    s.baselines.setdefault(event.cls, event)
                case events.TrialProposed():
                    s.cls_of[event.trial] = event.cls
                case events.TrialChecked():
                    s.checked[event.trial] = event
                case events.TrialJudged() | events.TrialFailed():
                    s.finished[event.trial] = event
                case events.Controlled() if event.action == "budget":
                    s.budget |= event.data
        return s

    @property
    def all_classes(self) -> list[str]:
        return list(dict.fromkeys([*self.classes, *self.baselines]))

    def beside(self, cls: str) -> events.Baseline | None:
        """PyTorch's time that a class is compared with: its own, or of another class where PyTorch has none in it."""
        if cls in self.baselines:
            return self.baselines[cls]
        judged = [t for t in self.finished.values() if isinstance(t, events.TrialJudged) and t.cls == cls]
        return next((b for b in self.baselines.values() if any(b.name == t.baseline for t in judged)), None)

    def best(self) -> events.TrialJudged | None:
        judged = [t for t in self.finished.values() if isinstance(t, events.TrialJudged) and t.best]
        return max(judged, key=lambda t: t.speedup, default=None)


def of(session: Session, trial: int | None = None) -> dict[str, Any]:
    """One entry a name of NAMES: {figure: {data, layout}, rows, title}, or None while there is nothing to draw.

    `trial`: whose time breakdown, shares and waterfall take apart; the best one otherwise. Cached until the log grows.
    """
    return _of(session.id, session.last_seq, trial)


@functools.lru_cache(maxsize=256)
def _of(session_id: str, last_seq: int, trial: int | None) -> dict[str, Any]:
    story = Story.read(session_id)
    try:
        hw = load(story.hardware)
    except HardwareError:
        return EMPTY
    report = _report(story)
    stages = _stages(story, trial)
    drawn = {
        "roofline": _roofline(story, hw, report),
        "history": _history(story),
        "breakdown": plots.breakdown(stages) if stages else None,
        "shares": _shares(story, report, trial),
        "waterfall": _waterfall(story, stages, trial),
        "levers": _levers(story, report),
    }
    return {k: None if f is None else {"figure": f.figure, "rows": f.rows, "title": f.title} for k, f in drawn.items()}


def _blob(name: str) -> str | None:
    found = Blob.objects.filter(sha256=name).first()
    return found.text if found else None


def _report(story: Story) -> dict[str, Any] | None:
    text = _blob(story.report) if story.report else None
    return None if text is None else json.loads(text)


def _roofline(story: Story, hw: Hardware, report: dict[str, Any] | None) -> plots.Figure | None:
    """All points of a problem lie on one vertical line: its own FLOPs over its compulsory bytes."""
    if report is None:
        return None
    totals = report["totals"]
    needed = totals.get("needed_flops", totals["matrix_flops"])  # older reports have what PyTorch counts alone
    flops, moved = needed or totals["vector_flops"], totals["bytes"]
    if not flops or not moved:
        return None
    points = [
        plots.Point(b.name, b.time.kind, flops / moved, flops / (b.time.ms * 1e-3), cls, "baseline")
        for cls, b in story.baselines.items()
    ]
    best = story.best()
    for number, t in sorted(story.finished.items()):
        if isinstance(t, events.TrialJudged):
            marker = "best" if best is not None and number == best.trial else "trial"
            rate = flops / (t.ms * 1e-3)
            points.append(plots.Point(f"trial {number}", t.kind, flops / moved, rate, t.cls, marker, number))
    return plots.roofline(hw, points, story.all_classes)


def _history(story: Story) -> plots.Figure | None:
    trials = []
    for number, t in sorted(story.finished.items()):
        if isinstance(t, events.TrialJudged):
            trials.append(plots.HistoryTrial(number, t.cls, t.kind, t.speedup, t.ms, t.text, t.best))
        else:
            trials.append(plots.HistoryTrial(number, story.cls_of.get(number, ""), "", None, None, t.reason))
    stops = []
    for cls in story.classes:
        baseline = story.beside(cls)
        if baseline is None or cls not in story.bounds:
            continue
        eps, window = story.budget.get("eps", 0.0), story.budget.get("window", 0)
        at, why = _stopped(story, cls, baseline.time.ms, eps, window)
        stops.append(plots.StopLine(cls, baseline.time.ms, story.bounds[cls], eps, window, at, why))
    return plots.history(trials, stops)


def _stopped(story: Story, cls: str, baseline_ms: float, eps: float, window: int) -> tuple[int | None, str]:
    """The trial at which the rules said enough for a class, and their reason."""
    best, since = None, 0
    for number, t in sorted(story.finished.items()):
        if story.cls_of.get(number) != cls:
            continue
        if isinstance(t, events.TrialJudged) and t.best and (best is None or t.ms < best):
            best, since = t.ms, 0
        else:
            since += 1
        if why := budget.should_stop(best, baseline_ms, story.bounds[cls], since, eps, window):
            return number, why
    return None, ""


def _chosen(story: Story, trial: int | None) -> events.TrialJudged | None:
    if trial is None:
        return story.best()
    found = story.finished.get(trial)
    return found if isinstance(found, events.TrialJudged) else None


def _stages(story: Story, trial: int | None) -> tuple[StageTime, ...]:
    """Where the model of the device says that a trial's time goes; a measured trial's parts are a prediction too."""
    if trial is None:
        best = story.best()
        trial = best.trial if best is not None else None
    return tuple(StageTime(**s) for s in story.checked[trial].stages) if trial in story.checked else ()


def _shares(story: Story, report: dict[str, Any] | None, trial: int | None) -> plots.Figure | None:
    """How much of each limit a trial used; without one, how much PyTorch does."""
    t = _chosen(story, trial)
    if report is None:
        return None
    if t is not None and t.cls in report["bounds"]:
        return charts.shares(report, t.cls, t.ms, t.kind)
    first = next((b for cls, b in story.baselines.items() if cls in report["bounds"]), None)
    return charts.shares(report, first.cls, first.time.ms, first.time.kind) if first is not None else None


def _waterfall(story: Story, stages: tuple[StageTime, ...], trial: int | None) -> plots.Figure | None:
    """From the limit of what the program computes, which may be a region of the module, to its predicted time."""
    if not stages:
        return None
    t = _chosen(story, trial)
    if t is None:
        return charts.waterfall(stages, None)
    number = story.region.get(t.trial)
    if number is None:
        return charts.waterfall(stages, story.bounds.get(t.cls))
    drawn = charts.waterfall(stages, story.limits.get(number, {}).get(t.cls))
    return plots.Figure(drawn.figure, drawn.rows, f"{drawn.title}: region {number}, beside its own limit")


def _levers(story: Story, report: dict[str, Any] | None) -> plots.Figure | None:
    """What the report's levers promised and what the trials that tried them brought."""
    if report is None or not report["levers"] or not story.finished:
        return None
    trials = []
    for number, t in sorted(story.finished.items()):
        if isinstance(t, events.TrialJudged) and t.verdict in HONEST and number in story.checked:
            trials.append(lever_check.Timed(number, t.cls, frozenset(story.checked[number].tried), t.ms))
    found = lever_check.check(
        [Lever(**x) for x in report["levers"]],
        trials,
        {cls: b.time.ms for cls in story.all_classes if (b := story.beside(cls))},
    )
    drawn = charts.levers_kept(lever_check.outcomes(found))
    rows = [
        {"lever": c.title, "class": c.cls, "predicted": round(c.predicted, 3),
         "observed": None if c.observed is None else round(c.observed, 3), "trial": c.trial, "against": c.against}
        for c in found
    ]  # fmt: skip
    return plots.Figure(drawn.figure, rows, drawn.title)
