"""The report of the test: how skills and seats moved between the test before the lessons and the one after them."""

from __future__ import annotations

from typing import Any

from playground.rooms.events import AFTER, BEFORE
from playground.rooms.state import RoomState, SeatState

COLUMNS = (
    "of",
    "name",
    "answered both",
    "right before",
    "right after",
    "gained",
    "lost",
    "gained skills",
    "lost skills",
)
WORDS = {(False, True): "gained", (True, False): "lost", (True, True): "right both", (False, False): "wrong both"}


def report(state: RoomState) -> dict[str, list[dict[str, Any]]]:
    """{skills, seats}, both empty without a test.

    skills: {skill, lesson, title, before, after, both, right_before, right_after, gained, lost}. `before`, `after` and
    `both` are numbers of seats that answered; the others count among those that answered both times.
    seats: {seat, name, both, right_before, right_after, gained, lost}, the last two as lists of skills.
    """
    asked = {step["step"]: step for step in state.steps if step["part"] == BEFORE}
    rows = []
    for skill, step in asked.items():
        pairs = [_pair(seat, skill) for seat in state.seats.values()]
        both = [pair for pair in pairs if None not in pair]
        counts = {"before": sum(b is not None for b, _ in pairs), "after": sum(a is not None for _, a in pairs)}
        moved = {"gained": both.count((False, True)), "lost": both.count((True, False))}
        about = {"skill": skill, "lesson": step["lesson"], "title": step["title"]}
        rows.append(about | counts | _right(both) | moved)
    seats = [_of_seat(seat, list(asked)) for _, seat in sorted(state.seats.items())] if asked else []
    return {"skills": rows, "seats": seats}


def word(seat: SeatState, skill: str) -> str:
    """gained | lost | right both | wrong both; "" where an answer is missing."""
    return WORDS.get(_pair(seat, skill), "")  # type: ignore[call-overload]


def table(moved: dict[str, list[dict[str, Any]]]) -> list[list[Any]]:
    """The report as rows of COLUMNS: all seats together, each skill, each seat."""
    skills, seats = moved["skills"], moved["seats"]
    names = ("both", "right_before", "right_after", "gained", "lost")
    total = [sum(row[name] for row in skills) for name in names]
    rows: list[list[Any]] = [["room", "all answers", *total, "", ""]]
    rows += [["skill", row["skill"], *(row[name] for name in names), "", ""] for row in skills]
    for row in seats:
        moves = [len(row["gained"]), len(row["lost"]), " ".join(row["gained"]), " ".join(row["lost"])]
        name = row["name"] or f"seat {row['seat']}"
        rows.append(["seat", name, row["both"], row["right_before"], row["right_after"], *moves])
    return rows


def _of_seat(seat: SeatState, skills: list[str]) -> dict[str, Any]:
    pairs = {skill: _pair(seat, skill) for skill in skills}
    gained = [skill for skill, pair in pairs.items() if pair == (False, True)]
    lost = [skill for skill, pair in pairs.items() if pair == (True, False)]
    both = [pair for pair in pairs.values() if None not in pair]
    return {"seat": seat.number, "name": seat.name} | _right(both) | {"gained": gained, "lost": lost}


def _pair(seat: SeatState, skill: str) -> tuple[bool | None, bool | None]:
    """Whether the seat's answers before and after are right; None for a missing one."""
    before, after = (seat.answers.get(f"{part}:{skill}") for part in (BEFORE, AFTER))
    return (None if before is None else bool(before.right)), (None if after is None else bool(after.right))


def _right(both: list[tuple[bool | None, bool | None]]) -> dict[str, int]:
    return {"both": len(both), "right_before": sum(b is True for b, _ in both),
            "right_after": sum(a is True for _, a in both)}  # fmt: skip
