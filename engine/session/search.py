"""The search of a session: which trial is next, whether it is worth one more, and what is built ahead meanwhile.

A trial in the log is not proposed again: the strategy is asked only where the log ends. The budget (sol.budget) closes
a class; the search ends when the trials are used up or when the strategy has nothing left to try.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from dsl.check.program import check
from engine.devices import TrialError
from engine.session import events, trial
from engine.session.journal import Journal, Owner
from engine.session.trial import Emitted, Steps
from engine.strategies import Finished, Proposal, State, Strategy
from engine.strategies.planner.lowering import program_graph
from engine.words import baseline_name, count
from sol import budget

PREFETCH = 4  # candidates handed to the device to build ahead


@dataclass(frozen=True)
class Ending:
    """Why a search ended: a code of events.SessionEnded, and the reason in words."""

    code: str
    reason: str


class Search:
    """`ended`: the trials so far, in order; `closed`: the classes whose search the stop rules ended."""

    def __init__(self, journal: Journal, owner: Owner, strategy: Strategy, context: trial.Context):
        self.journal, self.owner, self.strategy, self.context = journal, owner, strategy, context
        self.device = context.device
        self.ended: list[Finished] = []
        self.closed: dict[str, budget.Stop] = {}

    @property
    def _state(self) -> State:
        return State(tuple(self.ended), self.owner.budget["trials"], {c: str(why) for c, why in self.closed.items()})

    @property
    def closed_data(self) -> list[dict[str, Any]]:
        """`closed` as events.SessionEnded has it."""
        return [{"cls": cls, **asdict(why)} for cls, why in self.closed.items()]

    def run(self) -> Steps[Ending]:
        """Trials to the end, and why it came. Raises Stopped."""
        while True:
            number = len(self.ended) + 1
            proposed = self.journal.past(events.TrialProposed, number)
            if proposed is None:
                proposal = yield from self._next(number)
                if isinstance(proposal, Ending):
                    return replace(proposal, reason=self._summary(proposal.reason))
            else:
                proposal = Proposal(
                    self.journal.blob(proposed.program), proposed.cls, proposed.backend, proposed.change, proposed.why,
                    proposed.parent, proposed.predicted_ms, proposed.by, proposed.structure, proposed.settings,
                )  # fmt: skip
            done = State(tuple(self.ended))
            best_ms = trial.best_time(done.trials, proposal.cls)
            self.context.beside = trial.standing(done.standing(proposal.cls).values())
            self.ended.append((yield from trial.run(number, proposal, self.context, best_ms)))
            self.prefetch()

    def _next(self, number: int) -> Steps[Proposal | Ending]:
        """The next trial, proposed; or why there is none."""
        yield from self.owner.between()
        for cls in self.strategy.classes:
            why = self._enough(cls)
            self.closed.pop(cls, None)
            if why:
                self.closed[cls] = why
        state = self._state
        proposal = self._owners()
        if proposal is None:
            if sum(t.by == "strategy" for t in self.ended) >= self.owner.budget["trials"]:
                return Ending("budget_used", f"The budget of {count(self.owner.budget['trials'], 'trial')} is used up.")
            yield from self._screen(number, state)
            proposal = self.strategy.next(replace(state, quick=self._quick()))
        if proposal is None:
            why = "; ".join(f"{c}: {why}" for c, why in self.closed.items()) or "there is nothing left to try"
            return Ending("search_over", f"The search is over: {why}.")
        roof = trial.limiting(proposal.text, proposal.cls)
        yield from self.journal.emit(
            events.TrialProposed(
                number, proposal.cls, events.blob_name(proposal.text), proposal.backend, proposal.change, proposal.why,
                proposal.parent, proposal.predicted_ms, proposal.by, roof if roof != proposal.cls else "",
                proposal.structure, proposal.settings,
            ),
            proposal.text,
        )  # fmt: skip
        return proposal

    def _screen(self, number: int, state: State) -> Iterator[Emitted]:
        """Where the device times quickly: the strategy's next candidates a few calls each, before trial `number`."""
        device, context = self.device, self.context
        asked = hasattr(device, "quick") and hasattr(self.strategy, "screen")
        if not asked or self.journal.past(events.Screened, number):
            return
        state = replace(state, quick=self._quick())
        wanted = [p for p in self.strategy.screen(state) if p.cls in context.baselines]
        if not wanted:
            return
        began, quick = time.perf_counter(), {}
        doing = events.Progress(f"Choosing among {count(len(wanted), 'candidate')}", "screen", number)
        yield from self.journal.emit(doing)
        for cls in dict.fromkeys(p.cls for p in wanted):
            context.beside = trial.standing(state.standing(cls).values())
            made = []
            for p in (p for p in wanted if p.cls == cls):
                quick[events.blob_name(p.text)] = None
                with contextlib.suppress(TrialError):
                    made.append((p.text, trial.candidate(number, p, context)))
            device.prefetch([c for _, c in made])
            times = yield from self.owner.call(lambda made=made, cls=cls: device.quick(
                [c for _, c in made], context.baselines[cls]
            ))  # fmt: skip
            quick |= {events.blob_name(text): ms for (text, _), ms in zip(made, times, strict=True)}
        texts = [p.text for p in wanted]
        yield from self.journal.emit(events.Screened(number, quick, time.perf_counter() - began), *texts)

    def _quick(self) -> dict[str, float | None]:
        """Program -> quick time, of all that the log holds."""
        held = self.journal.of(events.Screened)
        return {self.journal.blob(name): ms for e in held for name, ms in e.quick.items()}

    def _owners(self) -> Proposal | None:
        """The owner's next program: the n-th `try` of the log is the n-th trial by the owner."""
        tries = [e for e in self.journal.of(events.Controlled) if e.action == "try"]
        done = sum(t.by == "owner" for t in self.ended)
        if done >= len(tries):
            return None
        text = self.journal.blob(tries[done].data["program"])
        checked = check(text)
        cls = program_graph.class_of(checked.program) if checked.ok else self.strategy.classes[0]
        backend = trial.backend_of(text, self.context.sms)
        return Proposal(text, cls, backend, "your program", "tried by the owner", by="owner")

    def _enough(self, cls: str) -> budget.Stop | None:
        """Why the class needs no further trial (sol.budget), or None. The owner's own trials count for the best."""
        best, since, fastest = None, 0, ""
        for t in self.ended:
            if t.cls == cls:
                if t.ms is not None and t.clean and (best is None or t.ms < best):
                    best, since, fastest = t.ms, 0, t.text
                else:
                    since += 1
        baseline = self.context.baselines.get(cls)
        limit = self.context.limits[trial.limiting(fastest, cls)]
        return budget.should_stop(
            best, baseline.time.ms if baseline else None, limit, since, self.owner.budget["eps"],
            self.owner.budget["window"],
        )  # fmt: skip

    def prefetch(self) -> None:
        """Tell a device that builds ahead what may come; a hint, so nothing that goes wrong here matters."""
        if self.device.kind != "measured" or self.owner.stopped:
            return
        wanted = []
        for i, proposal in enumerate(self.strategy.upcoming(self._state)[:PREFETCH]):
            try:
                wanted.append(trial.candidate(len(self.ended) + 1 + i, proposal, self.context))
            except TrialError:
                continue
        self.device.prefetch(wanted)

    def _summary(self, why: str) -> str:
        judged = {e.trial: e for e in self.journal.of(events.TrialJudged)}
        best = {e.cls: e for e in judged.values() if e.best}
        state = State(tuple(self.ended))
        slower = {cls: judged[t.number] for cls in self.strategy.classes if cls not in best and (t := state.best(cls))}
        if not best and not slower:
            return f"{why} No trial gave a right result."
        notes = [*self.journal.of(events.Noted), *self.journal.of(events.Covered)]
        why = " ".join([why, *(f"{e.text}." for e in notes)])
        if slower:
            why = " ".join([why, *(self._pytorch_stays(e) for e in slower.values())])
        found = ", ".join(
            f"{cls}: {e.ms:.3g} ms {e.kind}, {e.speedup:.2f}x {baseline_name(e.baseline)}" for cls, e in best.items()
        )
        return f"{why} Best in {found}." if best else why

    def _pytorch_stays(self, fastest: events.TrialJudged) -> str:
        measured: events.TrialMeasured = self.journal.past(events.TrialMeasured, fastest.trial)
        return (
            f"No program was faster than PyTorch in {fastest.cls}; PyTorch stays: {baseline_name(fastest.baseline)} "
            f"takes {measured.baseline_ms:.3g} ms, the fastest program (trial {fastest.trial}) {fastest.ms:.3g} ms, "
            f"both {fastest.kind}."
        )
