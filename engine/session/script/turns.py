"""A turn: a verb that a model or a profiler answers, outside of the trial pipeline.

The start and the end of a turn are logged, and between them the text of a model while it is written. A turn with a
logged answer is never asked again. If an engine was lost during a turn, the turn is asked once more, and the cost of
the first attempt is unknown. If it is lost twice, the answer is `lost`.

A pause does not interrupt a turn that runs, because an endpoint does not wait. A stop ends it at once.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from engine.session import events
from engine.session.journal import Journal
from engine.session.script.saying import Saying, clean
from engine.session.script.steps import Steps, Work
from engine.strategies.api import Ask, Profile, Reply, State

ATTEMPTS = 2


@dataclass(frozen=True)
class Turn:
    """What a handler is given beside the verb. `cancelled()`: the session is stopped; it never blocks, and the handler
    checks it at least ten times a second. `say(text)`: what a model wrote next, for the viewers. `past`: the Asked and
    Answered events of the session before this turn."""

    path: str
    cancelled: Callable[[], bool]
    say: Callable[[str], None] = lambda text: None
    attempt: int = 1
    past: tuple[events.Event, ...] = ()


# (the verb, the turn) -> the reply, without a state. A handler runs in its own thread. An exception becomes a refusal
# `broken`. If the handler has a method `about(verb)`, that returns {model, sampling, tokens_in} for events.Asked. If it
# has a method `before(journal)`, those are steps that come before anything else in the session.
# If it has a method `phases(verb, turn)`, that returns Phases, which are done in place of a call.
Handler = Callable[[Ask | Profile, Turn], Reply]


class Phases(Protocol):
    """A profile that needs the GPU for a part of its time. Each phase returns None, or the reply with which the turn
    ends. `prepare` runs on a core, `count` in the GPU's lane, `reply` after it, each in a thread of its own; `close`
    ends what was started, whatever was done before."""

    def prepare(self) -> Reply | None: ...

    def count(self) -> Reply | None: ...

    def reply(self) -> Reply: ...

    def close(self) -> None: ...


NOBODY = {
    "ask": Reply(
        refusal="no_model",
        reason="This engine has no model to ask. Choose a strategy that needs none, such as planner.",
    ),
    "profile": Reply(refusal="no_profiler", reason="This engine has no profiler. The strategy continues without one."),
}
LOST = Reply(refusal="lost", reason=f"The engine was lost {ATTEMPTS} times during this turn.")


def first(handlers: Mapping[str, Handler], journal: Journal) -> list[Steps[None]]:
    """The steps of handlers that come before anything else, such as waiting for a key."""
    return [handler.before(journal) for handler in handlers.values() if hasattr(handler, "before")]


def turn(
    path: str, verb: Ask | Profile, journal: Journal, handlers: Mapping[str, Handler], cancelled: Callable[[], bool],
    place: str | None = None, amended: Callable[[Reply], Reply] = lambda reply: reply,
) -> Steps[None]:  # fmt: skip
    """Ask, unless the log holds the answer. `place`: where a profiler runs; None for a turn that needs no place.
    `amended(reply)` is logged."""
    if journal.at(events.Answered, path) is not None:
        return
    attempts = [e for e in journal.of(events.Asked) if e.path == path]
    handler = handlers.get(verb.name)
    if len(attempts) >= ATTEMPTS:
        answer = LOST
    elif handler is None:
        answer = NOBODY[verb.name]
    else:
        attempt = len(attempts) + 1
        saying, past = Saying(path, attempt), (*journal.of(events.Asked), *journal.of(events.Answered))
        yield from journal.emit(_asked(path, verb, attempt, handler), *_texts(verb))
        this = Turn(path, cancelled, saying.add, attempt, past)
        if place is None:
            answer = yield Work(partial(handled, handler, verb, this), "", "turn", lambda: saying.events(journal))
        else:
            answer = yield from profiled(handler, verb, this, place)
        answer = amended(answer)
    yield from journal.emit(_event(path, verb, answer), *([answer.text] if answer.text else []))


def stopped(asked: events.Asked) -> events.Answered:
    """The end of a turn that was running when the session stopped."""
    reason = "The session was stopped before this was answered."
    return events.Answered(asked.path, asked.digest, asked.verb, refusal="stopped", reason=reason, model=asked.model)


def _texts(verb: Ask | Profile) -> list[str]:
    return [verb.prompt] if isinstance(verb, Ask) and verb.prompt else []


def _asked(path: str, verb: Ask | Profile, attempt: int, handler: Handler) -> events.Asked:
    about: dict[str, Any] = handler.about(verb) if hasattr(handler, "about") else {}
    role, blob = verb.role if isinstance(verb, Ask) else "", next(map(events.blob_name, _texts(verb)), "")
    return events.Asked(path, verb.digest, verb.name, role, blob, attempt, **about)


def profiled(handler: Handler, verb: Profile, this: Turn, place: str) -> Steps[Reply]:
    """What a profiler replies. `place`: the lane in which it counts."""
    if not hasattr(handler, "phases"):
        return (yield Work(partial(handled, handler, verb, this), place, "profile"))
    phases: Phases = handler.phases(verb, this)
    try:
        for phase, where in ((phases.prepare, "core"), (phases.count, place), (phases.reply, "")):
            answer = yield Work(partial(handled, phase), where, "profile")
            if answer is not None:
                break
        return answer
    finally:
        phases.close()


def handled(work: Callable[..., Reply | None], *arguments: Any) -> Reply | None:
    """What a handler or a phase returns; an exception becomes a refusal."""
    began = time.perf_counter()
    try:
        answer = work(*arguments)
        if answer is None:
            return None
        return dataclasses.replace(answer, text=clean(answer.text), reason=clean(answer.reason))
    except Exception as e:
        reason = clean(f"The turn broke off ({type(e).__name__}: {e}).")
        return Reply(refusal="broken", reason=reason[:500], seconds=time.perf_counter() - began)


def _event(path: str, verb: Ask | Profile, reply: Reply) -> events.Answered:
    refusal, reason = reply.refusal, reply.reason
    if not refusal and isinstance(verb, Ask) and (wrong := verb.parsed(reply.text)[1]):
        refusal, reason = "schema", wrong
    return events.Answered(
        path, verb.digest, verb.name, events.blob_name(reply.text) if reply.text else "", refusal, reason, reply.model,
        dict(reply.tokens), reply.cost, reply.seconds, reply.finish, retries=reply.retries, estimated=reply.estimated,
        prices=reply.prices, counts=dict(reply.counts),
    )  # fmt: skip


def reply(verb: Ask | Profile, journal: Journal, event: events.Answered, state: State) -> Reply:
    """A turn's answer, from the log."""
    text = journal.blob(event.text) if event.text else ""
    value = verb.parsed(text)[0] if isinstance(verb, Ask) and not event.refusal else None
    return Reply(
        text, value, event.refusal, event.reason, event.model, dict(event.tokens), event.cost, event.seconds,
        event.finish, event.retries, event.estimated, event.prices,
        dict(event.counts), state,
    )  # fmt: skip
