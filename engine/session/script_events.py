"""The events of a strategy's script: its memory, its turns, and each answer that it received.

Import them from engine.session.events, which has them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from engine.session.event_base import Event


@dataclass(frozen=True)
class MemoryRead(Event):
    """The strategy's memory of other problems at the session's start. `memory`: blob; `entries`: its number of facts;
    `text`: one sentence. A resumed session reads its memory from here."""

    KIND: ClassVar[str] = "memory.read"
    memory: str
    entries: int
    text: str


@dataclass(frozen=True)
class MemoryWritten(Event):
    """What the session adds to the memory for other problems. Fields as in MemoryRead."""

    KIND: ClassVar[str] = "memory.written"
    memory: str
    entries: int
    text: str


@dataclass(frozen=True)
class Asked(Event):
    """A turn began. `verb`: ask | profile; `role`: whose turn; `prompt`: blob; `attempt`: 2 if an engine was lost
    during the first attempt, whose cost is unknown."""

    KIND: ClassVar[str] = "turn.asked"
    path: str
    digest: str
    verb: str
    role: str = ""
    prompt: str = ""
    attempt: int = 1


@dataclass(frozen=True)
class Answered(Event):
    """A turn ended. `verb`: ask | profile | receive; `text`: blob, "" if there is none; `refusal`: "" or a stable code
    (engine.strategies.api.Reply), with `reason` for a person; `tokens`: {in, out, cached, reasoning}; `cost`: by the
    operator's prices; `request`: of receive, the number of the `try` in the log (from 1)."""

    KIND: ClassVar[str] = "turn.answered"
    path: str
    digest: str
    verb: str
    text: str = ""
    refusal: str = ""
    reason: str = ""
    model: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    seconds: float = 0.0
    finish: str = ""
    request: int | None = None


@dataclass(frozen=True)
class Advanced(Event):
    """The script received the answer to the verb at `path`, with the session's state at this point of the log. Path `0`
    is the script's start."""

    KIND: ClassVar[str] = "script.advanced"
    path: str
    verb: str
    digest: str
