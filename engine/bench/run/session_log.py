"""The log of a bench's current session, beside the results file, from which a later call continues.

One JSON line per event, with the texts that it names; the first line identifies the session. Who writes the session's
row into the results file deletes the log then, so that whichever process is killed leaves one of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from engine.build.cache import content_key
from engine.session import events
from engine.session.script.steps import Emitted
from engine.session.spec import SessionSpec


def beside(results: Path | None, module: str) -> Path | None:
    """The path of a session's log. A module in a folder has a / in its name, which becomes %2F."""
    return None if results is None else results.with_name(f"{results.name}.{quote(module, safe='')}.session")


def drop(results: Path | None, module: str) -> None:
    """Delete a session's log, which its row in the results replaces."""
    if (path := beside(results, module)) is not None:
        path.unlink(missing_ok=True)


class SessionLog:
    """`path`: None writes nothing to disk. `memory`: the frozen memory of the session's strategy."""

    def __init__(self, path: Path | None, spec: SessionSpec, memory: str):
        self.path, self.key = path, content_key(spec.to_json(), memory)
        self.emitted: list[Emitted] = list(self._read())
        self._file: IO[str] | None = None

    @property
    def history(self) -> list[tuple[int, events.Event]]:
        return [(i, e.event) for i, e in enumerate(self.emitted, 1)]

    @property
    def seconds(self) -> float:
        """Between the first and the last event."""
        return self.emitted[-1].t - self.emitted[0].t if self.emitted else 0.0

    @property
    def blobs(self) -> dict[str, str]:
        return {name: text for e in self.emitted for name, text in e.blobs.items()}

    def add(self, emitted: Emitted) -> None:
        self.emitted.append(emitted)
        if self.path is None:
            return
        if self._file is None:
            self._begin()
        self._file.write(_line(emitted))
        self._file.flush()

    def _begin(self) -> None:
        """Write the known lines again, without a line that was torn at an earlier call's end."""
        self._file = self.path.open("w", encoding="utf-8")
        self._file.write(json.dumps({"session": self.key, "version": events.VERSION}) + "\n")
        self._file.writelines(map(_line, self.emitted[:-1]))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _read(self) -> Iterator[Emitted]:
        """The events of this session; none if the file is of another session or version."""
        if self.path is None or not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")  # texts may have other line ends
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a torn line, and all that follows it
            first = json.loads(lines[0])
            if first != {"session": self.key, "version": events.VERSION}:
                return
            for line in lines[1:]:
                row = json.loads(line)
                yield Emitted(events.decode(row["kind"], row["data"]), dict(row["blobs"]), float(row["t"]))


def _line(emitted: Emitted) -> str:
    row: dict[str, Any] = {"t": emitted.t, "kind": emitted.event.KIND, "data": events.encode(emitted.event)}
    return json.dumps({**row, "blobs": emitted.blobs}, ensure_ascii=False) + "\n"
