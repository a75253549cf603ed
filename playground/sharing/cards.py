"""The card of a session's link: a picture of 1200 x 630 pixels with speedup, roofline and device, and one sentence.

The picture is drawn here with Pillow, from the figure that the page draws, and stays in memory until the log grows. Its
font, Pillow's own, has Latin letters alone; other characters are written with those.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.words import baseline_name, class_name, device_name
from playground import figures
from playground.models import Session
from playground.sharing import snapshots
from sol.budget import gap_says_nothing

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT = 1200, 630
PAPER, INK, MUTED, LINE, ACCENT, GOOD, WARN = (
    "#ffffff", "#1b1e22", "#555c65", "#d8dad5", "#0068a4", "#00734f", "#8a5a00"
)  # fmt: skip
TEXT = 516  # width of the words
TITLE = ((44, 2), (36, 3), (29, 4))  # a title's font in px, and its most lines
PLOT = (650, 128, 1120, 508)  # left, top, right, bottom
_LATIN = str.maketrans({"μ": "u", "µ": "u", "×": "x", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "→": "->", "′": "'"})
Place = Callable[[float, float], tuple[float, float]]


def sentence(session: Session) -> str:
    """What came of a session, in one sentence."""
    best, device = session.summary.get("best"), device_name(session.summary.get("device") or {})
    trials = session.summary.get("trials", 0)
    counted = f"{trials} trial{'' if trials == 1 else 's'}"
    if best is None:
        return f"No program is faster than PyTorch {'yet' if session.state != Session.ENDED else 'here'}: {counted}."
    how = "measured on" if best["kind"] == "measured" else "predicted for"
    over = f"{best['speedup']:.2f}x over {baseline_name(best['baseline'])}"
    limit = f", {best['gap']:.2f} times the speed-of-light limit" if best.get("gap") else ""
    if gap_says_nothing(best["ms"], best.get("gap")):
        limit = ", bound by launches"
    good, runs = snapshots.runs_of(session)
    confirmed = f"; {good} of {runs} independent runs reproduced it" if runs else ""
    return f"{over}, {how} {device or 'a GPU'}{limit}; {counted}{confirmed}."


def picture(session: Session) -> bytes:
    """The PNG of a session as it is now."""
    return _picture(session.id, session.last_seq, snapshots.runs_of(session))


@functools.lru_cache(maxsize=128)
def _picture(session_id: str, last_seq: int, runs: tuple[int, int]) -> bytes:
    from PIL import Image, ImageDraw  # with the first card, not with the process

    session = Session.objects.get(id=session_id)
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    _words(draw, session, *runs)
    roofline = figures.of(session, names=("roofline",))["roofline"]
    if roofline is not None:
        _plot(draw, roofline["figure"])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def latin(text: str) -> str:
    """The text in characters that the font has."""
    plain = unicodedata.normalize("NFKD", text.translate(_LATIN))
    return "".join(c if " " <= c <= "~" else "?" for c in plain if not unicodedata.combining(c))


@functools.cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _words(draw: ImageDraw, session: Session, good: int, runs: int) -> None:
    draw.rectangle((0, 0, WIDTH, 12), fill=ACCENT)
    draw.text((64, 52), "uCUTLASS playground", font=_font(26), fill=ACCENT)
    y = 104
    size, lines = title_lines(draw, latin(session.title))
    for line in lines:
        draw.text((64, y), line, font=_font(size), fill=INK)
        y += size + 10
    best = session.summary.get("best")
    y = max(y + 24, 236)
    if best is None:
        for line in _lines(draw, sentence(session), 32, TEXT, 4):
            draw.text((64, y), line, font=_font(32), fill=MUTED)
            y += 42
        return
    measured = best["kind"] == "measured"
    draw.text((60, y), f"{best['speedup']:.2f}x", font=_font(120), fill=GOOD if measured else WARN)
    over = f"over {baseline_name(best['baseline'])} in {class_name(best['cls'])}"
    for line in _lines(draw, latin(over), 30, TEXT, 1):
        y += 38
        draw.text((64, y + 104), line, font=_font(30), fill=INK)
    if gap_says_nothing(best["ms"], best.get("gap")):
        draw.text((64, y + 146), "bound by launches", font=_font(30), fill=MUTED)
    elif best.get("gap"):
        share = min(1.0, 1 / best["gap"])
        draw.text((64, y + 146), f"{share:.0%} of the speed of light", font=_font(30), fill=MUTED)
        draw.rounded_rectangle((64, y + 194, 564, y + 208), 7, fill=LINE)
        draw.rounded_rectangle((64, y + 194, 64 + max(14, 500 * share), y + 208), 7, fill=GOOD if measured else WARN)
    badge = "MEASURED" if measured else "PREDICTED"
    length = draw.textlength(badge, font=_font(24))
    draw.rounded_rectangle((64, 556, 64 + length + 32, 598), 8, fill=GOOD if measured else WARN)
    draw.text((80, 564), badge, font=_font(24), fill=PAPER)
    confirmed = f", reproduced in {good} of {runs} runs" if runs else ""
    device = latin(device_name(session.summary.get("device") or {}))
    draw.text((64 + length + 52, 562), device + confirmed, font=_font(27), fill=INK)


def title_lines(draw: ImageDraw, title: str) -> tuple[int, list[str]]:
    """The largest font, in px, in which the whole title has room, and its lines. Only a title that is too long for the
    smallest one ends in an ellipsis."""
    for size, most in TITLE:
        lines = _lines(draw, title, size, TEXT, most)
        if " ".join(lines) == " ".join(title.split()):
            break
    return size, lines


def _lines(draw: ImageDraw, text: str, size: int, width: int, most: int) -> list[str]:
    """The text in at most so many lines of a width; the rest becomes an ellipsis."""
    lines: list[str] = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if draw.textlength(longer, font=_font(size)) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    shown = lines[:most]
    if len(lines) > most:
        shown[-1] += "..."
    while draw.textlength(shown[-1], font=_font(size)) > width and len(shown[-1]) > 4:
        shown[-1] = shown[-1].removesuffix("...")[:-1].rstrip() + "..."
    return shown


def _plot(draw: ImageDraw, figure: dict[str, Any]) -> None:
    """The roofline: axes, roofs and points of the page's figure."""
    x_axis, y_axis = figure["layout"]["xaxis"], figure["layout"]["yaxis"]
    (x0, x1), (y0, y1), (left, top, right, bottom) = x_axis["range"], y_axis["range"], PLOT

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (math.log10(x) - x0) / (x1 - x0), (math.log10(y) - y0) / (y1 - y0)
        return left + across * (right - left), bottom - up * (bottom - top)

    for value, text in zip(x_axis["tickvals"], x_axis["ticktext"], strict=True):
        x, _ = place(value, 10**y0)
        draw.line((x, top, x, bottom), fill=LINE, width=1)
        draw.text((x, bottom + 10), latin(text), font=_font(18), fill=MUTED, anchor="mt")
    for value, text in zip(y_axis["tickvals"], y_axis["ticktext"], strict=True):
        _, y = place(10**x0, value)
        draw.line((left, y, right, y), fill=LINE, width=1)
        draw.text((left - 10, y), latin(text), font=_font(18), fill=MUTED, anchor="rm")
    draw.text(((left + right) / 2, bottom + 38), "FLOP per byte", font=_font(18), fill=MUTED, anchor="mt")
    draw.text((left, top - 14), "TFLOP/s", font=_font(18), fill=MUTED, anchor="ls")
    for trace in figure["data"]:
        points = [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if x and y and x > 0 and y > 0]
        if trace["mode"] == "lines":
            _roof(draw, points, trace["line"], place)
        elif "markers" in trace["mode"]:
            for x, y in points:
                _mark(draw, *place(x, y), trace["marker"])


