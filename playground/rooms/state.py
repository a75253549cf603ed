"""The fold of a room's log: what everybody in it sees now. The only reader of what the events mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answers:
    """A seat's answers to one step. `first_right`, `right`: of the first and the last one; `t`: of the last one."""

    tries: int = 0
    first: Any = None
    first_right: bool | None = None
    last: Any = None
    right: bool | None = None
    why: str = ""
    t: float = 0.0
    attempts: dict[str, dict[str, Any]] = field(default_factory=dict)  # attempt -> the event's data

    def to_json(self) -> dict[str, Any]:
        return {"tries": self.tries, "first": self.first, "first_right": self.first_right, "last": self.last,
                "right": self.right, "why": self.why, "t": self.t}  # fmt: skip


@dataclass
class SeatState:
    """`at`: the key of the step that the student looks at; `free`: the teacher reset it, and nobody took it again."""

    number: int
    name: str
    joined: float
    at: str = ""
    free: bool = False
    since: int = 0  # the events of the seat up to this one are of somebody else
    answers: dict[str, Answers] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)  # {session, step}


@dataclass
class RoomState:
    """`open_to`: the place of the last open step in `steps`; None if all are open."""

    seq: int = 0
    opened: float = 0.0
    title: str = ""
    lessons: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    open_to: int | None = None
    paused: bool = False
    ended: bool = False
    message: str = ""
    hints: list[str] = field(default_factory=list)
    projected: int | None = None
    seats: dict[int, SeatState] = field(default_factory=dict)

    def apply(self, seq: int, kind: str, t: float, seat: int | None, data: dict[str, Any]) -> None:
        """Take the next event. An event of an unknown kind changes nothing."""
        if seq != self.seq + 1:
            raise ValueError(f"event {seq} follows event {self.seq}")
        self.seq = seq
        if seat is not None:
            self._of_seat(kind, t, seat, data)
        elif kind == "room.opened":
            self.opened, self.title, self.lessons, self.steps = t, data["title"], data["lessons"], data["steps"]
            self.places = {step["key"]: place for place, step in enumerate(self.steps)}
            self.open_to = 0 if data["paced"] else None
        elif kind == "room.paced":
            self.open_to = self.places[data["step"]] if data["step"] else None
        elif kind in ("room.paused", "room.resumed"):
            self.paused = kind == "room.paused"
        elif kind == "room.message":
            self.message = data["text"]
        elif kind == "room.hint":
            self.hints = [*(key for key in self.hints if key != data["step"]), data["step"]]
        elif kind == "room.projected":
            self.projected = data["number"]
        elif kind == "room.ended":
            self.ended = True

    def _of_seat(self, kind: str, t: float, number: int, data: dict[str, Any]) -> None:
        if kind == "seat.joined":
            seat = self.seats.setdefault(number, SeatState(number, data["name"], t))
            seat.name, seat.free = data["name"], False
            return
        seat = self.seats[number]
        if kind == "seat.reset":
            seat.free = True
            if not data["keep"]:
                self.seats[number] = SeatState(number, seat.name, seat.joined, free=True, since=self.seq)
            if self.projected == number:
                self.projected = None
        elif kind == "seat.step":
            seat.at = data["step"]
        elif kind == "seat.session":
            seat.sessions.append({"session": data["session"], "step": data["step"]})
        elif kind == "seat.answered":
            answers = seat.answers.setdefault(data["step"], Answers())
            if not answers.tries:
                answers.first, answers.first_right = data["answer"], data["right"]
            answers.tries += 1
            answers.last, answers.right, answers.why, answers.t = data["answer"], data["right"], data["why"], t
            if data["attempt"]:
                answers.attempts[data["attempt"]] = data
            seat.at = data["step"]

    def is_open(self, key: str) -> bool:
        """Return True if students may work on a step now."""
        return self.open_to is None or self.places[key] <= self.open_to

    def to_json(self) -> dict[str, Any]:
        """The room without its seats: what each of them may know."""
        return {
            "seq": self.seq, "title": self.title, "lessons": self.lessons, "steps": self.steps,
            "open_to": self.open_to, "paused": self.paused, "ended": self.ended, "message": self.message,
            "hints": self.hints,
        }  # fmt: skip

    def seat_json(self, number: int) -> dict[str, Any]:
        """A seat with its answers, for itself and for the teacher."""
        seat = self.seats[number]
        return {
            "number": seat.number, "name": seat.name, "joined": seat.joined, "at": seat.at, "free": seat.free,
            "answers": {key: answers.to_json() for key, answers in seat.answers.items()}, "sessions": seat.sessions,
        }  # fmt: skip
