"""The state of a session at any point of its log, as a script sees it (engine.strategies.state).

The state after the first n events depends only on those events, so a script that is replayed from the log gets exactly
the states that it got the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.evaluate.integrity import trial as integrity
from engine.session import events
from engine.session.fold.view import COUNTING
from engine.session.journal import Journal
from engine.session.owner import changed
from engine.session.verdict import limiting
from engine.strategies.problem import Prepared
from engine.strategies.state import Diagnosis, Finished, State
from engine.words import count
from sol import budget


class StateFold:
    """`budget`: the spec's; `baselines`: class -> PyTorch's time; `algebraic`: whether a program that omits work may be
    the best. `stops`: class -> why its search ended, at the last requested state."""

    def __init__(
        self, journal: Journal, problem: Prepared, baselines: Mapping[str, events.Baseline], budget: dict[str, Any],
        *, algebraic: bool = False,
    ):  # fmt: skip
        self.journal, self.problem, self.algebraic = journal, problem, algebraic
        self._first_budget = budget
        self._pytorch = baselines  # taken before the script begins
        self._finished: dict[int, Finished] = {}  # all trials that ended, at any position of the fold
        self.stops: dict[str, budget.Stop] = {}
        self._rewind()

    def _rewind(self) -> None:
        self._at, self._budget, self._proposed = 0, dict(self._first_budget), 0
        self._ended: list[int] = []
        self._quick: dict[str, float | None] = {}

    def at(self, length: int) -> State:
        """The state after the first `length` events."""
        if length < self._at:
            self._rewind()
        for event in self.journal.log[self._at : length]:
            self._feed(event)
        self._at = max(self._at, length)
        trials = tuple(self.finished(number) for number in sorted(self._ended))
        self.stops = {cls: stop for cls in self.problem.classes if (stop := self._enough(cls, trials)) is not None}
        closed = {cls: str(stop) for cls, stop in self.stops.items()}
        most = self._budget["trials"]
        stop = f"The budget of {count(most, 'trial')} is used up." if self._proposed >= most else ""
        baselines = {cls: b.time.ms for cls, b in self._pytorch.items()}
        return State(trials, most, closed, dict(self._quick), baselines, stop)

    def now(self) -> State:
        return self.at(len(self.journal.log))

    def left(self, length: int) -> int:
        """Trials that the strategy may still propose after the first `length` events."""
        self.at(length)
        return self._budget["trials"] - self._proposed

    def _feed(self, event: events.Event) -> None:
        match event:
            case events.TrialProposed(by="strategy"):
                self._proposed += 1
            case events.TrialJudged() | events.TrialUntimed() | events.TrialFailed():
                self._ended.append(event.trial)
            case events.Screened():
                self._quick |= {self.journal.blob(name): ms for name, ms in event.quick.items()}
            case events.Controlled(action="budget"):
                self._budget = changed(self._budget, event.data)

    def _enough(self, cls: str, trials: tuple[Finished, ...]) -> budget.Stop | None:
        """Why the class needs no further trial (sol.budget), or None. The owner's trials count for the best; the
        session's own last ones come after the search, and do not."""
        best, since, fastest = None, 0, None
        for t in trials:
            if t.cls == cls and not t.untimed and t.by != "engine":
                if t.ms is not None and t.clean and (best is None or t.ms < best):
                    best, since, fastest = t.ms, 0, t
                else:
                    since += 1
        if fastest is None:
            return None
        roof = limiting(fastest.text, cls) if fastest.form == "program" else cls
        return budget.should_stop(
            best, self._pytorch[cls].time.ms if cls in self._pytorch else None, self.problem.limits[roof], since,
            self._budget["eps"], self._budget["window"],
        )  # fmt: skip

    def finished(self, number: int) -> Finished:
        """A trial that ended, with what a strategy can learn from it."""
        if number not in self._finished:
            self._finished[number] = self._sum_up(number)
        return self._finished[number]

    def _sum_up(self, number: int) -> Finished:
        past = self.journal.past
        proposed, end = past(events.TrialProposed, number), self.journal.ended(number)
        measured, compiled = past(events.TrialMeasured, number), past(events.TrialCompiled, number)
        checked, validated = past(events.TrialChecked, number), past(events.TrialValidated, number)
        text, program = self.journal.blob(proposed.program), proposed.form == "program"
        fields: dict[str, Any] = {
            "region": self.problem.region(text) if program else 0,
            "resources": tuple(compiled.resources or ()) if compiled else (),
            "stages": tuple(checked.stages) if checked else (),
            "checks": tuple(validated.checks) if validated else (),
        }
        if isinstance(end, events.TrialJudged):
            fields |= {
                "ms": end.ms, "clean": end.verdict in COUNTING and (self.algebraic or not end.algebraic),
                **_of_part(measured.part), "speedup": end.speedup, "kind": end.kind, "gap": end.gap,
                "tripped": bool(integrity.tripped(measured.checks)), "verdict": end.verdict,
                "evidence": tuple(end.evidence), "log": compiled.note if compiled else "",
            }  # fmt: skip
        elif isinstance(end, events.TrialUntimed):
            fields |= {
                "clean": False, "untimed": True, "code": end.code, "reason": end.text, "verdict": end.verdict,
                "evidence": tuple(end.evidence),
            }  # fmt: skip
        else:
            fields |= {
                "evidence": tuple(end.evidence),
                "clean": False, "failed": end.step, "code": end.code, "reason": end.reason,
                "diagnoses": tuple(Diagnosis(**d) for d in end.diagnostics),
                "log": self.journal.blob(end.detail) if end.detail else "",
            }  # fmt: skip
        return Finished(
            number, text, proposed.cls, proposed.backend, proposed.by, form=proposed.form, language=proposed.language,
            **fields,
        )  # fmt: skip


def _of_part(part: dict[str, Any]) -> dict[str, Any]:
    """The fields of Finished that a trial of a region has."""
    ms, theirs = part.get("region_ms"), part.get("region_eager_ms")
    return {"region_ms": ms, "gain": theirs / ms if ms and theirs else None, "beside": tuple(part.get("beside", ()))}
