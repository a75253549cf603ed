"""A session's log as its script writes it, and the owner's word as it is heard between the steps.

`Journal` holds every event so far, those of a lost engine among them, and emits a step only once. `Owner` hears pause,
resume, stop, budget and try, and runs whatever blocks in one thread beside itself, so that a stop is heard in the
middle of a build. (One thread for the whole session, because a sandboxed child dies with the thread that started it.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event as Flag
from typing import Any, TypeVar

from engine.session import events
from engine.session.spec import BadSpec, SessionSpec
from engine.session.trial import Emitted, Steps, Stopped

logger = logging.getLogger(__name__)

POLL = 0.05  # seconds between looks at the owner's word while a device works
WORDS = ("pause", "resume", "stop", "budget", "try")

Control = Callable[[], Sequence[tuple[str, dict[str, Any]]]]
E = TypeVar("E", bound=events.Event)


class Journal:
    """`past`: the events that the log holds already; `read_blob(name)` gives the text of a blob that they name; `now`:
    seconds since the epoch."""

    def __init__(
        self, past: Iterable[events.Event], read_blob: Callable[[str], str], now: Callable[[], float] = time.time
    ):
        self.log: list[events.Event] = list(past)
        self._blobs: dict[str, str] = {}
        self._read_blob, self._now = read_blob, now

    def of(self, kind: type[E]) -> list[E]:
        return [e for e in self.log if isinstance(e, kind)]

    def past(self, kind: type[E], trial: int | None = None) -> E | None:
        """The event of this kind (and trial) that the log holds, or None."""
        return next((e for e in self.log if isinstance(e, kind) and (trial is None or e.trial == trial)), None)

    def emit(self, event: events.Event, *texts: str) -> Iterator[Emitted]:
        """Log the event with its blobs, unless the log holds this step already."""
        if self.holds(event):
            return
        self.log.append(event)
        blobs = {events.blob_name(t): t for t in texts}
        self._blobs.update(blobs)
        yield Emitted(event, blobs, self._now())

    def holds(self, event: events.Event) -> bool:
        """Whether the log holds this step; what is said anew each time it never does."""
        if isinstance(event, events.Controlled | events.Resumed):
            return False
        if isinstance(event, events.Progress | events.Noted):
            return event in self.log
        if isinstance(event, events.Baseline):
            return any((e.name, e.cls) == (event.name, event.cls) for e in self.of(events.Baseline))
        return self.past(type(event), getattr(event, "trial", None)) is not None

    def blob(self, name: str) -> str:
        if name not in self._blobs:
            self._blobs[name] = self._read_blob(name)
        return self._blobs[name]


class Owner:
    """The owner's word, as said in the log and from now on. `budget`: the spec's with what the owner changed;
    `control()` gives the words since the last call, as (kind, data)."""

    def __init__(self, spec: SessionSpec, journal: Journal, control: Control):
        self.journal, self._control, self._spec = journal, control, spec
        self.budget = spec.budget
        self.paused = False
        self.stop = Flag()
        self._beside = ThreadPoolExecutor(1, "session")
        for e in journal.of(events.Controlled):
            self._obey(e.action, e.data)

    @property
    def stopped(self) -> bool:
        return self.stop.is_set()

    def poll(self) -> Iterator[Emitted]:
        for kind, data in self._control():
            if kind not in WORDS:
                continue
            if kind == "budget":
                data = self._sane(data)
            texts = []
            if kind == "try":
                text = str(data.get("program", ""))
                data, texts = {**data, "program": events.blob_name(text)}, [text]
            self._obey(kind, data)
            yield from self.journal.emit(events.Controlled(kind, dict(data)), *texts)

    def _obey(self, action: str, data: dict[str, Any]) -> None:
        if action == "stop":
            self.stop.set()
        elif action in ("pause", "resume"):
            self.paused = action == "pause"
        elif action == "budget":
            self.budget = {**self.budget, **{k: v for k, v in data.items() if k in self.budget}}

    def _sane(self, data: dict[str, Any]) -> dict[str, Any]:
        """The fields of a budget that a spec would take; the others are dropped."""
        kept = {}
        for name, value in data.items():
            if name in self.budget:
                try:
                    replace(self._spec, **{name: value})
                    kept[name] = value
                except BadSpec:
                    continue
        return kept

    def call(self, work: Callable[[], Any]) -> Steps[Any]:
        """Run `work` beside the owner's word. Raises Stopped when stop was said, whatever the work answered."""
        if self.stopped:
            raise Stopped
        future = self._beside.submit(work)
        while not future.done():
            wait([future], timeout=POLL)
            yield from self.poll()
        if self.stopped:
            raise Stopped
        return future.result()

    def between(self) -> Iterator[Emitted]:
        """Between steps: hear the owner; while paused, wait. Raises Stopped."""
        yield from self.poll()
        while self.paused and not self.stopped:
            time.sleep(POLL)
            yield from self.poll()
        if self.stopped:
            raise Stopped

    def close(self, last: Callable[[], None] | None = None) -> None:
        """End what is under way; then `last`, in the thread that everything ran in. Returns when both are done."""
        self.stop.set()
        if last is not None:
            self._beside.submit(_quietly, last)
        self._beside.shutdown(wait=True)


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        logger.exception("the device did not close cleanly")
