"""Calls of a candidate in a row, as when it is timed, without checks in between.

The judge chooses the results that it looks at when all calls are over: all of several bursts where calls and results
are small, so that a share of calls without work comes to light, else some of one burst.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from typing import Any

from engine.evaluate.integrity.findings import Finding
from engine.evaluate.integrity.judging import explain, note_facts, number
from engine.evaluate.integrity.process.outside import CHILDREN
from engine.evaluate.integrity.rounds import Round

BURST, LOOKED_AT, SETS = 24, 3, 2
# All results of so many bursts are looked at, if a burst takes no longer and its results are no larger than this.
BURSTS, CHEAP_SECONDS, CHEAP_BYTES = 3, 0.5, 4 << 20
SURE = 3  # bursts in a row whose time must contradict the clock outside
FASTER = 0.3  # claimed seconds below this share of the time that passed outside are a finding


class Bursts:
    """A part of an Examination, which adds to its report."""

    def __init__(self, examination: Any):
        self.of = examination

    def burst(self, seed: int) -> None:
        """Many calls in a row on sets of values that change, as when it is timed. Which results are looked at is
        drawn when all is over."""
        rounds = [Round("normal", seed + i) for i in range(SETS)]
        for r in rounds:
            self.of.lay_out(r)
            self.of.c.ask("keep", self.of.examiner.call_seconds)
        turns = [self.of.examiner.random.randrange(SETS) for _ in range(BURST)]
        # A process that gets no core on a busy machine looks as one that lies, but not each time.
        for _ in range(SURE):
            began = time.monotonic()
            if not (contradiction := self._contradiction(turns)):
                break
        else:
            self.of.report.add(Finding("clock", contradiction, dynamic=True))
        cheap = time.monotonic() - began < CHEAP_SECONDS and self.of.examiner.reference.result_bytes <= CHEAP_BYTES
        some = {BURST - 1, *(self.of.examiner.random.randrange(BURST) for _ in range(LOOKED_AT))}
        if not self._look_at(rounds, turns, range(BURST) if cheap else some, some):
            return
        for _ in range(BURSTS - 1 if cheap else 0):
            turns = [self.of.examiner.random.randrange(SETS) for _ in range(BURST)]
            note_facts(self.of.report, self.of.c.ask("burst", self.of.examiner.call_seconds * 2, turns=turns))
            if self.of.bad or not self._look_at(rounds, turns, range(BURST), ()):
                return

    def _look_at(self, rounds: list[Round], turns: list[int], looked: Iterable[int], noted: Container[int]) -> bool:
        """Compare results of a burst. A right one is no round of its own, but those of `noted`. Return False if
        nothing can be compared."""
        for which, r in enumerate(rounds):
            places = [at for at in sorted(looked) if turns[at] == which]
            if not places:
                continue
            self.of.lay_out(r)
            right = self.of.right(r)
            pytorch = self.of.examiner.pytorch_error(r.family, self.of.cls, r.rows, r.seed)
            for at in places:
                reply = self.of.c.ask("fetch", self.of.examiner.call_seconds, at=at)
                if not self.of.fits(reply, right):
                    return False
                looked_at = self.of.examiner.judge.ask(
                    "results",
                    reference=right,
                    result=self.of.c.region("result"),
                    key=r.key,
                    tolerance=self.of.tolerance,
                )
                facts = zip(looked_at["results"], reply["results"], strict=False)
                wrong = any(explain(self.of.cls, a, r.family, pytorch, f, loose=self.of.loose) for a, f in facts)
                if at in noted or wrong:
                    self.of.note(r, reply, {"inputs": [], "guards": True, **looked_at})
        return True

    def _contradiction(self, turns: list[int]) -> str:
        """Many calls in a row; how their time contradicts the one that passed outside, "" if it does not."""
        began = time.monotonic()
        self.of.c.ask("lay", self.of.examiner.call_seconds * 2, turns=turns)
        laid = time.monotonic() - began  # the harness's own part of what follows
        before = self.of.c.waited_for()
        reply = self.of.c.ask("burst", self.of.examiner.call_seconds * 2, turns=turns)
        passed = time.monotonic() - began - 2 * laid
        if (elsewhere := self.of.c.waited_for() - before) > CHILDREN:
            evidence = f"programs that it starts in its calls computed for {elsewhere:.2g} s in {BURST} of them"
            self.of.report.add(Finding("threads", evidence, dynamic=True))
        note_facts(self.of.report, reply)
        seconds = reply.get("seconds")
        claimed = sum(map(number, seconds)) if isinstance(seconds, list) else 0.0
        contradicts = passed > 0.2 and claimed < FASTER * passed
        return f"{claimed:.3g} s claimed, {passed:.3g} s passed outside" if contradicts else ""
