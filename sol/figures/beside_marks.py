"""Labels beside marks: left or right of a mark, where neither another label nor another column of marks stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sol.figures.figure import PLOT, STEP, label
from sol.figures.palette import INK

WIDTH = 236.0  # pixels between the axes of the narrowest chart; in a wider one, marks lie further apart
CHARACTER = 6.0  # pixels
AWAY = 11  # pixels from the middle of a mark, which a selected mark needs
SHIFTS = (0, 7, -7, 13, -13, 20, -20, 26, -26, 39, -39)  # pixels up from the middle of the mark, the best first
MARK = 8  # pixels from the middle of a mark to its edge
SAME = 4.0  # columns of marks that are closer are one


@dataclass(frozen=True)
class Named:
    """A mark with its label, whose lines end with <br>. `x`, `y`: its place on the axes, of a log axis as exponents;
    `right`: the better side."""

    text: str
    x: float
    y: float
    right: bool = False


def place(
    marks: Sequence[Named],
    columns: Sequence[float],
    x: tuple[float, float],
    y: tuple[float, float],
    lines: Sequence[float] = (),
    beside: Sequence[tuple[float, int]] = (),
) -> list[dict[str, Any]]:
    """An annotation for each mark. `columns`: the x of all marks of the chart; `x`, `y`: the ranges of the axes;
    `lines`: the y of lines that a label leaves free if it can; `beside`: y and rows of what stands in the right margin.
    A label for which no side is free stands there too, near its mark."""
    across, up = WIDTH / ((x[1] - x[0]) or 1.0), PLOT / ((y[1] - y[0]) or 1.0)
    stand, struck = [(at - x[0]) * across for at in columns], [(at - y[0]) * up for at in lines]
    boxes: list[tuple[float, float, float, float]] = []  # left, right, middle, height
    margin = [(WIDTH, WIDTH + 1, (at - y[0]) * up, STEP * rows) for at, rows in beside]
    drawn = []
    for mark in marks:
        at, height = (mark.x - x[0]) * across, (mark.y - y[0]) * up
        rows = mark.text.split("<br>")
        length, tall = CHARACTER * max(map(len, rows)), STEP * len(rows)
        sides = ((at + AWAY, at + AWAY + length, True), (at - AWAY - length, at - AWAY, False))
        chosen = None
        for left, end, right in sides if mark.right else sides[::-1]:
            if left < 0 or end > WIDTH or any(left - MARK < s < end + MARK and abs(s - at) > SAME for s in stand):
                continue
            free = [s for s in SHIFTS if height + s > tall / 2 and _free(boxes, left, end, height + s, tall)]
            clear = [s for s in free if all(abs(height + s - line) > tall / 2 for line in struck)]
            if free:
                chosen = (left, end, right, (clear or free)[0])
                break
        if chosen is None:
            free = [s for s in (*SHIFTS, 52, -52) if _free(margin, WIDTH, WIDTH + 1, height + s, tall)]
            shift = (free or [0])[0]
            margin.append((WIDTH, WIDTH + 1, height + shift, tall))
            away = {"xref": "paper", "x": 1, "xanchor": "left", "align": "left", "xshift": 5, "yanchor": "middle"}
            drawn.append(label(mark.text, INK, y=mark.y, yshift=shift, **away))
            continue
        left, end, right, shift = chosen
        boxes.append((left, end, height + shift, tall))
        name = "left" if right else "right"
        side = {"xanchor": name, "align": name, "xshift": AWAY if right else -AWAY}
        drawn.append(label(mark.text, INK, x=mark.x, y=mark.y, yanchor="middle", yshift=shift, **side))
    return drawn


def _free(
    boxes: Sequence[tuple[float, float, float, float]], left: float, end: float, middle: float, tall: float
) -> bool:
    return not any(left < b[1] and b[0] < end and abs(middle - b[2]) < (tall + b[3]) / 2 for b in boxes)
