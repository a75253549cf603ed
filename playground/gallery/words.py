"""Numbers and names of a session as the gallery's server-rendered parts write them, as static/js/format.js does."""

from __future__ import annotations

from playground.models import Session
from sol import render


def time(ms: float) -> str:
    """A kernel's time, given in ms, which no line break divides: 83.8 µs."""
    return render.ms(ms).replace(" ", "\u00a0")


def speedup(ratio: float) -> str:
    """1.9312 -> 1.93×."""
    return f"{ratio:.2f}×"


def device_name(session: Session) -> str:
    """The device of a session's times, for people; "" before the session began."""
    device = session.summary.get("device") or {}
    return str(device.get("title") or device.get("gpu") or device.get("name") or "")
