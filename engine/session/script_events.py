"""The events of a strategy's script: its memory, its turns, and each answer that it received.

Import them from engine.session.events, which has them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

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
    during the first attempt, whose cost is unknown. Of a model: its name, as the operator set it, the `sampling`
    settings that are sent, and an estimate of the prompt's tokens."""

    KIND: ClassVar[str] = "turn.asked"
    path: str
    digest: str
    verb: str
    role: str = ""
    prompt: str = ""
    attempt: int = 1
    model: str = ""
    sampling: dict[str, Any] = field(default_factory=dict)
    tokens_in: int | None = None


@dataclass(frozen=True)
class Said(Event):
    """A piece of the text that a model is writing: number 1, 2, 3, ... of this attempt at the turn. At most two a
    second, and in all as much as engine.session.script.saying allows. The whole text is in Answered. A lost attempt
    leaves its pieces in the log."""

    KIND: ClassVar[str] = "turn.said"
    path: str
    number: int
    text: str
    attempt: int = 1


@dataclass(frozen=True)
class Answered(Event):
    """A turn ended. `verb`: ask | profile | receive; `text`: blob, "" if there is none; `refusal`: "" or a stable code
    (engine.strategies.api.Reply), with `reason` for a person; `model`: as the endpoint returned it; `tokens`: {in, out,
    cached, reasoning}; `estimated`: the endpoint sent no counts, so `tokens` are estimates by the length of the texts;
    `cost`: in US dollars by the operator's prices of the date `prices`; `retries`: calls that failed before this one;
    `request`: of receive, the number of the `try` in the log (from 1); `counts`: of profile, as in Reply."""

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
    retries: int = 0
    estimated: bool = False
    prices: str = ""
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown(Event):
    """Facts of the search for a person. `topic` and `facts`: as in engine.strategies.api.Show."""

    KIND: ClassVar[str] = "script.shown"
    path: str
    digest: str
    topic: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyWanted(Event):
    """The session waits for the visitor's own key of `endpoint`, with which it asks `model`. `public_key`: hex, of the
    pair that this engine made in its `claim`-th claim of the session; `until`: seconds since the epoch; `again`:
    another engine asked before; `text`: one line for the viewers. The key itself is in no event."""

    KIND: ClassVar[str] = "key.wanted"
    public_key: str
    claim: int
    endpoint: str
    model: str
    until: float
    again: bool = False
    text: str = ""


@dataclass(frozen=True)
class KeyReceived(Event):
    """The engine has the key that it asked for in its `claim`-th claim."""

    KIND: ClassVar[str] = "key.received"
    claim: int


@dataclass(frozen=True)
class Advanced(Event):
    """The script received the answer to the verb at `path`, with the session's state at this point of the log. Path `0`
    is the script's start."""

    KIND: ClassVar[str] = "script.advanced"
    path: str
    verb: str
    digest: str
