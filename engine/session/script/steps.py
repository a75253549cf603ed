"""What a session is made of: steps that yield events to log, work to be done beside the owner's word, and waiting.

A step is a generator. It yields `Emitted` to have an event logged, `Work` to have something done that blocks (the
result is sent back, its exception is raised at the yield) and `Wait` until something is there (which is sent back).
engine.session.script.lanes runs steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.session import events

T = TypeVar("T")


class Stopped(Exception):
    """The owner said stop."""


@dataclass(frozen=True)
class Emitted:
    """An event to append to the log, the blobs that it names, and its time in seconds since the epoch."""

    event: events.Event
    blobs: dict[str, str]
    t: float


@dataclass(frozen=True)
class Work:
    """`run` blocks; it is called in the thread of the step's lane."""

    run: Callable[[], Any]


@dataclass(frozen=True)
class Wait:
    """`until()` answers None while there is nothing yet. It is called often and must be quick."""

    until: Callable[[], Any]


Steps = Generator[Emitted | Work | Wait, Any, T]
Events = Iterator[Emitted]
Logged = Generator[Emitted, None, T]  # steps whose work is done within: events alone come out, a result at the end
