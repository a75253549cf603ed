"""The recordings that the gallery shows first, each with a sentence of why it is worth seeing.

The sentences are written by hand (playground/recordings/worth.toml); every number beside them is from the log.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.words import baseline_name, class_name
from playground.gallery.words import device_name, speedup, time
from playground.models import Session
from playground.recordings import FOLDER


@dataclass(frozen=True)
class Card:
    """One recording. `kind`: measured | predicted; `speedup`: "" if no program was faster than PyTorch; `against`: the
    baseline, the class and the time that the speedup is of."""

    id: str
    title: str
    why: str
    device: str
    kind: str
    speedup: str
    against: str


@functools.cache
def reasons() -> dict[str, str]:
    """{file of a recording: why it is worth seeing}, in the order of the page."""
    listed = tomllib.loads((FOLDER / "worth.toml").read_text(encoding="utf-8"))["recording"]
    return {row["file"]: row["why"] for row in listed}


def cards(recorded: Iterable[Session]) -> list[Card]:
    """The cards of those recordings that are loaded."""
    by_file = {session.provenance.get("file"): session for session in recorded}
    return [_card(by_file[name], why) for name, why in reasons().items() if name in by_file]


def _card(session: Session, why: str) -> Card:
    best, fastest = session.summary.get("best"), _fastest(session.summary)
    shown = best or fastest
    kind = (session.summary.get("device") or {}).get("kind", "")
    against = "No trial finished."
    if shown is not None:
        beside = f"{baseline_name(shown['baseline'])} · {class_name(shown['cls'])} · {time(shown['ms'])}"
        slower = f"No program was faster than PyTorch. The fastest: {speedup(shown['speedup'])}"
        against = f"over {beside}" if best else f"{slower} over {beside}"
    return Card(
        session.id, session.title, why, device_name(session), shown["kind"] if shown else kind,
        speedup(best["speedup"]) if best else "", against,
    )  # fmt: skip


def _fastest(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The trial that came closest to PyTorch, whatever its class."""
    return max((summary.get("fastest") or {}).values(), key=lambda trial: trial["speedup"], default=None)
