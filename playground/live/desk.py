"""Rows that an engine answers for a page beside its sessions: descriptions for a model, modules to be traced.

The web process writes a row; the engine's `Desk` takes it in a thread of its own, so it never waits behind sessions,
and writes the answer. A row is worked on once: if its engine is lost, the page says so and asks again. When the page
stops looking, the work is stopped. Rows live for EXPIRES at most.
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

from playground.access.answers import Refused
from playground.live.connections import close_if_broken
from playground.models import Description

logger = logging.getLogger(__name__)

EXPIRES = timedelta(minutes=15)
GONE = timedelta(seconds=15)  # without a look of the page; a browser slows the timers of a hidden tab to one a second
LOOKED = timedelta(seconds=3)  # a look is written at most this often
MOST, MOST_OF_ADDRESS = 40, 2  # rows of a kind without an answer, of all addresses and of one
AT_ONCE = 2  # that an engine works on at a time
CLEANING = 60.0  # seconds between two deletions of old rows


# ---- the web process ----


def ask(kind: str, origin: str, text: str, names: str, *, digest: str = "") -> Description:
    """A new row of an address (limits.origin). `names`: what it is, in the plural. Raises Refused."""
    now = timezone.now()
    with transaction.atomic():
        forget()
        waiting = Description.objects.filter(kind=kind, answered=None, seen__gt=now - GONE)
        if waiting.filter(origin=origin).count() >= MOST_OF_ADDRESS:
            raise Refused(429, f"{MOST_OF_ADDRESS} {names} from this address wait already.", "Cancel one, or wait.")
        if waiting.count() >= MOST:
            raise Refused(503, f"Too many {names} wait for an engine.", "Try again in a minute.")
        return Description.objects.create(kind=kind, origin=origin, text=text, digest=digest)


def looked(row: Description) -> None:
    """Note that the page still wants the answer."""
    now = timezone.now()
    if row.seen < now - LOOKED:
        Description.objects.filter(id=row.id).update(seen=now)


def cancel(row: Description) -> None:
    """Delete the row; an engine that works on it stops."""
    row.delete()


def forget() -> None:
    """Delete the rows that are older than EXPIRES."""
    Description.objects.filter(created__lt=timezone.now() - EXPIRES).delete()


# ---- the engine ----


class Desk:
    """Answers the rows of one kind, `at_once` of them at a time, and looks for new ones `every` so many seconds.
    `write(text, address, cancelled)` returns the answer as a dict, with `reason` if there is none; `cancelled` does not
    block."""

    def __init__(
        self, engine_id: str, write: Callable[[str, str, Callable[[], bool]], dict[str, Any]], kind: str = "words",
        at_once: int = AT_ONCE, every: float = 0.5,
    ):  # fmt: skip
        self.engine_id, self.write = engine_id, write
        self.kind, self.at_once, self.every = kind, at_once, every
        self._closing, self._over = threading.Event(), threading.Event()
        self._over.set()
        self._running: dict[str, threading.Event] = {}  # description -> its call is to be stopped
        self._threads: dict[str, threading.Thread] = {}
        self._cleaned = 0.0

    def run(self) -> None:
        """Take and watch rows until `close`. For a thread of its own."""
        self._over.clear()
        try:
            while not self._closing.is_set():
                try:
                    close_if_broken()
                    self._round()
                except (DatabaseError, InterfaceError):
                    logger.exception("the database did not answer; looking for rows again")
                self._closing.wait(self.every)
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
            wanted = set(self._wanted(now).filter(id__in=list(self._running)).values_list("id", flat=True))
            for name, stop in list(self._running.items()):
                if name not in wanted:
                    stop.set()
        if len(self._threads) < self.at_once and (row := self._claim(now)) is not None:
            self._begin(row)
        if time.monotonic() - self._cleaned > CLEANING:
            self._cleaned = time.monotonic()
            if Description.objects.filter(created__lt=now - EXPIRES).exists():
                forget()

    def _claim(self, now: datetime) -> Description | None:
        """The oldest row that waits and whose page still looks, now of this engine."""
        row = self._wanted(now).filter(engine_id="").order_by("created").first()
        if row is None or not Description.objects.filter(id=row.id, engine_id="").update(engine_id=self.engine_id):
            return None
        return row

    def _begin(self, row: Description) -> None:
        stop = self._running[row.id] = threading.Event()
        thread = threading.Thread(target=self._answer, args=(row, stop), name=f"{self.kind} {row.id[:6]}", daemon=True)
        thread.start()
        self._threads[row.id] = thread

    def _answer(self, row: Description, stop: threading.Event) -> None:
        try:
            try:
                answer = self.write(row.text, row.origin, stop.is_set)
            except Exception as e:
                logger.exception("a row of the desk broke the engine")
                answer = {"reason": f"The engine made a mistake ({type(e).__name__})."}
            if self._closing.is_set() and answer.get("reason"):
                answer = {"reason": "The engine was stopped meanwhile."}
            mine = Description.objects.filter(id=row.id, engine_id=self.engine_id)  # none if it was cancelled
            mine.update(answer=answer, answered=timezone.now())
        except (DatabaseError, InterfaceError):
            logger.exception("an answer of the desk could not be stored")
        finally:
            self._running.pop(row.id, None)
            connection.close()

    def _wanted(self, now: datetime):
        """The rows without an answer whose page looked lately."""
        return Description.objects.filter(kind=self.kind, answered=None, seen__gt=now - GONE)
