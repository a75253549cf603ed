"""What a session reads from other problems before its search, and what it leaves for them."""

from __future__ import annotations

import logging

from engine.session import events, trial
from engine.session.journal import Journal
from engine.session.script.lanes import Lanes
from engine.session.script.state_fold import StateFold
from engine.session.script.steps import Events
from engine.strategies.api import Strategy
from engine.strategies.problem import Prepared
from engine.words import count

logger = logging.getLogger(__name__)


class Memory:
    """`teaches`: whether the session's measurements are stored; `frozen`: the memory as a text, None for that of this
    machine."""

    def __init__(self, journal: Journal, teaches: bool = True, frozen: str | None = None):
        self.journal, self.teaches, self.frozen = journal, teaches, frozen

    def recall(self, problem: Prepared, strategy: Strategy, lanes: Lanes) -> Events:
        """The strategy's memory, from the log if it has it."""
        if not strategy.remembers:
            return
        if self.journal.past(events.MemoryRead) is None:
            text = self.frozen
            if text is None:
                text = yield from lanes.call(lambda: strategy.recall(problem), "think", "prepare", beside=True)
            entries = text.count("\n")
            words = f"{count(entries, 'fact')} of other problems." if text else "Nothing is known of other problems."
            yield from self.journal.emit(events.MemoryRead(events.blob_name(text), entries, words), text)
        problem.memory = self.journal.blob(self.journal.past(events.MemoryRead).memory)

    def teach(self, problem: Prepared, strategy: Strategy, fold: StateFold) -> Events:
        """Store the measurements for the next problems of this machine. Predictions teach nothing, and neither do
        errors of the engine. The event is logged first, so a resumed session still stores them if the engine is lost
        here."""
        if not self.teaches or not strategy.remembers:
            return
        try:
            if self.journal.past(events.MemoryWritten) is None:
                lesson = strategy.lesson(problem, self._measured(fold))
                entries = lesson.count("\n")
                words = f"{count(entries, 'fact')} for other problems."
                if lesson:
                    written = events.MemoryWritten(events.blob_name(lesson), entries, words)
                    yield from self.journal.emit(written, lesson)
            written = self.journal.past(events.MemoryWritten)
            if written is not None:
                strategy.keep(problem, self.journal.blob(written.memory))
        except Exception:  # a failure here must not fail a finished session
            logger.exception("the session's measurements were not stored")

    def _measured(self, fold: StateFold) -> list:
        """Finished trials with measurements of a device; none if nothing was measured."""
        numbers = {e.trial for e in self.journal.of(events.TrialJudged) if e.kind == "measured"}
        if not numbers:
            return []
        faults = (*trial.LOST, "engine_error")
        numbers |= {e.trial for e in self.journal.of(events.TrialFailed) if e.code not in faults}
        return [fold.finished(number) for number in sorted(numbers)]
