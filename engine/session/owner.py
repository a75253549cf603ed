"""The owner's commands pause, resume, stop, budget, try and profile: those in the log, and new ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event as Flag
from typing import Any, Protocol

from engine.session import events
from engine.session.journal import Journal
from engine.session.script.steps import Events
from engine.session.spec import BadSpec, SessionSpec

POLL = 0.05  # seconds between checks for commands while the session waits
WORDS = ("pause", "resume", "stop", "budget", "try", "profile")
TRY = ("form", "language", "entry", "cls", "change")  # fields of a try besides the text


class Control(Protocol):
    """The way to who controls a session."""

    def __call__(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """The commands since the last call, as (kind, data)."""


class Resting(Protocol):
    """What a control may have as well, if it counts what sessions hold."""

    def rest(self) -> None:
        """Nothing of the session runs until its owner or their agent says something."""

    def admitted(self) -> bool:
        """Whether a session that rested may go on now."""


class Owner:
    """`budget`: the spec's, with the owner's changes. `control` may be `Resting` as well."""

    def __init__(self, spec: SessionSpec, journal: Journal, control: Control):
        self.journal, self._control, self._spec = journal, control, spec
        self.budget = spec.budget
        self.paused = False
        self.stop = Flag()
        for e in journal.of(events.Controlled):
            self._obey(e.action, e.data)

    @property
    def stopped(self) -> bool:
        return self.stop.is_set()

    def cancelled(self) -> bool:
        """Wait while the session is paused, then return True if it is stopped. For the thread of a script or a model's
        turn."""
        while self.paused and not self.stopped:
            time.sleep(POLL)
        return self.stopped

    def rest(self) -> None:
        """Nothing runs, and only the owner or their agent can change that."""
        if hasattr(self._control, "rest"):
            self._control.rest()

    def admitted(self) -> bool:
        """Return True if a session that rested may go on."""
        return not hasattr(self._control, "admitted") or self._control.admitted()

    def hear(self) -> Events:
        """Execute and log the commands since the last call."""
        for kind, data in self._control():
            if kind not in WORDS or (kind == "profile" and not isinstance(data.get("trial"), int)):
                continue
            if kind == "budget":
                data = self._sane(data)
            if kind == "profile":
                data = {"trial": data["trial"]}
            texts = []
            if kind == "try":
                text = str(data.get("program", ""))
                data = {"program": events.blob_name(text), **{k: str(data[k]) for k in TRY if data.get(k)}}
                data |= {"waits": "paused"} if self.paused else {}
                texts = [text]
            self._obey(kind, data)
            yield from self.journal.emit(events.Controlled(kind, dict(data)), *texts)

    def _obey(self, action: str, data: dict[str, Any]) -> None:
        if action == "stop":
            self.stop.set()
        elif action in ("pause", "resume"):
            self.paused = action == "pause"
        elif action == "budget":
            self.budget = changed(self.budget, data)

    def _sane(self, data: dict[str, Any]) -> dict[str, Any]:
        """The fields of a budget that are valid in a spec. The others are dropped."""
        sane = {}
        for name, value in data.items():
            if name in self.budget:
                try:
                    self._spec.changed(**{name: value})
                    sane[name] = value
                except BadSpec:
                    continue
        return sane


def changed(budget: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The budget after a command of the owner."""
    return {**budget, **{k: v for k, v in data.items() if k in budget}}
