"""A turn: a verb that a model or a profiler answers, outside of the trial pipeline.

The start and the end of a turn are logged. A turn with a logged answer is never asked again. If an engine was lost
during a turn, the turn is asked once more, and the cost of the first attempt is unknown. If it is lost twice, the
answer is `lost`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from engine.session import events
from engine.session.journal import Journal
from engine.session.script.steps import Steps, Work
from engine.strategies.api import Ask, Profile, Reply, State

ATTEMPTS = 2
# (the verb, its path, whether the session is stopped) -> the reply, without a state. A handler runs in its own thread
# and must check often whether the session is stopped. An exception becomes a refusal `broken`.
Handler = Callable[[Ask | Profile, str, Callable[[], bool]], Reply]
NOBODY = {
    "ask": Reply(
        refusal="no_model",
        reason="This engine has no model to ask. Choose a strategy that needs none, such as planner.",
    ),
    "profile": Reply(refusal="no_profiler", reason="This engine has no profiler. The strategy continues without one."),
}
LOST = Reply(refusal="lost", reason=f"The engine was lost {ATTEMPTS} times during this turn.")


def turn(
    path: str, verb: Ask | Profile, journal: Journal, handlers: Mapping[str, Handler], cancelled: Callable[[], bool]
) -> Steps[None]:
    """Ask, unless the log holds the answer."""
    if journal.at(events.Answered, path) is not None:
        return
    attempts = [e for e in journal.of(events.Asked) if e.path == path]
    handler = handlers.get(verb.name)
    if len(attempts) >= ATTEMPTS:
        answer = LOST
    elif handler is None:
        answer = NOBODY[verb.name]
    else:
        role, prompt = (verb.role, verb.prompt) if isinstance(verb, Ask) else ("", "")
        blob = events.blob_name(prompt) if prompt else ""
        event = events.Asked(path, verb.digest, verb.name, role, blob, len(attempts) + 1)
        yield from journal.emit(event, *([prompt] if prompt else []))
        answer = yield Work(lambda: _handled(handler, verb, path, cancelled), doing="turn")
    yield from journal.emit(_event(path, verb, answer), *([answer.text] if answer.text else []))


def stopped(asked: events.Asked) -> events.Answered:
    """The end of a turn that was running when the session stopped."""
    reason = "The session was stopped before this was answered."
    return events.Answered(asked.path, asked.digest, asked.verb, refusal="stopped", reason=reason)


def _handled(handler: Handler, verb: Ask | Profile, path: str, cancelled: Callable[[], bool]) -> Reply:
    began = time.perf_counter()
    try:
        return handler(verb, path, cancelled)
    except Exception as e:
        reason = f"The turn broke off ({type(e).__name__}: {e})."
        return Reply(refusal="broken", reason=reason[:500], seconds=time.perf_counter() - began)


def _event(path: str, verb: Ask | Profile, reply: Reply) -> events.Answered:
    refusal, reason = reply.refusal, reply.reason
    if not refusal and isinstance(verb, Ask) and (wrong := verb.parsed(reply.text)[1]):
        refusal, reason = "schema", wrong
    return events.Answered(
        path, verb.digest, verb.name, events.blob_name(reply.text) if reply.text else "", refusal, reason, reply.model,
        dict(reply.tokens), reply.cost, reply.seconds, reply.finish,
    )  # fmt: skip


def reply(verb: Ask | Profile, journal: Journal, event: events.Answered, state: State) -> Reply:
    """A turn's answer, from the log."""
    text = journal.blob(event.text) if event.text else ""
    value = verb.parsed(text)[0] if isinstance(verb, Ask) and not event.refusal else None
    return Reply(
        text, value, event.refusal, event.reason, event.model, dict(event.tokens), event.cost, event.seconds,
        event.finish, state,
    )  # fmt: skip
