"""A figure as a picture: the same JSON that a page gives to Plotly, as a static SVG for reports and exports.

It draws what our builders use: lines and marks, lying bars, linear, log and category axes, lines across and down,
labels, a legend. It has no style attributes and no scripts, so that a strict content policy holds. It does not read
hover texts. Coordinates are rounded to a tenth of a pixel: the same figure gives the same bytes everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sol.figures.figure import ticks
from sol.figures.palette import GRID, INK, MUTED

CHAR = 0.56  # width of a character, of the size of its font
DASHES = {"dot": "1.5 3.5", "dash": "7 5"}
Draw = dict[str, Any]


def svg(figure: Draw, title: str, width: int = 680, height: int = 360) -> str:
    """`figure`: {data, layout}; `title`: what it shows, for those who cannot see it. Sizes in pixels."""
    return _Picture(figure["data"], figure["layout"], width, height).text(title)


@dataclass
class _Axis:
    """One axis: its values from `low` to `high` (exponents on a log axis) lie from `start` to `end`, in pixels."""

    options: Draw
    low: float
    high: float
    categories: list[str]
    start: float = 0.0
    end: float = 1.0

    @property
    def log(self) -> bool:
        return self.options.get("type") == "log"

    def at(self, value: Any, exponent: bool = False) -> float:
        """The pixel of a value; `exponent`: it is already that of a log axis (ranges and labels are)."""
        if self.categories:
            value = self.categories.index(value) if isinstance(value, str) else value
        elif self.log and not exponent:
            value = math.log10(value) if value > 0 else self.low
        span = (self.high - self.low) or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)

    def marks(self) -> list[tuple[Any, str]]:
        """(value, text) of each tick."""
        if self.categories:
            return [(name, name) for name in self.categories]
        suffix = self.options.get("ticksuffix", "")
        if "tickvals" in self.options:
            return list(zip(self.options["tickvals"], self.options["ticktext"], strict=True))
        if self.log:
            tick_marks = ticks(10**self.low, 10**self.high)
            return list(zip(tick_marks["tickvals"], tick_marks["ticktext"], strict=True))
        step = self.options.get("dtick") or _step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor((self.high - first * step) / step + 1e-9) + 1
        return [((first + i) * step, f"{round((first + i) * step, 6):g}{suffix}") for i in range(max(0, count))]


def _step(span: float) -> float:
    """A round distance between about six ticks."""
    raw = max(span, 1e-12) / 6
    power = 10 ** math.floor(math.log10(raw))
    return next(s for s in (1, 2, 5, 10) if s * power >= raw * 0.999) * power


def _axis(options: Draw, values: Sequence[Any]) -> _Axis:
    """The axis with its range: as given, or what holds the values."""
    if options.get("type") == "category":
        names = list(dict.fromkeys(v for v in values if isinstance(v, str)))
        return _Axis(options, -0.5, max(len(names), 1) - 0.5, names)
    numbers = [float(v) for v in values if isinstance(v, int | float)]
    if "range" in options:
        low, high = options["range"]
    elif options.get("type") == "log":
        positive = [math.log10(v) for v in numbers if v > 0] or [0.0, 1.0]
        low, high = min(positive), max(positive)
    else:
        low, high = min([0.0, *numbers]), max([*numbers, 0.0]) * 1.05 or 1.0
    return _Axis(options, low, high, [])


class _Picture:
    def __init__(self, data: list[Draw], layout: Draw, width: int, height: int):
        self.data, self.layout, self.width, self.height = data, layout, width, height
        self.out: list[str] = []
        self.stack: dict[Any, float] = {}
        self.x = _axis(layout["xaxis"], [v for t in data for v in _lengths(t, data, layout)])
        self.y = _axis(layout["yaxis"], [v for t in data for v in t.get("y", ())])
        self.legend = self._legend()
        self._place()

    def _place(self) -> None:
        """The rectangle of the plot: room for the legend above, labels and titles beside."""
        margin = self.layout.get("margin", {})
        names = [text for _, text in self.y.marks()]
        left = 14 + max((len(n) for n in names), default=0) * 11 * CHAR + (18 if _title(self.layout["yaxis"]) else 4)
        top = margin.get("t", 8) + 18 * (max((row for *_, row in self.legend), default=-1) + 1) + 4
        self.x.start, self.x.end = left, self.width - margin.get("r", 16)
        self.y.start, self.y.end = self.height - 44.0, top
        if self.layout["yaxis"].get("autorange") == "reversed":
            self.y.start, self.y.end = self.y.end, self.y.start

    def text(self, title: str) -> str:
        self._grid()
        self.out.append('<g clip-path="inset(0)">')
        for trace in self.data:
            (self._bars if trace["type"] == "bar" else self._scatter)(trace)
        self.out.append("</g>")
        for shape in self.layout.get("shapes", ()):
            self._shape(shape)
        for note in self.layout.get("annotations", ()):
            self._annotation(note)
        for name, trace, at, row in self.legend:
            self._entry(name, trace, at, row)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
        head += f'width="{self.width}" height="{self.height}" role="img" font-family="sans-serif" font-size="11">'
        return "\n".join([head, f"<title>{escape(title)}</title>", *self.out, "</svg>"]) + "\n"

    # ---- axes ----

    def _grid(self) -> None:
        top, bottom = sorted((self.y.start, self.y.end))
        for value, text in self.x.marks():
            at = self.x.at(value)
            self._line(at, top, at, bottom, self.layout["xaxis"].get("gridcolor", GRID))
            self._words(at, bottom + 16, text, MUTED, "middle")
        for value, text in self.y.marks():
            at = self.y.at(value)
            if not self.y.categories:
                self._line(self.x.start, at, self.x.end, at, self.layout["yaxis"].get("gridcolor", GRID))
            self._words(self.x.start - 7, at + 4, text, MUTED, "end")
        if title := _title(self.layout["xaxis"]):
            self._words((self.x.start + self.x.end) / 2, self.height - 8, title, MUTED, "middle")
        if title := _title(self.layout["yaxis"]):
            middle = (top + bottom) / 2
            turn = f'transform="rotate(-90 12 {_n(middle)})" '
            self._words(12, middle, title, MUTED, "middle", turn)

    # ---- traces ----

    def _scatter(self, trace: Draw) -> None:
        mode = trace.get("mode", "lines")
        points = [
            (self.x.at(x), self.y.at(y))
            for x, y in zip(trace.get("x", ()), trace.get("y", ()), strict=True)
            if x is not None and y is not None
        ]
        if "lines" in mode and len(points) > 1:
            line = trace.get("line", {})
            path = _path(points, line.get("shape", "linear"))
            self.out.append(
                f'<path d="{path}" fill="none" stroke="{line.get("color", INK)}" stroke-width="{line.get("width", 2)}"'
                f"{_dash(line)}/>"
            )
        if "markers" in mode:
            marker = trace.get("marker", {})
            for x, y in points:
                self.out.append(_mark(x, y, marker))

    def _bars(self, trace: Draw) -> None:
        marker, texts = trace.get("marker", {}), trace.get("text", [])
        count = max(len(self.y.categories), 1)
        thick = abs(self.y.end - self.y.start) / count * (1 - self.layout.get("bargap", 0.2))
        for i, (name, length) in enumerate(zip(trace["y"], trace["x"], strict=True)):
            begin = _of(trace.get("base"), i, self.stack.get(name, 0.0) if self._stacked else 0.0)
            self.stack[name] = begin + length
            left, right, middle = self.x.at(begin), self.x.at(begin + length), self.y.at(name)
            line = marker.get("line", {})
            if length:
                self.out.append(
                    f'<rect x="{_n(left)}" y="{_n(middle - thick / 2)}" width="{_n(max(right - left, 0.5))}" '
                    f'height="{_n(thick)}" fill="{_of(marker.get("color"), i, INK)}" '
                    f'fill-opacity="{marker.get("opacity", 1)}" stroke="{_of(line.get("color"), i, INK)}" '
                    f'stroke-width="{line.get("width", 1)}"/>'
                )
            if i < len(texts):
                self._words(right + 5, middle + 4, texts[i], INK, "start")

    @property
    def _stacked(self) -> bool:
        return self.layout.get("barmode") == "stack"

    # ---- lines and labels over the traces ----

    def _shape(self, shape: Draw) -> None:
        x0, x1 = (self._across(shape, n) for n in ("x0", "x1"))
        y0, y1 = (self._up(shape, n) for n in ("y0", "y1"))
        line = shape.get("line", {})
        self._line(x0, y0, x1, y1, line.get("color", INK), line.get("width", 1), _dash(line))

    def _across(self, item: Draw, name: str, exponent: bool = False) -> float:
        if item.get("xref") == "paper":
            return self.x.start + item[name] * (self.x.end - self.x.start)
        return self.x.at(item[name], exponent)

    def _up(self, item: Draw, name: str, exponent: bool = False) -> float:
        if item.get("yref") == "paper":
            bottom, top = max(self.y.start, self.y.end), min(self.y.start, self.y.end)
            return bottom + item[name] * (top - bottom)
        return self.y.at(item[name], exponent)

    def _annotation(self, note: Draw) -> None:
        lines = re.split(r"<br\s*/?>", note["text"])
        x = self._across(note, "x", exponent=True) + note.get("xshift", 0)
        y = self._up(note, "y", exponent=True) - note.get("yshift", 0)
        more = len(lines) - 1
        y += {"bottom": -3 - 12 * more, "top": 11}.get(note.get("yanchor", "middle"), 4 - 6 * more)
        anchor = {"left": "start", "right": "end"}.get(note.get("xanchor", "center"), "middle")
        for i, text in enumerate(lines):
            self._words(x, y + 12 * i, text, note.get("font", {}).get("color", MUTED), anchor)

    # ---- the legend ----

    def _legend(self) -> list[tuple[str, Draw, float, int]]:
        """(name, trace, x, row) of each trace that the legend names; [] where it would name one."""
        named = [t for t in self.data if t.get("name") and t.get("showlegend") is not False]
        if len(named) < 2 or self.layout.get("showlegend") is False:
            return []
        at, row, out = 54.0, 0, []
        for trace in named:
            long = 30 + len(trace["name"]) * 11 * CHAR
            if at + long > self.width - 8 and at > 54:
                at, row = 54.0, row + 1
            out.append((trace["name"], trace, at, row))
            at += long
        return out

    def _entry(self, name: str, trace: Draw, at: float, row: int) -> None:
        y = self.layout.get("margin", {}).get("t", 8) + 18 * row + 8
        if trace["type"] == "bar":
            marker = trace["marker"]
            self.out.append(
                f'<rect x="{_n(at)}" y="{_n(y - 5)}" width="14" height="10" fill="{_of(marker.get("color"), 0, INK)}" '
                f'fill-opacity="{marker.get("opacity", 1)}" stroke="{_of(marker["line"].get("color"), 0, INK)}"/>'
            )
        elif "markers" in trace.get("mode", ""):
            self.out.append(_mark(at + 7, y, trace["marker"] | {"size": 9}))
        else:
            line = trace.get("line", {})
            self._line(at, y, at + 16, y, line.get("color", INK), line.get("width", 2), _dash(line))
        self._words(at + 20, y + 4, name, MUTED, "start")

    # ---- what everything is made of ----

    def _line(
        self, x0: float, y0: float, x1: float, y1: float, colour: str, width: float = 1, dash: str = ""
    ) -> None:  # fmt: skip
        self.out.append(
            f'<line x1="{_n(x0)}" y1="{_n(y0)}" x2="{_n(x1)}" y2="{_n(y1)}" stroke="{colour}" '
            f'stroke-width="{width}"{dash}/>'
        )

    def _words(self, x: float, y: float, text: str, colour: str, anchor: str, turn: str = "") -> None:
        self.out.append(
            f'<text x="{_n(x)}" y="{_n(y)}" {turn}fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
        )


def _lengths(trace: Draw, data: list[Draw], layout: Draw) -> list[Any]:
    """The values along x that an axis must hold: of stacked bars their sums."""
    if trace["type"] == "bar" and layout.get("barmode") == "stack":
        return [sum(t["x"][i] for t in data) for i in range(len(trace["x"]))]
    return [*trace.get("x", ())]


def _title(axis: Draw) -> str:
    return axis.get("title", {}).get("text", "")


def _of(value: Any, i: int, otherwise: Any) -> Any:
    """The i-th of a list, or the one value for all."""
    return otherwise if value is None else value[i] if isinstance(value, list) else value


def _dash(line: Draw) -> str:
    dash = DASHES.get(line.get("dash", "solid"))
    return f' stroke-dasharray="{dash}"' if dash else ""


def _n(value: float) -> str:
    """A tenth of a pixel."""
    return f"{round(value, 1) + 0.0:g}"


def _path(points: list[tuple[float, float]], shape: str) -> str:
    path = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for x, y in points[1:]:
        path.append({"hv": f"H{_n(x)}V{_n(y)}", "vh": f"V{_n(y)}H{_n(x)}"}.get(shape, f"L{_n(x)} {_n(y)}"))
    return "".join(path)


def _round(corners: int, turn: float = 0.0, inner: float = 1.0) -> Callable[[float, float, float], str]:
    """The path of a polygon, or of a star where every other corner lies at `inner` of the radius."""

    def path(x: float, y: float, r: float) -> str:
        points = []
        for i in range(corners):
            angle = math.pi * (2 * i / corners - 0.5 + turn)
            at = r * (inner if i % 2 and inner != 1.0 else 1.0)
            points.append(f"{_n(x + at * math.cos(angle))} {_n(y + at * math.sin(angle))}")
        return f"M{'L'.join(points)}Z"

    return path


def _cross(x: float, y: float, r: float) -> str:
    a, b, c, d = _n(x - r), _n(x + r), _n(y - r), _n(y + r)
    return f"M{a} {c}L{b} {d}M{b} {c}L{a} {d}"


_PATHS: dict[str, Callable[[float, float, float], str]] = {
    "square": _round(4, 0.25), "diamond": _round(4), "triangle-up": _round(3), "triangle-down": _round(3, 0.5),
    "pentagon": _round(5), "hexagon": _round(6), "star": _round(10, 0.0, 0.45), "x": _cross, "x-thin": _cross,
}  # fmt: skip
_NUMBERED = (
    "circle",
    "square",
    "diamond",
    "cross",
    "x",
    "triangle-up",
    "pentagon",
    "hexagon",
)  # plotly's first symbols


def _mark(x: float, y: float, marker: Draw) -> str:
    symbol = marker.get("symbol", "circle")
    symbol = _NUMBERED[symbol % len(_NUMBERED)] if isinstance(symbol, int) else symbol
    base = symbol.removesuffix("-open")
    line = marker.get("line", {})
    colour = line.get("color") or marker.get("color", INK)
    hollow = symbol != base or base in ("x", "x-thin")
    look = f'fill="{"none" if hollow else marker.get("color", INK)}" stroke="{colour}" '
    look += f'stroke-width="{line.get("width", 1)}"/>'
    r = marker.get("size", 8) / 2
    if base in _PATHS:
        return f'<path d="{_PATHS[base](x, y, r * (1.2 if base in ("square", "diamond", "star") else 1.0))}" {look}'
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}" {look}'
