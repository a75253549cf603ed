"""A log as its owner shares it: with or without the source, with or without the model's turns.

Without the source a reader gets every time, verdict and figure, and no text that shows the module or a program: no
module, program or generated code, no line of either in a message, nothing that the owner or a model wrote about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.record import KEYS, TURNS, Row, digest
from engine.session import events
from engine.session.recording import blob_names

WITHOUT = "Results without their source"  # the title

# What each event keeps without the source; the others keep nothing, so that a new kind of event leaks nothing.
_KEPT = {
    "session.started": None, "progress": ("step", "trial"), "traced": ("graph", "ops", "seconds"),
    "reported": None, "covered": ("share",), "baseline": None, "screened": None,
    "trial.proposed": (
        "trial", "cls", "program", "backend", "parent", "predicted_ms", "by", "roof", "form", "language", "structure",
        "rest",
    ),
    "trial.checked": ("trial", "resolved", "seconds", "tried"),
    "trial.generated": ("trial", "seconds", "region"),
    "trial.compiled": ("trial", "backend", "how", "seconds", "cached"),
    "trial.validated": ("trial", "error", "max_error", "tolerance", "checks", "scope", "bound"),
    "trial.measured": None,
    "trial.judged": (
        "trial", "verdict", "cls", "kind", "ms", "speedup", "baseline", "gap", "sol_score", "best", "text", "standing",
    ),
    "trial.untimed": ("trial", "verdict", "cls", "step", "code"),
    "trial.failed": ("trial", "step", "code", "cause"),
    "controlled": ("action",), "resumed": None,
    "session.ended": (
        "state", "code", "best", "trials", "seconds", "closed", "untried", "spent",
    ),
}  # fmt: skip
_EMPTY: dict[str, dict[str, Any]] = {  # of fields that an event must have
    "progress": {"text": ""}, "covered": {"regions": [], "uncovered": [], "text": ""},
    "trial.proposed": {"change": "not shared", "why": ""}, "trial.generated": {"sources": {}, "refused": {}},
    "trial.untimed": {"text": "The program was not timed."}, "traced": {"title": ""},
    "trial.failed": {"reason": "Its owner does not share why."}, "session.ended": {"reason": ""},
}  # fmt: skip


def shared(
    rows: Iterable[Row], texts: Mapping[str, str], *, source: bool, transcript: bool
) -> tuple[list[Row], dict[str, str], str]:
    """(the events numbered again, their texts, the hash of the turns if those are left out). Without the source there
    are no turns either, because they quote it. Raises ValueError for a log of another version."""
    rows = list(rows)
    transcript = transcript and source
    rest = [r for r in rows if r["kind"] not in KEYS and (transcript or r["kind"] not in TURNS)]
    turns = "" if transcript else digest([[r["kind"], r["data"]] for r in rows if r["kind"] in TURNS])
    named = blob_names([r["data"] for r in rest])
    if not source:
        rest = [r | {"data": _data(r["kind"], r["data"])} for r in rest if r["kind"] in _KEPT]
        named = blob_names([r["data"].get("report", "") for r in rest])
    elif not transcript:
        rest = [r | {"data": r["data"] | {"why": ""}} if r["kind"] == "trial.proposed" else r for r in rest]
    numbered = [_numbered(r, number) for number, r in enumerate(rest, 1)]
    return numbered, {name: texts[name] for name in sorted(named) if name in texts}, turns


def _numbered(row: Row, number: int) -> Row:
    """The event as it is stored again: with every field of this version."""
    return dict(row) | {"seq": number, "data": events.encode(events.decode(row["kind"], dict(row["data"])))}


def _data(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    names = _KEPT[kind]
    if names is None:
        names = tuple(data)
    rest = {name: data[name] for name in names if name in data} | _EMPTY.get(kind, {})
    if kind == "session.started":
        rest |= {"title": WITHOUT, "options": {}}
        rest["device"] = {k: v for k, v in rest.get("device", {}).items() if k != "command"}
    if kind == "trial.judged":
        rest["text"] = f"{data['ms']:.3g} ms {data['kind']}, {data['speedup']:.2f}x {data['baseline']}"
    return rest
