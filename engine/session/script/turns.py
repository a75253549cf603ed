"""A turn: a verb that something outside of the trial pipeline answers, a model or a profiler.

A turn is logged when it begins and when it ends. One that was answered is never asked again. One that an engine was
lost in is asked once more, and what the first attempt cost is not known; lost twice, it is answered as lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from engine.session import events
from engine.session.journal import Journal
from engine.session.script.steps import Steps, Work
from engine.strategies.api import Ask, Profile, Reply, State

ATTEMPTS = 2
# (the verb, its path, whether the session is stopped) -> the reply, without a state. It runs in a thread of its own and
# asks often whether the session is stopped; an exception is a refusal `broken`.
Handler = Callable[[Ask | Profile, str, Callable[[], bool]], Reply]
NOBODY = {
    "ask": Reply(
        refusal="no_model",
        reason="This engine has no model to ask. Choose a strategy that needs none, such as planner.",
    ),
    "profile": Reply(refusal="no_profiler", reason="This engine has no profiler. The strategy goes on without."),
}
LOST = Reply(refusal="lost", reason=f"The engine was lost {ATTEMPTS} times while this was under way.")


def turn(
    path: str, verb: Ask | Profile, journal: Journal, handlers: Mapping[str, Handler], cancelled: Callable[[], bool]
) -> Steps[None]:
    """Ask, unless the log holds the answer."""
    if journal.at(events.Answered, path) is not None:
        return
    asked = [e for e in journal.of(events.Asked) if e.path == path]
    handler = handlers.get(verb.name)
    if len(asked) >= ATTEMPTS:
        answer = LOST
    elif handler is None:
        answer = NOBODY[verb.name]
    else:
        role, prompt = (verb.role, verb.prompt) if isinstance(verb, Ask) else ("", "")
        blob = events.blob_name(prompt) if prompt else ""
        event = events.Asked(path, verb.digest, verb.name, role, blob, len(asked) + 1)
        yield from journal.emit(event, *([prompt] if prompt else []))
        answer = yield Work(lambda: _handled(handler, verb, path, cancelled))
    yield from journal.emit(_event(path, verb, answer), *([answer.text] if answer.text else []))


def stopped(asked: events.Asked) -> events.Answered:
    """The end of a turn that was under way when the session stopped."""
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
    """A turn's answer as the log holds it."""
    text = journal.blob(event.text) if event.text else ""
    value = verb.parsed(text)[0] if isinstance(verb, Ask) and not event.refusal else None
    return Reply(
        text, value, event.refusal, event.reason, event.model, dict(event.tokens), event.cost, event.seconds,
        event.finish, state,
    )  # fmt: skip
