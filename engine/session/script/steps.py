"""The parts of a session: steps that yield events to log, work that blocks, and waits.

A step is a generator. It yields `Emitted` to log an event, `Work` to run a blocking function (the result is sent back,
its exception is raised at the yield) and `Wait` to wait for a value (which is sent back).
engine.session.script.lanes runs steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.session import events

T = TypeVar("T")


class Stopped(Exception):
    """The owner stopped the session."""


@dataclass(frozen=True)
class Emitted:
    """An event to append to the log, the blobs that it names, and its time in seconds since the epoch."""

    event: events.Event
    blobs: dict[str, str]
    t: float


@dataclass(frozen=True)
class Work:
    """`run` may block; it is called in the thread of the step's lane, once the work has its place (engine.executors;
    "" if it needs none). `doing`: think | trace | prepare | build | trial | pytorch | turn | profile, for the session's
    account of its time. `meanwhile` returns the events to log while `run` runs. It is called often, in the thread of
    the generators, and must be quick."""

    run: Callable[[], Any]
    place: str = ""
    doing: str = ""
    meanwhile: Callable[[], Iterator[Emitted]] = tuple


@dataclass(frozen=True)
class Wait:
    """`until()` returns None while there is no value. It is called often and must be quick. `for_owner`: the value
    comes from the session's owner or their agent, so nobody knows when."""

    until: Callable[[], Any]
    for_owner: bool = False


Steps = Generator[Emitted | Work | Wait, Any, T]
Events = Iterator[Emitted]
Logged = Generator[Emitted, None, T]  # steps that do their work inside: they yield only events and return a result