def _roof(draw: ImageDraw, points: list[tuple[float, float]], line: dict[str, Any], place: Place) -> None:
    at = _above(PLOT[3], [place(*point) for point in points])
    if not line.get("dash"):
        draw.line(at, fill=line["color"], width=4, joint="curve")
        return
    for (ax, ay), (bx, by) in itertools.pairwise(at):
        steps = max(1, int(math.hypot(bx - ax, by - ay) / 10))
        for n in range(0, steps, 2):
            a, b = n / steps, min(1.0, (n + 0.8) / steps)
            ends = (ax + a * (bx - ax), ay + a * (by - ay), ax + b * (bx - ax), ay + b * (by - ay))
            draw.line(ends, fill=line["color"], width=2)


def _above(bottom: float, at: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A line's part above the lower edge of the plot."""
    cut = []
    for (ax, ay), (bx, by) in itertools.pairwise(at):
        if ay > bottom > by:
            ax, ay = ax + (bx - ax) * (ay - bottom) / (ay - by), bottom
        if ay <= bottom:
            cut += [(ax, ay), (bx, by)]
    return cut


def _mark(draw: ImageDraw, x: float, y: float, marker: dict[str, Any]) -> None:
    """A point with the shape of the page's; hollow for a prediction."""
    symbol, colour, r = str(marker.get("symbol", "circle")), marker["line"]["color"], 8 * marker.get("size", 9) / 9
    fill = PAPER if symbol.endswith("-open") else colour
    match symbol.removesuffix("-open"):
        case "square":
            draw.rectangle((x - r, y - r, x + r, y + r), fill=fill, outline=colour, width=3)
        case "diamond":
            draw.polygon([(x, y - r - 2), (x + r + 2, y), (x, y + r + 2), (x - r - 2, y)], fill, colour, width=3)
        case "star":
            spikes = [(r + 6 if n % 2 == 0 else r / 2, math.pi * n / 5 - math.pi / 2) for n in range(10)]
            draw.polygon([(x + s * math.cos(a), y + s * math.sin(a)) for s, a in spikes], fill, colour, width=2)
        case _:
            draw.ellipse((x - r, y - r, x + r, y + r), fill=fill, outline=colour, width=3)
