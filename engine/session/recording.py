"""A session as one file of JSON lines: one event per line, each after the blobs that it is the first to name.

    {"blobs": {"<sha-256>": "text", ...}}
    {"seq": 1, "kind": "session.started", "t": 1796050000.0, "data": {...}}
    ...

A recording is written while its session runs, so a process that is killed leaves a valid recording of what happened
until then. Older files hold all blobs in their last line. The gallery replays such files through the page of a live
session, so a recording holds exactly the event log of its session. This module imports only `engine.session.events`,
because the web process loads it.
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

    @property
    def optimised(self) -> tuple[str, str, str]:
        """(text, module | program, title) of what the session optimises. Raises RecordingError if the text is not
        shared."""
        started = self.rows[0].data
        if started["source"] not in self.blobs:
            raise RecordingError("the optimised text is missing from its blobs")
        return self.blobs[started["source"]], started["source_kind"], started["title"]


class Writer:
    """Writes a recording event by event, as a context manager. Each line reaches the file before `add` returns."""

    def __init__(self, path: str | Path):
        self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - __exit__ closes it
        self._blobs: dict[str, str] = {}  # texts that no event has named yet
        self._named: set[str] = set()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, seq: int, t: float, event: events.Event, blobs: Mapping[str, str]) -> None:
        """Append an event, after the texts that it or an earlier event names. `blobs`: texts that are new."""
        data = events.encode(event)
        self._named |= blob_names(data)
        self._blobs |= blobs
        texts = {name: self._blobs.pop(name) for name in sorted(self._named & self._blobs.keys())}
        self._named -= texts.keys()
        lines = [{"blobs": texts}] if texts or seq == 1 else []
        lines.append({"seq": seq, "kind": event.KIND, "t": round(t, 3), "data": data})
        self._file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        self._file.flush()


def write(path: str | Path, rows: Iterable[tuple[int, float, events.Event]], blobs: Mapping[str, str]) -> None:
    """Write (seq, t, event) rows and their blobs. Blobs that no event names are omitted."""
    with Writer(path) as writer:
        for seq, t, event in rows:
            writer.add(seq, t, event, blobs if seq == 1 else {})


def read(path: str | Path) -> Recording:
    """Read and check a whole recording. A last line that a kill cut is ignored. Raises RecordingError with the line."""
    rows: list[Row] = []
    blobs: dict[str, str] | None = None
    lines = Path(path).read_bytes().split(b"\n")  # bytes, because a cut line may end inside a character
    if len(lines) > 1 and not _is_json(lines[-1]):
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            if "blobs" in raw:
                blobs = (blobs or {}) | raw["blobs"]
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
        raise RecordingError('there is no line {"blobs": {...}}: the file was cut short')
    for name, text in blobs.items():
        if events.blob_name(text) != name:
            raise RecordingError(f"blob {name[:12]} does not hold the text that its name is the SHA-256 of")
    return Recording(tuple(rows), blobs)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def blob_names(value: Any) -> set[str]:
    """Every string in the data, also keys, that has the form of a blob's name."""
    if isinstance(value, str):
        return {value} if len(value) == 64 and not value.strip("0123456789abcdef") else set()
    if isinstance(value, dict):
        return blob_names([*value, *value.values()])
    if isinstance(value, list | tuple):
        return set().union(*map(blob_names, value)) if value else set()
    return set()
