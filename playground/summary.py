"""What a list shows of a session without reading its log: the log folded, event by event, into one small dict.

{trials, failed, progress, device, strategy, classes, budget, bounds, baselines: {class: {name, ms, kind}},
 best: {trial, cls, kind, ms, speedup, baseline, gap, sol_score, verdict}, by_class: {class: best}, end: {...}}

`best` is the largest speedup among trials that the log calls the best of their class so far; it always names its
baseline, its precision class, and whether it was measured or predicted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.session import events

if TYPE_CHECKING:
    from playground.models import Session

HONEST = ("clean", "minor")


def fold(session: Session, event: events.Event, t: float) -> None:
    """Fold one event into the session's row (in memory; the caller saves it)."""
    s = session.summary
    match event:
        case events.SessionStarted():
            session.title = event.title or session.title
            s |= {
                "device": event.device,
                "strategy": event.strategy,
                "classes": event.classes,
                "budget": event.budget,
                "started": t,
            }
        case events.Progress():
            s["progress"] = event.text
        case events.Traced() if event.title:
            session.title = event.title
        case events.Reported():
            s |= {"bounds": event.bounds, "sentence": event.summary}
        case events.Baseline():
            told = {"name": event.name, "ms": event.time.ms, "kind": event.time.kind}
            s.setdefault("baselines", {}).setdefault(event.cls, told)
        case events.TrialProposed():
            s["trials"] = s.get("trials", 0) + 1
        case events.TrialFailed():
            s["failed"] = s.get("failed", 0) + 1
            session.losses = 0
        case events.TrialJudged():
            session.losses = 0
            _judged(s, event)
        case events.Controlled() if event.action == "budget":
            s["budget"] = s.get("budget", {}) | event.data
        case events.Controlled() if event.action in ("pause", "resume"):
            s["paused"] = event.action == "pause"
        case events.SessionEnded():
            session.state = session.ENDED
            session.ended = datetime.fromtimestamp(t, UTC)
            s["end"] = {
                "state": event.state,
                "reason": event.reason,
                "seconds": event.seconds,
                "code": event.code,
                "line": event.line,
            }
            s.pop("progress", None)


def _judged(s: dict, event: events.TrialJudged) -> None:
    if not event.best or event.verdict not in ("clean", "minor"):
        return
    told = {
        name: getattr(event, name)
        for name in ("trial", "cls", "kind", "ms", "speedup", "baseline", "gap", "sol_score", "verdict")
    }
    by_class = s.setdefault("by_class", {})
    if event.cls not in by_class or event.ms < by_class[event.cls]["ms"]:
        by_class[event.cls] = told
    if "best" not in s or event.speedup > s["best"]["speedup"]:
        s["best"] = told
