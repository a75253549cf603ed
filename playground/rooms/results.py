"""What a room did: the wall, the results as JSON and as CSV, and the report of the test before and after."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime
from typing import Any

from playground.models import Room, Seat
from playground.rooms import log, runs
from playground.rooms.events import AFTER, BEFORE, LESSON
from playground.rooms.state import RoomState

COLUMNS = (
    "seat", "nickname", "part", "lesson", "step", "question", "tries", "first answer", "first right", "last answer",
    "last right", "answered at (UTC)", "best gap (time / limit)", "best speedup", "times are",
)  # fmt: skip
# What a spreadsheet takes for a formula, also in full-width forms, and the signs that hide one in a second cell.
_FORMULA = re.compile("^[\\s\"']*[=+\\-@|%＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def wall(room: Room) -> dict[str, Any]:
    """The room with every seat, its answers and its gap: the teacher's view."""
    sessions = runs.gaps([room.code])[room.code]

    def look(state: RoomState) -> dict[str, Any]:
        seats = [state.seat_json(number) for number in sorted(state.seats)]
        return state.to_json() | {"seats": seats, "projected": state.projected, "test": moved(state)}

    return facts(room) | log.read(room.code, look) | {"sessions": {str(n): row for n, row in sessions.items()}}


def facts(room: Room) -> dict[str, Any]:
    """The room's row."""
    return {
        "code": room.code, "created": room.created.timestamp(), "paced": room.plan["paced"],
        "deadline": room.deadline.timestamp() if room.deadline else None, "seats_limit": room.plan["seats"],
        "trials": room.plan["trials"],
    }  # fmt: skip


def of_seat(seat: Seat) -> dict[str, Any]:
    """The room as a seat may see it, with its own answers."""
    sessions = runs.gaps([seat.room_id])[seat.room_id].get(seat.number)

    def look(state: RoomState) -> dict[str, Any]:
        mine = state.seat_json(seat.number)
        for key, answers in mine["answers"].items():
            if key.startswith(f"{BEFORE}:"):
                for verdict in ("first_right", "right", "why"):
                    del answers[verdict]
        return state.to_json() | {"seat": mine}

    return facts(seat.room) | log.read(seat.room_id, look) | {"session": sessions}


def moved(state: RoomState) -> list[dict[str, Any]]:
    """The test's questions: how the seats that answered each one both before and after the lessons moved.

    {lesson, step, title, before, after, both, right_before, right_after, gained, lost}: `before`, `after` and `both`
    are numbers of seats that answered; the others count among those that answered both times. Empty without a test."""
    rows = []
    for step in state.steps:
        if step["part"] != BEFORE:
            continue
        name = f"{step['lesson']}/{step['step']}"
        pairs = [(s.answers.get(f"{BEFORE}:{name}"), s.answers.get(f"{AFTER}:{name}")) for s in state.seats.values()]
        both = [(bool(b.right), bool(a.right)) for b, a in pairs if b is not None and a is not None]
        rows.append(
            {
                "lesson": step["lesson"], "step": step["step"], "title": step["title"],
                "before": sum(b is not None for b, _ in pairs), "after": sum(a is not None for _, a in pairs),
                "both": len(both), "right_before": sum(b for b, _ in both), "right_after": sum(a for _, a in both),
                "gained": sum(a and not b for b, a in both), "lost": sum(b and not a for b, a in both),
            }
        )  # fmt: skip
    return rows


def table(room: Room) -> str:
    """The answers as CSV, one row for a seat and a step, for a spreadsheet: no cell is a formula."""
    data = wall(room)
    out = io.StringIO()
    out.write("\ufeff")  # so that a spreadsheet reads UTF-8
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    for seat in data["seats"]:
        best = data["sessions"].get(str(seat["number"]), {})
        gap = [_short(best.get("gap")), _short(best.get("speedup")), best.get("kind", "")]
        steps = [step for step in data["steps"] if step["key"] in seat["answers"]]
        if not steps:
            writer.writerow(map(safe, [seat["number"], seat["name"], *[""] * 10, *gap]))
        for step in steps:
            a = seat["answers"][step["key"]]
            part = {BEFORE: "test before", LESSON: "lesson", AFTER: "test after"}[step["part"]]
            at = datetime.fromtimestamp(a["t"], UTC).strftime("%Y-%m-%d %H:%M:%S")
            cells = [
                seat["number"], seat["name"], part, step["lesson"], step["step"], step["title"], a["tries"],
                _words(a["first"]), _right(a["first_right"]), _words(a["last"]), _right(a["right"]), at, *gap,
            ]  # fmt: skip
            writer.writerow(map(safe, cells))
    return out.getvalue()


def safe(cell: Any) -> str:
    """A cell that a spreadsheet shows and never computes: a number stays, a text that looks like a formula gets a
    quotation mark before it."""
    text = str(cell)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _words(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _right(right: bool | None) -> str:
    return {True: "right", False: "wrong", None: ""}[right]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
