"""A session's log, read as it grows, for the tools: the folded view, and the trial that each candidate became."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from engine.session.fold.readers import whole
from engine.session.fold.reduce import View
from playground.live import log
from playground.models import Blob

PAGE = 500  # events read at a time


@dataclass
class Start:
    """A program of the module, or of a region of it, that an agent can start from."""

    text: str
    cls: str
    program: str
    region: int = 0

    @property
    def part(self) -> str:
        return f"region {self.region}" if self.region else "the module"


@dataclass
class Following:
    """`trial_of`: number of a candidate (from 1, in the order in which the owner handed them in) -> its trial;
    `starts`: the programs to start from."""

    session_id: str
    view: View = field(default_factory=View)
    trial_of: dict[int, int] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    _received: tuple[int, int] | None = None  # place of the last Receive in the script, and the candidate that it got
    _owners: int = 0

    def read(self) -> Following:
        """Read the events that are new."""
        while rows := log.after(self.session_id, self.view.seq, PAGE):
            for row in rows:
                if not self.view.apply(row.seq, row.kind, row.t, row.data):
                    return self
                self._note(row.kind, row.data if isinstance(row.data, dict) else {})
            if len(rows) < PAGE:
                break
        return self

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "turn.answered" and data.get("verb") == "receive":
            place, request = _place(data), whole(data.get("request"))
            self._received = (place, request) if place is not None and request is not None else None
        elif kind == "trial.proposed" and data.get("by") == "owner":
            self._owners += 1
            self.trial_of[whole(data.get("request")) or self._owners] = data["trial"]
        elif kind == "trial.proposed" and self._received is not None and _place(data) == self._received[0] + 1:
            self.trial_of[self._received[1]] = data["trial"]
        elif kind == "noted" and data.get("code") == "start_from":
            self.starts.append(
                Start(*(data.get(name, "") for name in ("text", "cls", "program")), data.get("region", 0))
            )

    @property
    def report(self) -> dict[str, Any] | None:
        """The speed-of-light report (sol.report as JSON); None before it is logged."""
        text = self.blob(self.view.report)
        return json.loads(text) if text else None

    def blob(self, name: str | None) -> str:
        """A text of the session by its name; "" if it is not stored, or its owner does not share it."""
        row = Blob.objects.filter(sha256=name, sessions=self.session_id).first() if name else None
        return row.text if row is not None else ""


def _place(data: dict[str, Any]) -> int | None:
    path = str(data.get("path", ""))
    return int(path) if path.isdecimal() else None
