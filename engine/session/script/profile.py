"""The profile of a trial, for a strategy (the verb Profile) and for the owner (the command profile).

Where no handler answers `profile`, it is made of the compiler's resources and the model of the GPU, and says so.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from engine.session import events
from engine.session.fold.profile import NO_TIME, facts, in_words
from engine.session.journal import Journal
from engine.session.script import turns
from engine.session.script.steps import Events, Steps, Work
from engine.strategies.api import Finished, Profile, Reply


def described(trial: Finished, limit_ms: float | None, *, words: bool = False) -> Reply:
    """The answer to Profile(trial), as JSON or as lines for a person. `limit_ms`: t_sol of its class."""
    if trial.ms is None:
        return Reply(refusal="no_profiler", reason=NO_TIME.format(trial.number))
    known = facts(
        trial.number, trial.cls, trial.ms, trial.kind, limit_ms, trial.gap, trial.stages, trial.resources
    )  # fmt: skip
    return Reply(in_words(known) if words else json.dumps(known, indent=1))


def or_described(profiler: turns.Handler | None, known: Reply) -> turns.Handler:
    """A handler that answers `known` where there is no profiler, or where it can count nothing."""

    def handler(verb: Profile, turn: turns.Turn) -> Reply:
        reply = profiler(verb, turn) if profiler is not None else known
        return known if reply.refusal == "no_profiler" else reply

    return handler


def answer(
    request: int, trial: Finished, limit_ms: float | None, journal: Journal, handler: turns.Handler | None,
    turn: turns.Turn, place: str,
) -> Steps[None]:  # fmt: skip
    """Answer the owner's request for the profile of a trial that ended. `place`: where a handler runs."""
    began, source, reply = time.perf_counter(), "model", None
    if trial.ms is None:
        reply = Reply(refusal="no_time", reason=NO_TIME.format(trial.number))
    elif handler is not None:
        verb = Profile(trial.number)
        reply = yield Work(lambda: turns.handled(handler, verb, turn), place, "profile")
        source = "profiler"
    if reply is None or reply.refusal == "no_profiler":
        why = reply.reason if reply is not None and source == "profiler" else ""
        source, reply = "model", described(trial, limit_ms, words=True)
        if why and reply.text:
            reply = replace(reply, text=f"{why}\n\n{reply.text}")
    source, texts = (source, [reply.text]) if reply.text and not reply.refusal else ("", [])
    name = events.blob_name(reply.text) if texts else ""
    seconds = time.perf_counter() - began
    event = events.TrialProfiled(trial.number, request, source, name, reply.refusal, reply.reason, seconds)
    yield from journal.emit(event, *texts)


def refuse_rest(journal: Journal) -> Events:
    """Answer the requests that are open when the session ends."""
    proposed = {e.trial for e in journal.of(events.TrialProposed)}
    for request, trial in journal.unanswered_profiles():
        code, reason = "ended", "The session ended before this profile was made."
        if trial not in proposed:
            code, reason = "unknown_trial", f"This session has no trial {trial}."
        yield from journal.emit(events.TrialProfiled(trial, request, refusal=code, reason=reason))
