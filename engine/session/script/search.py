"""Plays a strategy's script: each verb is answered from the log, and where the log ends by what is done now.

A verb's path is its place in the script. The event that a script advanced says which state the script was given; a verb
that has one is answered from the log. The first verb without one is where the session stands: its trials that have no
end are done again under their numbers, a turn that was under way is asked at most once more. The owner's tries run
beside a verb where a lane is free, and before the script goes on.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.devices import TrialError
from engine.session import events, trial
from engine.session.journal import Journal
from engine.session.owner import Owner
from engine.session.script import last_trials, profile, turns
from engine.session.script.lanes import Job, Lanes
from engine.session.script.state_fold import StateFold
from engine.session.script.steps import Events, Logged, Steps, Wait, Work
from engine.strategies.api import (
    Answer,
    Ask,
    Candidate,
    Finished,
    Profile,
    Receive,
    Received,
    Screen,
    Screened,
    Show,
    State,
    Strategy,
    Together,
    Try,
    Verb,
)
from engine.strategies.problem import Cancelled, Prepared
from engine.words import count

START = "0"  # the path of the script's beginning
AHEAD = 4  # candidates handed to the device to build ahead


class StrategyChanged(Exception):
    """The script asks for something else than the log holds: nothing is guessed, the session ends."""


class OutOfBudget(Exception):
    """The script proposed a trial beyond the budget. The message says so."""


def refuse_older(journal: Journal) -> None:
    """Raises StrategyChanged for a log whose trials belong to no verb: one of an engine before there were scripts."""
    older = [e.trial for e in journal.of(events.TrialProposed) if e.by == "strategy" and not e.path]
    if older:
        raise StrategyChanged(
            "An older engine began this session, and its log does not say how the search goes on after trial "
            f"{older[-1]}. What the trials found stands. Fork the session to search again."
        )


@dataclass(frozen=True)
class Ending:
    """Why a search ended: a code of events.SessionEnded, and the reason in words."""

    code: str
    reason: str


class Search:
    """`handlers`: verb (ask | profile) -> what answers it (engine.session.script.turns)."""

    def __init__(
        self, journal: Journal, owner: Owner, lanes: Lanes, strategy: Strategy, context: trial.Context,
        fold: StateFold, handlers: Mapping[str, turns.Handler],
    ):  # fmt: skip
        self.journal, self.owner, self.lanes, self.strategy = journal, owner, lanes, strategy
        self.context, self.fold, self.handlers = context, fold, handlers
        self.problem: Prepared = context.problem
        self._under_way: set[int] = set()  # open trials that a job has
        self._profiles: set[int] = set()  # the owner's requests for a profile that a job has
        self._profiling = False  # for the owner: one at a time, because each prepares a process of its own
        self._receiving = strategy.receives
        self._state = State()  # what the script was given last

    def run(self) -> Logged[Ending]:
        """The script to its end, and why it came. Raises Stopped and StrategyChanged."""
        self.problem.start = yield from self._advanced(START, "start", "")
        script = self.strategy.run(self.problem)
        answer, place, code = None, 0, "budget_used"
        try:
            while True:
                verb, reason = yield from self._think(script, answer)
                if verb is None:
                    code = code if reason == self._state.stop else "search_over"
                    break
                place += 1
                answer = yield from self._answer(str(place), verb)
        except OutOfBudget as e:
            reason = str(e)
        finally:
            with contextlib.suppress(ValueError):  # it is still thinking, in its own thread
                script.close()
        if str(place + 1) in self.journal.digests:
            raise self._changed(str(place + 1))
        self._receiving = False
        yield from self.lanes.run(more=self._owners)
        if self.strategy.searches:
            yield from self._last()
        return Ending(code, reason)

    def _last(self) -> Events:
        """The session's own trials of what the search found (engine.session.script.last_trials)."""
        for cls in self.problem.classes:
            path = f"{last_trials.BY} {cls}"
            if self._proposed(path) is None and not self.owner.stopped:
                best = self.fold.now().best(cls)
                if (proposal := last_trials.of(best, path, self.context, self.fold)) is not None:
                    yield from self._log_proposal(proposal)
            proposed = self._proposed(path)
            if proposed is not None and self.journal.ended(proposed.trial) is None:
                yield from self.lanes.run([Job(self._trial(proposed))], self._owners)

    def _think(self, script: Generator, answer: Any) -> Logged[tuple[Verb | None, str]]:
        """The script's next verb, or why it ended."""

        def advance() -> tuple[Verb | None, str]:
            try:
                return script.send(answer), ""
            except StopIteration as e:
                return None, str(e.value or f"The strategy {self.strategy.name} has nothing left to try.")
            except Cancelled:
                return None, "The strategy was stopped while it was thinking."

        return (yield from self.lanes.call(advance, "think", "think", beside=True))

    # ---- one verb ----

    def _answer(self, path: str, verb: Verb) -> Logged[Answer]:
        """The answer to a verb, from the log or done now, with the state at that point."""
        members = _members(path, verb)
        self._compare(path, verb, members)
        if self.journal.at(events.Advanced, path) is None:
            yield from self._perform(path, members)
        state = yield from self._advanced(path, verb.name, verb.digest)
        answers = [self._collected(at, member, state) for at, member in members]
        return answers if isinstance(verb, Together) else answers[0]

    def _compare(self, path: str, verb: Verb, members: Sequence[tuple[str, Verb]]) -> None:
        """Raises StrategyChanged where the log holds another verb at this path."""
        asked = {at: member.digest for at, member in members} | {path: verb.digest}
        for at, digest in self.journal.digests.get(path, {}).items():
            if asked.get(at) != digest:
                raise self._changed(at)

    def _changed(self, path: str) -> StrategyChanged:
        return StrategyChanged(
            f"At step {path} the strategy {self.strategy.name} now does something else than this session's log holds, "
            "so the session cannot go on from it. What the trials found stands. Fork the session to search again."
        )

    def _perform(self, path: str, members: Sequence[tuple[str, Verb]]) -> Events:
        """Do what the log does not hold: all trials are proposed first, then everything runs on the lanes."""
        yield from self._propose(path, members)
        self._hint([verb for _, verb in members])
        jobs = [self._job(path, verb) for path, verb in members]
        yield from self.lanes.run([job for job in jobs if job is not None], self._owners)

    def _advanced(self, path: str, name: str, digest: str) -> Logged[State]:
        """The state that the script is given; in a live session the owner's tries come before it."""
        event = events.Advanced(path, name, digest)
        if not self.journal.holds(event):
            yield from self.lanes.run(more=self._owners)
            yield from self.journal.emit(event)
        self._state = self.fold.at(self.journal.index(event) + 1)
        return self._state

    def _job(self, path: str, verb: Verb) -> Job | None:
        match verb:
            case Try():
                proposed = self._proposed(path)
                return None if proposed is None else Job(self._trial(proposed))
            case Screen():
                return Job(self._screen(path, verb))
            case Receive():
                return Job(self._receive(path, verb), beside=True)
            case Show():
                return Job(self.journal.emit(events.Shown(path, verb.digest, verb.topic, verb.facts)), beside=True)
            case Profile():
                return Job(self._profile(path, verb), beside=True)
            case Ask():
                return Job(turns.turn(path, verb, self.journal, self.handlers, self.owner.stop.is_set), beside=True)
        raise TypeError(f"a script yields verbs, and this is a {type(verb).__name__}")

    def _collected(self, path: str, verb: Verb, state: State) -> Answer:
        """A member's answer as the log holds it."""
        match verb:
            case Try(candidate=c):
                proposed = self._proposed(path)
                if proposed is not None:
                    return replace(self.fold.finished(proposed.trial), state=state)
                spent = self._refused(path.partition(".")[0])
                reason = self.fold.at(self.journal.index(spent)).stop if self.journal.holds(spent) else state.stop
                return Finished(
                    0, c.text, c.cls, c.backend, clean=False, failed="propose", code="budget", reason=reason,
                    form=c.form, language=c.language, state=state,
                )  # fmt: skip
            case Screen(candidates=candidates):
                quick = self.journal.at(events.Screened, path).quick
                return Screened(tuple(quick.get(events.blob_name(c.text)) for c in candidates), state)
            case Show():
                return state
            case Receive():
                event = self.journal.at(events.Answered, path)
                words = self.journal.tries()[event.request - 1].data.get("change", "")
                return Received(self._tries[event.request - 1], words=words, state=state)
        return turns.reply(verb, self.journal, self.journal.at(events.Answered, path), state)

    def _profile(self, path: str, verb: Profile) -> Steps[None]:
        """Without a profiler, the answer is what the compiler and the model of the GPU say of the trial."""
        handlers, place, amended = dict(self.handlers), self.context.device.place, lambda reply: reply
        if self.journal.ended(verb.trial) is not None:
            ended = self.fold.finished(verb.trial)
            known = profile.described(ended, self.context.limit(ended.cls))
            before = profile.counted(self.journal, verb.trial)
            if before is not None or ended.ms is None or "profile" not in handlers:
                handlers["profile"], place = lambda *_: before or known, None
            amended = functools.partial(profile.or_described, known=known)
        yield from turns.turn(path, verb, self.journal, handlers, self.owner.stop.is_set, place, amended)

    # ---- trials ----

    def _proposed(self, path: str) -> events.TrialProposed | None:
        return next((e for e in self.journal.of(events.TrialProposed) if e.path == path), None)

    @staticmethod
    def _refused(path: str) -> events.Progress:
        """Logged where the budget takes no trial of a verb: a later word on the budget does not change that."""
        return events.Progress(f"No trial is left for step {path}", "propose")

    def _propose(self, path: str, members: Sequence[tuple[str, Verb]]) -> Events:
        """Propose the trials among the members, as many as the budget allowed when the first one was proposed or when
        none could be. Raises OutOfBudget where nothing is left to do."""
        tries = [(at, verb) for at, verb in members if isinstance(verb, Try)]
        if not tries:
            return
        refused, places = self._refused(path), [e for at, _ in tries if (e := self._proposed(at)) is not None]
        if not places and (self.journal.holds(refused) or self.fold.left(len(self.journal.log)) <= 0):
            yield from self.journal.emit(refused)
            if len(tries) == len(members):
                raise OutOfBudget(self.fold.at(self.journal.index(refused)).stop)
            return
        left = self.fold.left(min(map(self.journal.index, places), default=len(self.journal.log)))
        for at, verb in tries[:left]:
            if self._proposed(at) is None:
                yield from self._log_proposal(
                    trial.Proposal(
                        verb.candidate, verb.change, verb.why, verb.parent, verb.predicted_ms, path=at,
                        digest=verb.digest, structure=verb.structure, settings=verb.settings,
                    )
                )  # fmt: skip

    def _log_proposal(self, proposal: trial.Proposal) -> Events:
        yield from self.journal.emit(proposal.event(self.journal.next_trial), proposal.candidate.text)

    def _trial(self, proposed: events.TrialProposed) -> Steps[None]:
        """A proposed trial to its end. What it meets was fixed when it was proposed."""
        self._under_way.add(proposed.trial)
        candidate = Candidate(
            self.journal.blob(proposed.program), proposed.cls, proposed.backend, proposed.form, proposed.language,
            proposed.entry, proposed.rest,
        )  # fmt: skip
        state = self.fold.at(self.journal.index(proposed))
        if proposed.by == last_trials.BY:
            beside = last_trials.beside(proposed, self.fold)
        else:
            beside = trial.standing(state.standing(proposed.cls).values())
        incumbent = trial.Incumbent(trial.best_time(state.trials, proposed.cls), beside)
        yield from trial.run(proposed.trial, candidate, self.context, incumbent)
        self._under_way.discard(proposed.trial)

    def _hint(self, verbs: Sequence[Verb]) -> None:
        """Name to the device what comes first and what may come next."""
        tries = [verb for verb in verbs if isinstance(verb, Try)]
        self.hint([*(v.candidate for v in tries), *(c for v in tries for c in v.upcoming)])

    def hint(self, candidates: Sequence[Candidate]) -> None:
        """Tell a device that builds ahead what may come; nothing that goes wrong here matters."""
        device = self.context.device
        if not device.builds_ahead or self.owner.stopped:
            return
        number, ahead = self.journal.next_trial, []
        for candidate in dict.fromkeys(c for c in candidates if c.form == "program"):
            with contextlib.suppress(TrialError):
                ahead.append(trial.candidate(number + len(ahead), candidate, (), self.context))
        device.prefetch(ahead[:AHEAD])

    # ---- quick times ----

    def _screen(self, path: str, verb: Screen) -> Steps[None]:
        device, number = self.context.device, self.journal.next_trial
        if self.journal.at(events.Screened, path) is not None:
            return
        began, state = time.perf_counter(), self.fold.now()
        quick: dict[str, float | None] = {events.blob_name(c.text): None for c in verb.candidates}
        wanted = [c for c in verb.candidates if device.screens and c.cls in self.context.baselines]
        if wanted:
            doing = f"Choosing among {count(len(wanted), 'candidate')}"
            yield from self.journal.emit(events.Progress(doing, "screen", number))
        for cls in dict.fromkeys(c.cls for c in wanted):
            beside, built = trial.standing(state.standing(cls).values()), []
            for c in (c for c in wanted if c.cls == cls):
                with contextlib.suppress(TrialError):
                    built.append((c.text, trial.candidate(number, c, beside, self.context)))
            device.prefetch([c for _, c in built])
            for text, c in built:  # the GPU is for others while a build is not ready
                if (yield Work(functools.partial(device.await_build, c), "build", "build")):
                    (ms,) = yield Work(self._quick([c], cls), device.place, "trial")
                    quick[events.blob_name(text)] = ms
        texts = [c.text for c in verb.candidates]
        seconds = time.perf_counter() - began
        yield from self.journal.emit(events.Screened(number, quick, seconds, path, verb.digest), *texts)

    def _quick(self, candidates: list, cls: str) -> Callable[[], list[float | None]]:
        return lambda: self.context.device.quick(candidates, self.context.baselines[cls])

    # ---- the owner's candidates ----

    @property
    def _tries(self) -> list[Candidate]:
        """Every candidate that the owner handed in, in order."""
        return [self._tried(e.data) for e in self.journal.tries()]

    def _tried(self, data: dict[str, Any]) -> Candidate:
        text, form = self.journal.blob(data["program"]), data.get("form", "program")
        if form != "program":
            cls = data.get("cls") or self.problem.kernel_class
            return Candidate(text, cls, "", form, data.get("language", ""), data.get("entry", ""))
        return self.problem.candidate(text)

    def _untaken(self) -> int | None:
        """The first try (from 1) that is no trial yet and that no Receive has."""
        return next(iter(self.journal.untaken_tries()), None)

    def _owners(self) -> Job | None:
        """The owner's next trial, or profile of a trial that ended: one that a lost engine left open, or the next."""
        for e in self.journal.open_trials():
            if e.by == "owner" and e.trial not in self._under_way:
                return Job(self._trial(e))
        for request, number in self.journal.unanswered_profiles():
            if request not in self._profiles and self.journal.ended(number) is not None and not self._profiling:
                return Job(self._owners_profile(request, number), beside=True)
        request = None if self._receiving else self._untaken()
        return None if request is None else Job(self._owners_trial(request))

    def _owners_trial(self, request: int) -> Steps[None]:
        candidate = self._tries[request - 1]
        what = self.journal.tries()[request - 1].data.get("change") or f"the owner's {candidate.form}"
        number = self.journal.next_trial
        yield from self._log_proposal(
            trial.Proposal(candidate, what, "tried by the owner", by="owner", request=request)
        )
        yield from self._trial(self.journal.past(events.TrialProposed, number))

    def _owners_profile(self, request: int, number: int) -> Steps[None]:
        self._profiles.add(request)
        self._profiling = True
        ended, handler = self.fold.finished(number), self.handlers.get("profile")
        turn = turns.Turn(f"profile {request}", self.owner.stop.is_set)
        limit, place = self.context.limit(ended.cls), self.context.device.place
        yield from profile.answer(request, ended, limit, self.journal, handler, turn, place)
        self._profiling = False

    def _receive(self, path: str, verb: Receive) -> Steps[None]:
        if self.journal.at(events.Answered, path) is not None:
            return
        yield from self.journal.emit(events.Progress(f"Waiting for a candidate (step {path})", "receive"))
        request = yield Wait(self._untaken, for_owner=True)
        yield from self.journal.emit(events.Answered(path, verb.digest, verb.name, request=request))


def _members(path: str, verb: Verb) -> list[tuple[str, Verb]]:
    if not isinstance(verb, Together):
        return [(path, verb)]
    return [(f"{path}.{number}", member) for number, member in enumerate(verb.members, 1)]
