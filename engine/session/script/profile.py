"""The profile of a trial, for a strategy (the verb Profile) and for the owner (the command profile).

Where no handler answers `profile`, it is made of the compiler's resources and the model of the GPU, and says so.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from engine.session import events
from engine.session.fold.profile import NO_TIME, SOURCE, facts, in_words
from engine.session.journal import Journal
from engine.session.script import turns
from engine.session.script.steps import Events, Steps
from engine.strategies.api import Finished, Profile, Reply


def described(trial: Finished, limit_ms: float | None, *, words: bool = False) -> Reply:
    """The answer to Profile(trial), as JSON or as lines for a person. `limit_ms`: t_sol of its class."""
    if trial.ms is None:
        return Reply(refusal="no_profiler", reason=NO_TIME.format(trial.number))
    known = facts(
        trial.number, trial.cls, trial.ms, trial.kind, limit_ms, trial.gap, trial.stages, trial.resources
    )  # fmt: skip
    return Reply(in_words(known) if words else json.dumps(known, indent=1))


def or_described(reply: Reply, known: Reply) -> Reply:
    """`known`, with the profiler's reason, where the profiler could count nothing."""
    if reply.refusal != "no_profiler":
        return reply
    if known.text and reply.reason:
        return replace(known, text=json.dumps({"why": reply.reason, **json.loads(known.text)}, indent=1))
    return known


def counted(journal: Journal, trial: int) -> Reply | None:
    """What a profiler counted of the trial's program before, by the log."""
    this = journal.past(events.TrialProposed, trial)
    same = [
        e.trial for e in journal.of(events.TrialProposed)
        if this is not None and (e.program, e.backend, e.form) == (this.program, this.backend, this.form)
    ]  # fmt: skip
    digests = {Profile(number).digest: number for number in same}
    texts = [
        (e.trial, e.text, e.counts) for e in journal.of(events.TrialProfiled)
        if e.source == "profiler" and e.trial in same
    ]  # fmt: skip
    texts += [
        (digests[e.digest], e.text, e.counts) for e in journal.of(events.Answered)
        if e.digest in digests and e.verb == Profile.name and e.text and not e.refusal
    ]  # fmt: skip
    for number, name, counts in texts:
        text = journal.blob(name)
        if SOURCE not in text:
            about = "" if number == trial else f"Trial {trial} has the program of trial {number}.\n"
            return Reply(about + text, counts=dict(counts))
    return None


def answer(
    request: int, trial: Finished, limit_ms: float | None, journal: Journal, handler: turns.Handler | None,
    turn: turns.Turn, place: str,
) -> Steps[None]:  # fmt: skip
    """Answer the owner's request for the profile of a trial that ended. `place`: where a handler runs."""
    began, source, reply = time.perf_counter(), "model", None
    if trial.ms is None:
        reply = Reply(refusal="no_time", reason=NO_TIME.format(trial.number))
    elif handler is not None:
        reply = counted(journal, trial.number)
        if reply is None:
            reply = yield from turns.profiled(handler, Profile(trial.number), turn, place)
        source = "profiler"
    if reply is None or reply.refusal == "no_profiler":
        why = reply.reason if reply is not None and source == "profiler" else ""
        source, reply = "model", described(trial, limit_ms, words=True)
        if why and reply.text:
            reply = replace(reply, text=f"{why}\n\n{reply.text}")
    source, texts = (source, [reply.text]) if reply.text and not reply.refusal else ("", [])
    name = events.blob_name(reply.text) if texts else ""
    seconds = time.perf_counter() - began
    refusal, reason, counts = reply.refusal, reply.reason, dict(reply.counts)
    event = events.TrialProfiled(trial.number, request, source, name, refusal, reason, seconds, counts)
    yield from journal.emit(event, *texts)


def refuse_rest(journal: Journal) -> Events:
    """Answer the requests that are open when the session ends."""
    proposed = {e.trial for e in journal.of(events.TrialProposed)}
    for request, trial in journal.unanswered_profiles():
        code, reason = "ended", "The session ended before this profile was made."
        if trial not in proposed:
            code, reason = "unknown_trial", f"This session has no trial {trial}."
        yield from journal.emit(events.TrialProfiled(trial, request, refusal=code, reason=reason))
