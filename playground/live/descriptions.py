"""Descriptions that a model turns into modules: a visitor asks through a row, and an engine with a model answers in it.

The web process holds no key and asks no model. It writes the row (`ask`), reads it for the visitor's page (`look`) and
deletes it (`cancel`). An engine takes the row (`Desk`) and writes the answer. A description is asked once: if its
engine is lost, the visitor is told and asks again. When the page stops looking, the call is stopped. Rows live for
EXPIRES at most.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils import timezone

from playground import engines
from playground.access.answers import Refused
from playground.live.connections import close_if_broken
from playground.models import Description

logger = logging.getLogger(__name__)

EXPIRES = timedelta(minutes=15)
GONE = timedelta(seconds=15)  # without a look of the page; a browser slows the timers of a hidden tab to one a second
LOOKED = timedelta(seconds=3)  # a look is written at most this often
MOST, MOST_OF_ADDRESS = 40, 2  # descriptions without an answer, of all addresses and of one
AT_ONCE = 2  # that an engine has written at a time
EVERY = 0.5  # seconds between two looks of an engine for work
CLEANING = 60.0  # seconds between two deletions of old rows
NO_ENGINE = "No engine is running, so no model can be asked."
START = "Start one with: manage.py engine"
AGAIN = "Press the button again to ask again."


# ---- the web process ----


def model() -> dict[str, str]:
    """{model, host} of the model that running engines ask for modules; else {missing, fix}."""
    known = [engine.device.get("words") or {} for engine in engines.alive()]
    ready = next((m for m in known if m.get("model")), None)
    if ready is not None:
        return ready
    missing = next((m["missing"] for m in known if m.get("missing")), "")
    return {"missing": missing or NO_ENGINE, "fix": "The rules still read your words." if missing else START}


def ask(origin: str, text: str) -> Description:
    """A new description of an address (limits.origin). Raises Refused."""
    now = timezone.now()
    with transaction.atomic():
        Description.objects.filter(created__lt=now - EXPIRES).delete()
        waiting = Description.objects.filter(answered=None, seen__gt=now - GONE)
        if waiting.filter(origin=origin).count() >= MOST_OF_ADDRESS:
            raise Refused(
                429, f"{MOST_OF_ADDRESS} descriptions from this address wait already.", "Cancel one, or wait."
            )
        if waiting.count() >= MOST:
            raise Refused(503, "Too many descriptions wait for a model.", "Try again in a minute.")
        return Description.objects.create(origin=origin, text=text)


def look(row: Description) -> dict[str, Any]:
    """{state, ...} for the page: waiting, writing, done with {module, sentence, assumed, model}, or failed with {error,
    fix}. Notes that the page looked."""
    if row.answered is not None:
        answer = row.answer
        if answer.get("module"):
            return {"state": "done", **{k: answer[k] for k in ("module", "sentence", "assumed", "model")}}
        return {"state": "failed", "model": answer.get("model", ""), "error": answer["reason"], "fix": AGAIN}
    now = timezone.now()
    if row.seen < now - LOOKED:
        Description.objects.filter(id=row.id).update(seen=now)
    alive = engines.alive()
    if row.engine_id and row.engine_id not in {engine.id for engine in alive}:
        return {"state": "failed", "error": "The engine was lost while the model wrote.", "fix": AGAIN}
    if not row.engine_id and not any((e.device.get("words") or {}).get("model") for e in alive):
        return {"state": "failed", "error": "No engine with a model is running any more.", "fix": AGAIN}
    return {"state": "writing" if row.engine_id else "waiting"}


def cancel(row: Description) -> None:
    """Delete the row; an engine that works on it stops the model's call."""
    row.delete()


def forget() -> None:
    """Delete the rows that are older than EXPIRES."""
    Description.objects.filter(created__lt=timezone.now() - EXPIRES).delete()


# ---- the engine ----


class Desk:
    """Answers descriptions in threads of its own. `write(text, address, cancelled)` returns the answer as a dict with
    `module` or `reason`; `cancelled` does not block."""

    def __init__(self, engine_id: str, write: Callable[[str, str, Callable[[], bool]], dict[str, Any]]):
        self.engine_id, self.write = engine_id, write
        self._closing, self._over = threading.Event(), threading.Event()
        self._over.set()
        self._running: dict[str, threading.Event] = {}  # description -> its call is to be stopped
        self._threads: dict[str, threading.Thread] = {}
        self._cleaned = 0.0

    def run(self) -> None:
        """Take and watch descriptions until `close`. For a thread of its own."""
        self._over.clear()
        try:
            while not self._closing.is_set():
                try:
                    close_if_broken()
                    self._round()
                except (DatabaseError, InterfaceError):
                    logger.exception("the database did not answer; looking for descriptions again")
                self._closing.wait(EVERY)
        finally:
            self._over.set()
            connection.close()

    def close(self, seconds: float = 2.0) -> None:
        """Stop every call. What is not answered gets an answer that says so."""
        until = time.monotonic() + seconds
        self._closing.set()
        self._over.wait(seconds)  # it may be about to begin one more
        for stop in list(self._running.values()):
            stop.set()
        for thread in list(self._threads.values()):
            thread.join(max(0.0, until - time.monotonic()))

    def _round(self) -> None:
        now = timezone.now()
        self._threads = {name: thread for name, thread in self._threads.items() if thread.is_alive()}
        if self._running:
            wanted = set(_wanted(now).filter(id__in=list(self._running)).values_list("id", flat=True))
            for name, stop in list(self._running.items()):
                if name not in wanted:
                    stop.set()
        if len(self._threads) < AT_ONCE and (row := self._claim(now)) is not None:
            self._begin(row)
        if time.monotonic() - self._cleaned > CLEANING:
            self._cleaned = time.monotonic()
            if Description.objects.filter(created__lt=now - EXPIRES).exists():
                forget()

    def _claim(self, now: datetime) -> Description | None:
        """The oldest description that waits and whose page still looks, now of this engine."""
        row = _wanted(now).filter(engine_id="").order_by("created").first()
        if row is None or not Description.objects.filter(id=row.id, engine_id="").update(engine_id=self.engine_id):
            return None
        return row

    def _begin(self, row: Description) -> None:
        stop = self._running[row.id] = threading.Event()
        thread = threading.Thread(target=self._answer, args=(row, stop), name=f"words {row.id[:6]}", daemon=True)
        thread.start()
        self._threads[row.id] = thread

    def _answer(self, row: Description, stop: threading.Event) -> None:
        try:
            try:
                answer = self.write(row.text, row.origin, stop.is_set)
            except Exception as e:
                logger.exception("a description broke the engine")
                answer = {"reason": f"The engine made a mistake ({type(e).__name__})."}
            if self._closing.is_set() and not answer.get("module"):
                answer = {"reason": "The engine was stopped while the model wrote."}
            mine = Description.objects.filter(id=row.id, engine_id=self.engine_id)  # none if it was cancelled
            mine.update(answer=answer, answered=timezone.now())
        except (DatabaseError, InterfaceError):
            logger.exception("the answer to a description could not be stored")
        finally:
            self._running.pop(row.id, None)
            connection.close()


def _wanted(now: datetime):
    """The descriptions without an answer whose page looked lately."""
    return Description.objects.filter(answered=None, seen__gt=now - GONE)
