"""One session of a comparison, as its page shows it: nothing that its own link does not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from engine.session.fold.reduce import View
from engine.session.fold.view import Trial
from engine.words import baseline_name, class_name, count, device_name
from playground.gallery.words import speedup, time
from playground.live import log
from playground.models import Session
from sol.budget import times_limit

NOT_SHARED = "Its owner shares the results without the source."
STRATEGIES = {"agent": "a coding agent"}


@dataclass(frozen=True)
class Best:
    """The fastest counted trial of a class, in words. `verdict`: with its evidence, [(verdict, text)]."""

    number: int
    time: str
    interval: str
    speedup: str
    limit: str
    verdict: str
    evidence: tuple[tuple[str, str], ...]
    change: str


@dataclass(frozen=True)
class Side:
    """`letter`: A | B; `kind`: measured | predicted | ""; `facts`: (name, text); `steps`: the trials that made a class
    faster, in order; `shared`: whether its texts are."""

    letter: str
    session: Session
    view: View
    kind: str
    facts: tuple[tuple[str, str], ...]
    steps: tuple[dict[str, Any], ...]
    shared: bool

    def best(self, cls: str) -> Best | None:
        number = self.view.fastest.get(cls)
        return None if number is None else _best(self.view.trials[number])

    def form(self, cls: str) -> str:
        """program | kernel, of the best of a class."""
        number = self.view.fastest.get(cls)
        return (self.view.trials[number].form or "program") if number is not None else "program"

    def bound(self, cls: str) -> str:
        """The limit of a class; "" if the session has none."""
        ms = self.view.bounds.get(cls)
        return time(ms) if ms else ""

    def text(self, name: str) -> str | None:
        """A text that the session's link shows, by its SHA-256; None of one that is not shared."""
        row = self.session.blobs.filter(sha256=name).first() if name else None
        return row.text if row is not None else None

    def program(self, cls: str) -> str | None:
        """The best program of a class with every choice made; None if there is none, or if it is not shared."""
        number = self.view.fastest.get(cls)
        if number is None:
            return None
        trial = self.view.trials[number]
        text = self.text(trial.resolved)
        return text if text is not None else self.text(trial.program)


def side(letter: str, session: Session) -> Side:
    """Everything that the comparison shows of a session, from its log."""
    view = log.view(session.id)
    kind = str(view.device.get("kind", ""))
    return Side(
        letter, session, view, kind, tuple((n, t) for n, t in _facts(session, view) if t), tuple(_steps(view)),
        bool(session.spec.get("source")),
    )  # fmt: skip


def _facts(session: Session, view: View) -> list[tuple[str, str]]:
    device = view.device
    first = next((t.measured.time for t in view.trials.values() if t.measured is not None), {})
    own = first.get("device")
    driver = (own.get("driver") if isinstance(own, dict) else "") or device.get("driver") or ""
    started = datetime.fromtimestamp(view.started_t, UTC).date().isoformat() if view.started_t else ""
    ended = f"{view.end.state}: {view.end.reason}" if view.end and view.end.reason else view.state
    error = device.get("error")
    model = f"{device.get('model', '')}, error {error:.0%}" if isinstance(error, int | float) else ""
    return [
        ("Device", device_name(session.summary.get("device") or {})), ("Driver", str(driver)),
        ("Model", model if not driver else ""),
        ("Toolchain", str(device.get("toolchain") or "")), ("Date", started),
        ("Search", STRATEGIES.get(view.strategy, view.strategy)),
        ("Classes", ", ".join(map(class_name, view.classes))),
        ("Trials", f"{count(len(view.proposed), 'trial')}, {sum(t.failed is not None for t in view.proposed)} failed"),
        ("State", ended),
    ]  # fmt: skip


def _best(trial: Trial) -> Best:
    judged, raw = trial.judged, trial.measured.time if trial.measured is not None else {}
    interval = f"{raw['low']:.4g} to {raw['high']:.4g} ms" if raw.get("low") and raw.get("high") else ""
    evidence = tuple((str(e.get("verdict", "")), str(e.get("said", ""))) for e in judged.evidence if e.get("said"))
    score = f", SOL score {judged.sol_score:.2f}" if judged.sol_score else ""
    return Best(
        trial.number, time(judged.ms), interval, f"{speedup(judged.speedup)} over {baseline_name(judged.baseline)}",
        f"{times_limit(judged.gap, judged.ms / judged.gap)}{score}" if judged.gap else "",
        judged.verdict + (", leaves out work by algebra" if judged.algebraic else ""), evidence, trial.change,
    )  # fmt: skip


def _steps(view: View) -> list[dict[str, Any]]:
    """The trials that were the fastest counted of their class when they were judged."""
    fastest: dict[str, float] = {}
    steps = []
    for trial in view.trials.values():
        if not trial.timed or not view.counts(trial):
            continue
        judged = trial.judged
        if judged.ms < fastest.get(judged.cls, float("inf")):
            fastest[judged.cls] = judged.ms
            steps.append({
                "number": trial.number, "cls": class_name(judged.cls), "time": time(judged.ms),
                "speedup": speedup(judged.speedup), "change": trial.change,
            })  # fmt: skip
    return steps
