"""What a room did: the wall, the results as JSON, and its tables as CSV, with names or without."""

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
from playground.rooms.exam import moved
from playground.rooms.state import RoomState

COLUMNS = (
    "seat", "nickname", "part", "lesson", "step", "question", "tries", "first answer", "first right", "last answer",
    "last right", "moved", "answered at (UTC)", "best gap (time / limit)", "best speedup", "times are",
)  # fmt: skip
# What a spreadsheet takes for a formula, also in full-width forms, and the signs that hide one in a second cell.
_FORMULA = re.compile("^[\\s\"']*[=+\\-@|%＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def wall(room: Room, anonymous: bool = False) -> dict[str, Any]:
    """The room with every seat, its answers and its gap, and the report of the test: the teacher's view. `anonymous`:
    every name is empty."""
    sessions = runs.gaps([room.code])[room.code]

    def look(state: RoomState) -> dict[str, Any]:
        seats = [state.seat_json(number) for number in sorted(state.seats)]
        test = moved.report(state) | {"forms": room.plan.get("forms", [])}
        for row in [*seats, *test["seats"]] if anonymous else ():
            row["name"] = ""
        return state.to_json() | {"seats": seats, "projected": state.projected, "test": test}

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


def table(room: Room, anonymous: bool = False) -> str:
    """The answers as CSV, one row for a seat and a step, for a spreadsheet: no cell is a formula."""
    data = wall(room, anonymous)
    words = log.read(room.code, _moves)
    rows: list[list[Any]] = []
    for seat in data["seats"]:
        best = data["sessions"].get(str(seat["number"]), {})
        gap = [_short(best.get("gap")), _short(best.get("speedup")), best.get("kind", "")]
        steps = [step for step in data["steps"] if step["key"] in seat["answers"]]
        if not steps:
            rows.append([seat["number"], seat["name"], *[""] * 11, *gap])
        for step in steps:
            a = seat["answers"][step["key"]]
            part = {BEFORE: "test before", LESSON: "lesson", AFTER: "test after"}[step["part"]]
            at = datetime.fromtimestamp(a["t"], UTC).strftime("%Y-%m-%d %H:%M:%S")
            rows.append([
                seat["number"], seat["name"], part, step["lesson"], step["step"], step["title"], a["tries"],
                _words(a["first"]), _right(a["first_right"]), _words(a["last"]), _right(a["right"]),
                words.get((seat["number"], step["key"]), ""), at, *gap,
            ])  # fmt: skip
    return _csv(COLUMNS, rows)


def moved_table(room: Room, anonymous: bool = False) -> str:
    """The report of the test as CSV: the room, each skill, each seat."""
    return _csv(moved.COLUMNS, moved.table(wall(room, anonymous)["test"]))


def _moves(state: RoomState) -> dict[tuple[int, str], str]:
    """(seat, key of a step of the test after) -> how the seat moved."""
    steps = [step for step in state.steps if step["part"] == AFTER]
    return {(n, s["key"]): moved.word(seat, s["step"]) for n, seat in state.seats.items() for s in steps}


def _csv(columns: tuple[str, ...], rows: list[list[Any]]) -> str:
    out = io.StringIO()
    out.write("\ufeff")  # so that a spreadsheet reads UTF-8
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows([map(safe, row) for row in rows])
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
