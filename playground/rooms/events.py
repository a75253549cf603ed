"""What a room's log says. One class for each kind of event; the OpenAPI document has their schemas.

Every event has a `seat` beside its data: the number of the seat that it is about, None for the whole room. Events about
a seat are read by that seat and the teacher, events about the room by everybody in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

BEFORE, LESSON, AFTER = "before", "lesson", "after"  # parts of a room: the test, the lessons, the test again


@dataclass(frozen=True)
class Event:
    """`TEACHER`: no seat reads it."""

    KIND: ClassVar[str] = ""
    TEACHER: ClassVar[bool] = False

    def encode(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class RoomOpened(Event):
    """`steps`: the room's steps in order: {key, part, lesson, step, kind, title, question}."""

    KIND = "room.opened"
    title: str
    paced: bool
    lessons: list[dict[str, Any]]
    steps: list[dict[str, Any]]


@dataclass(frozen=True)
class RoomPaced(Event):
    """`step`: the last step that is open; "" if all are."""

    KIND = "room.paced"
    step: str


@dataclass(frozen=True)
class RoomPaused(Event):
    KIND = "room.paused"


@dataclass(frozen=True)
class RoomResumed(Event):
    KIND = "room.resumed"


@dataclass(frozen=True)
class RoomMessage(Event):
    """`text`: from the teacher; "" takes the last one away."""

    KIND = "room.message"
    text: str


@dataclass(frozen=True)
class HintShown(Event):
    """The teacher shows the hint of a step to everybody."""

    KIND = "room.hint"
    step: str


@dataclass(frozen=True)
class RoomEnded(Event):
    """The teacher ended the room: it takes no more answers."""

    KIND = "room.ended"


@dataclass(frozen=True)
class SeatProjected(Event):
    """`number`: the seat on the projector; None: the whole room again."""

    KIND = "room.projected"
    TEACHER = True
    number: int | None


@dataclass(frozen=True)
class SeatJoined(Event):
    KIND = "seat.joined"
    name: str


@dataclass(frozen=True)
class SeatReset(Event):
    """The seat's token is not valid any more. `keep`: whoever takes the seat next goes on with its answers."""

    KIND = "seat.reset"
    keep: bool


@dataclass(frozen=True)
class StepOpened(Event):
    """The student looks at a step."""

    KIND = "seat.step"
    step: str


@dataclass(frozen=True)
class StepAnswered(Event):
    """`answer`: as it was sent; `right`: None if it cannot be right or wrong; `why`: the verdict in words, "" for a
    test; `attempt`: the sender's name for it, by which an answer that is sent twice counts once."""

    KIND = "seat.answered"
    step: str
    answer: Any
    right: bool | None
    why: str = ""
    attempt: str = ""


@dataclass(frozen=True)
class SessionStarted(Event):
    """The seat started a session in a step."""

    KIND = "seat.session"
    session: str
    step: str = ""


KINDS: dict[str, type[Event]] = {cls.KIND: cls for cls in Event.__subclasses__()}
FOR_TEACHER = tuple(kind for kind, cls in KINDS.items() if cls.TEACHER)
