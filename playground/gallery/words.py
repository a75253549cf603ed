"""Numbers of a session as the gallery's server-rendered parts write them, as static/js/format.js does."""

from __future__ import annotations

from math import floor, log10


def _digits(value: float) -> str:
    """Three significant digits without an exponent: 0.0412, 0.170, 45.6, 789."""
    places = max(0, 2 - floor(log10(abs(value)))) if value else 0
    return f"{value:,.{min(places, 6)}f}"


def time(ms: float) -> str:
    """A kernel's time, given in ms, which no line break divides: 83.8 µs."""
    if ms < 0.1:
        return f"{_digits(ms * 1000)}\u00a0µs"
    return f"{_digits(ms)}\u00a0ms" if ms < 1000 else f"{_digits(ms / 1000)}\u00a0s"


def speedup(ratio: float) -> str:
    """1.9312 -> 1.93×."""
    return f"{ratio:.2f}×" if ratio < 10 else f"{_digits(ratio)}×"
