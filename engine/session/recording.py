"""A finished session as one file of JSON lines: one event per line, then the blobs that they name.

    {"seq": 1, "kind": "session.started", "t": 1796050000.0, "data": {...}}
    ...
    {"blobs": {"<sha-256>": "text", ...}}

The gallery replays such files through the page of a live session, so a recording holds exactly the event log of its
session. This module imports only `engine.session.events`, because the web process loads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.session import events


class RecordingError(ValueError):
    """The file is not a recording of this version. The message gives the line and the fault."""


@dataclass(frozen=True)
class Row:
    """One row of the log. `t` is seconds since the epoch at the engine."""

    seq: int
    kind: str
    t: float
    data: dict[str, Any]

    @property
    def event(self) -> events.Event:
        return events.decode(self.kind, self.data)


@dataclass(frozen=True)
class Recording:
    rows: tuple[Row, ...]
    blobs: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.rows[0].data["title"]


def write(path: str | Path, rows: Iterable[tuple[int, float, events.Event]], blobs: Mapping[str, str]) -> None:
    """Write (seq, t, event) rows and their blobs. Blobs that no event names are omitted."""
    lines, named = [], set()
    for seq, t, event in rows:
        data = events.encode(event)
        named |= _blob_names(data)
        lines.append(json.dumps({"seq": seq, "kind": event.KIND, "t": round(t, 3), "data": data}, ensure_ascii=False))
    contents = {name: blobs[name] for name in sorted(named) if name in blobs}
    lines.append(json.dumps({"blobs": contents}, ensure_ascii=False))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: str | Path) -> Recording:
    """Read and check a whole recording. Raises RecordingError with the line."""
    rows: list[Row] = []
    blobs: dict[str, str] | None = None
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            if "blobs" in raw:
                blobs = dict(raw["blobs"])
                continue
            row = Row(int(raw["seq"]), raw["kind"], float(raw["t"]), raw["data"])
            events.decode(row.kind, row.data)
        except (KeyError, TypeError, ValueError) as e:
            raise RecordingError(f"line {number} is not an event of version {events.VERSION}: {e}") from None
        if row.seq != len(rows) + 1:
            raise RecordingError(f"line {number} has seq {row.seq} where {len(rows) + 1} comes next")
        rows.append(row)
    if not rows or rows[0].kind != events.SessionStarted.KIND:
        raise RecordingError(f"a recording begins with {events.SessionStarted.KIND}")
    if blobs is None:
        raise RecordingError('the last line, {"blobs": {...}}, is missing: the file was cut short')
    for name, text in blobs.items():
        if events.blob_name(text) != name:
            raise RecordingError(f"blob {name[:12]} does not hold the text that its name is the SHA-256 of")
    return Recording(tuple(rows), blobs)


def _blob_names(value: Any) -> set[str]:
    """Every string in the data, also keys, that has the form of a blob's name."""
    if isinstance(value, str):
        return {value} if len(value) == 64 and not value.strip("0123456789abcdef") else set()
    if isinstance(value, dict):
        return _blob_names([*value, *value.values()])
    if isinstance(value, list | tuple):
        return set().union(*map(_blob_names, value)) if value else set()
    return set()
