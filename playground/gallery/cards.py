"""Recorded sessions as cards: the module, its speedup and baseline, its distance to the limit, and their source.

Those that the gallery shows first have a sentence of why they are worth seeing. The sentences are written by hand
(playground/recordings/worth.toml); every number beside them is from the log.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.session.spec import UNTITLED
from engine.words import baseline_name, class_name, device_name
from playground.access.requests import title_of
from playground.gallery.words import speedup, time
from playground.models import Session
from playground.recordings import COMMAND, FOLDER, REHEARSAL
from sol.budget import gap_says_nothing

PREDICTED = "predicted by a model; nothing ran on a GPU"


@dataclass(frozen=True)
class Card:
    """One recording. `kind`: measured | predicted; `speedup`: "" if no program was faster than PyTorch; `against`: the
    baseline, the class and the time that the speedup is of; `share`: percent of the speed of light, None if unknown;
    `classes`: those with a right program, even if it is slower than PyTorch; `command`: its words; `rehearsed`: needs
    a rehearsal to answer it; `searched`: the lower-case text that the filter looks into."""

    id: str
    title: str
    about: str
    why: str
    device: str
    kind: str
    speedup: str
    against: str
    share: int | None
    launches: bool
    classes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    command: tuple[str, ...]
    rehearsed: bool
    searched: str

    @property
    def class_names(self) -> list[str]:
        return [class_name(cls) for cls in self.classes]


@functools.cache
def reasons() -> dict[str, str]:
    """{file of a recording: why it is worth seeing}, in the order of the page."""
    listed = tomllib.loads((FOLDER / "worth.toml").read_text(encoding="utf-8"))["recording"]
    return {row["file"]: row["why"] for row in listed}


def worth(cards: Iterable[Card], recorded: Iterable[Session]) -> list[Card]:
    """The cards of the recordings worth seeing, as far as they are loaded."""
    by_id = {card.id: card for card in cards}
    by_file = {session.provenance.get("file"): by_id[session.id] for session in recorded}
    return [by_file[name] for name in reasons() if name in by_file]


def card(session: Session) -> Card:
    """The card of a recording."""
    summary, source = session.summary, session.provenance
    command = source.get("command", "")
    best, fastest = summary.get("best"), _fastest(summary)
    shown = best or fastest
    kind = shown["kind"] if shown else (summary.get("device") or {}).get("kind", "")
    about = title_of(session.spec.get("source", ""), session.spec.get("source_kind", "module"))
    device = device_name(session.summary.get("device") or {})
    facts = (
        ("Device", device), ("Driver", source.get("driver", "")), ("Date", source.get("date", "")),
        ("Trials", str(summary.get("trials", ""))), ("Led by", source.get("led_by", "")),
        ("Times", PREDICTED if kind == "predicted" else ""),
    )  # fmt: skip
    return Card(
        session.id, session.title, "" if about in (session.title, UNTITLED) else about,
        reasons().get(source.get("file", ""), ""), device, kind, speedup(best["speedup"]) if best else "",
        _against(best, fastest), _share(best), bool(best and gap_says_nothing(best["ms"], best.get("gap"))),
        tuple(summary.get("fastest") or {}), tuple((name, text) for name, text in facts if text),
        tuple(re.split(r" (?=--)", command)) if command else (),
        source.get("led_by") == REHEARSAL and command.startswith(COMMAND),
        f"{session.title} {about} {summary.get('sentence', '')}".lower(),
    )  # fmt: skip


def _share(best: dict[str, Any] | None) -> int | None:
    """The limit's share of the best time in percent; None where there is none, or where the launch hides it."""
    if best is None or not best.get("gap") or gap_says_nothing(best["ms"], best["gap"]):
        return None
    return round(100 / best["gap"])


def _against(best: dict[str, Any] | None, fastest: dict[str, Any] | None) -> str:
    """What the speedup is of or, if PyTorch stays in every class, the time that came closest to it."""
    shown = best or fastest
    if shown is None:
        return "No trial finished."
    beside = f"{baseline_name(shown['baseline'])} · {class_name(shown['cls'])} · {time(shown['ms'])}"
    slower = f"No program was faster than PyTorch. The fastest: {speedup(shown['speedup'])}"
    return f"over {beside}" if best else f"{slower} over {beside}"


def _fastest(summary: dict[str, Any]) -> dict[str, Any] | None:
    return max((summary.get("fastest") or {}).values(), key=lambda trial: trial["speedup"], default=None)
