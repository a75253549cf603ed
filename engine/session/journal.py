"""A session's log: every event so far, with those of lost engines. A step is logged once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from engine.session import events
from engine.session.script.steps import Emitted, Events

E = TypeVar("E", bound=events.Event)


class Journal:
    """`past`: the events already in the log; `read_blob(name)` returns the text of a blob that they name; `now`:
    seconds since the epoch. `digests`: path of a verb -> digest, for all paths in the log, by their first number."""

    def __init__(
        self, past: Iterable[events.Event], read_blob: Callable[[str], str], now: Callable[[], float] = time.time
    ):
        self.log: list[events.Event] = []
        self.digests: dict[str, dict[str, str]] = {}
        self._of: dict[type[events.Event], list[Any]] = {}
        self._places: dict[tuple, int] = {}  # identity -> index in the log
        self._blobs: dict[str, str] = {}
        self._read_blob, self._now = read_blob, now
        for event in past:
            self._add(event)

    def _add(self, event: events.Event) -> None:
        key = identity(event)
        if key is not None:
            self._places.setdefault(key, len(self.log))
        path, digest = _path_and_digest(event)
        if path:
            self.digests.setdefault(path.partition(".")[0], {}).setdefault(path, digest)
        self._of.setdefault(type(event), []).append(event)
        self.log.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """All events of a kind, in order. The list belongs to the journal."""
        return self._of.get(kind, [])

    def past(self, kind: type[E], trial: int | None = None) -> E | None:
        """The first event of this kind (and trial) in the log, or None."""
        if trial is None:
            return next(iter(self.of(kind)), None)
        return self._get((kind, trial))

    def at(self, kind: type[E], path: str) -> E | None:
        """The event of this kind at a verb's path, or None."""
        return self._get((kind, path))

    def index(self, event: events.Event) -> int:
        """The position in the log of the event with this identity. Raises KeyError."""
        return self._places[identity(event)]

    def _get(self, key: tuple) -> Any:
        place = self._places.get(key)
        return None if place is None else self.log[place]

    def emit(self, event: events.Event, *texts: str) -> Events:
        """Log the event with its blobs, unless the log holds this step already."""
        if self.holds(event):
            return
        self._add(event)
        blobs = {events.blob_name(t): t for t in texts}
        self._blobs.update(blobs)
        yield Emitted(event, blobs, self._now())

    def holds(self, event: events.Event) -> bool:
        """Return True if the log holds this step. False for events that may repeat."""
        key = identity(event)
        return key is not None and key in self._places

    def blob(self, name: str) -> str:
        if name not in self._blobs:
            self._blobs[name] = self._read_blob(name)
        return self._blobs[name]

    @property
    def next_trial(self) -> int:
        return max((e.trial for e in self.of(events.TrialProposed)), default=0) + 1

    def ended(self, trial: int) -> events.TrialJudged | events.TrialUntimed | events.TrialFailed | None:
        ends = (self.past(kind, trial) for kind in events.ENDS)
        return next((end for end in ends if end is not None), None)

    def untaken_tries(self) -> list[int]:
        """The owner's tries (from 1) that are no trial yet and that no Receive has, in order."""
        own = [e for e in self.of(events.TrialProposed) if e.by == "owner"]
        used = {e.request or number for number, e in enumerate(own, 1)}
        used |= {e.request for e in self.of(events.Answered) if e.request is not None}
        return [number for number in range(1, len(self.tries()) + 1) if number not in used]

    def tries(self) -> list[events.Controlled]:
        """The commands with which the owner handed in a candidate, in order."""
        return [e for e in self.of(events.Controlled) if e.action == "try"]

    def unanswered_profiles(self) -> list[tuple[int, int]]:
        """(number from 1, trial) of the owner's requests for a profile that have no answer yet, in order."""
        requests = [e for e in self.of(events.Controlled) if e.action == "profile"]
        answered = {e.request for e in self.of(events.TrialProfiled)}
        return [(n, e.data["trial"]) for n, e in enumerate(requests, 1) if n not in answered]

    def open_trials(self) -> list[events.TrialProposed]:
        """Proposed trials that have no end yet."""
        return [e for e in self.of(events.TrialProposed) if self.ended(e.trial) is None]


def identity(event: events.Event) -> tuple | None:
    """The key that identifies an event's step; None for events that may repeat."""
    kind = type(event)
    match event:
        case events.Controlled() | events.Resumed():
            return None
        case events.Progress(step="wait" | "place"):
            return None
        case events.Progress():
            return kind, event.text, event.step, event.trial
        case events.Noted():
            return kind, event.code, event.text, event.cls
        case events.Baseline():
            return kind, event.name, event.cls
        case events.KeyWanted() | events.KeyReceived():
            return kind, event.claim
        case events.Asked():
            return kind, event.path, event.attempt
        case events.Said():
            return kind, event.path, event.attempt, event.number
        case events.Answered() | events.Advanced() | events.Shown():
            return kind, event.path
        case events.Screened():
            return kind, event.path or event.trial
        case events.TrialProfiled():
            return kind, event.request
        case (
            events.TrialProposed()
            | events.TrialChecked()
            | events.TrialGenerated()
            | events.TrialCompiled()
            | events.TrialValidated()
            | events.TrialMeasured()
            | events.TrialJudged()
            | events.TrialUntimed()
            | events.TrialFailed()
        ):
            return kind, event.trial
    return (kind,)


def _path_and_digest(event: events.Event) -> tuple[str, str]:
    """For an event that belongs to a verb of the script; ("", "") for others."""
    match event:
        case (
            events.TrialProposed()
            | events.Screened()
            | events.Asked()
            | events.Answered()
            | events.Shown()
            | events.Advanced()
        ):
            return event.path, event.digest
    return "", ""
