"""An engine process as the database sees it: a heartbeat, a lease, and one session at a time written to its log.

`Adapter` does not depend on the engine's internals. It gets `run` (engine.session.runner.run, from the management
command; a script of events, from the tests) and drives it: claim a session, replay the log to it, append its events,
mark the end.

There are three ways to leave a session; none loses or doubles an event:
  - SIGTERM or Ctrl-C: the exception Leaving unwinds `run`, the lease is released, and another engine continues
  - kill -9: the lease expires and another engine continues from the log;
  - another engine took the session (this one was thought lost): the next append raises LeaseLost, and we stop.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils import timezone

from engine.session import events
from playground import engines
from playground.live import log
from playground.live.connections import AWAY, close_if_broken
from playground.models import Blob, Command, Engine, Session, new_id

logger = logging.getLogger(__name__)

IDLE = 0.25  # seconds between checks for work: the first event comes within this time after pressing Run
MOST_LOSSES = 5  # engines lost in a row on one session, without a finished trial, before it is given up


class Leaving(BaseException):
    """This process must end, or another engine has the session. Not an Exception, so that nothing catches it."""


class Control:
    """The owner's commands to a running session, each delivered once, and again after a crash without a trace of it.

    A command is marked handled in the same transaction as the event that records it, so that no crash can lose it.
    """

    EVERY = 0.2  # seconds between reads of the database, however often the engine asks

    def __init__(self, lease: log.Lease, leaving: Callable[[], bool]):
        self.lease, self.leaving = lease, leaving
        self._unanswered: list[tuple[int, str]] = []  # (id, kind) of the words that no event has said yet
        self._delivered: set[int] = set()
        self._next = 0.0

    def __call__(self) -> list[tuple[str, dict[str, Any]]]:
        """[(kind, data)] since the last call. Raises Leaving when the engine must stop."""
        if self.leaving():
            raise Leaving
        if time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + self.EVERY
        waiting = Command.objects.filter(session_id=self.lease.session_id, handled=None).exclude(id__in=self._delivered)
        words = [(c.id, c.kind, c.data) for c in waiting]
        self._unanswered += [(i, kind) for i, kind, _ in words]
        self._delivered |= {i for i, _, _ in words}
        return [(kind, data) for _, kind, data in words]

    def handled(self, event: events.Event) -> list[int]:
        """The ids of the words that this event says were heard: one, with those before it that the engine passed over.
        The other words of the same look stay open until their own events."""
        kinds = [kind for _, kind in self._unanswered]
        if not isinstance(event, events.Controlled) or event.action not in kinds:
            return []
        upto = kinds.index(event.action) + 1
        ids, self._unanswered = [i for i, _ in self._unanswered[:upto]], self._unanswered[upto:]
        return ids


class Adapter:
    """One engine process. `run(spec, device=, history=, read_blob=, control=, began=)` yields {event, blobs, t}.

    `about`: {device: {...}, sandbox, toolchain} for the page; `serves`: cuda | modelled:NAME. `warm` is called while no
    session runs, to prepare for the next one.
    """

    def __init__(self, run: Callable[..., Iterator[Any]], *, serves: str, about: dict[str, Any], warm=lambda: None):
        self.run, self.serves, self.about, self.warm = run, serves, about, warm
        self.engine_id = new_id()
        self.lease: log.Lease | None = None
        self._lost = threading.Event()
        self._leaving = threading.Event()
        self._done = threading.Event()
        self._stir = threading.Event()  # wakes the heartbeat: a session was taken, or the process ends
        self._working = False

    # -- the process ---------------------------------------------------------------------------------------------

    def serve(self, *, once: bool = False) -> None:
        """Work until SIGTERM or SIGINT; `once`: until no session waits. Blocks the main thread."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)
        Engine.objects.filter(seen__lt=timezone.now() - timedelta(days=1)).delete()
        Engine.objects.create(id=self.engine_id, serves=self.serves, **self.about)
        beat = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        beat.start()
        try:
            self.warm()
            while not self._leaving.is_set():
                try:
                    close_if_broken()
                    lease = log.claim(self.engine_id, self.serves)
                except (DatabaseError, InterfaceError):
                    logger.exception("the database did not answer; trying again")
                    self._leaving.wait(1)
                    continue
                if lease is not None:
                    self.work(lease)
                    self.warm()
                elif once:
                    return
                else:
                    self._leaving.wait(IDLE)
        finally:
            self._done.set()
            self._stir.set()
            beat.join(5)
            with contextlib.suppress(DatabaseError, InterfaceError):
                Engine.objects.filter(id=self.engine_id).delete()

    def _on_signal(self, number: int, frame: Any) -> None:
        again = self._leaving.is_set()
        self._leaving.set()
        if self._working and not again:
            raise Leaving

    def _beat(self) -> None:
        """After each pause of playground.engines, write the heartbeat and renew the lease."""
        while True:
            self._stir.wait(engines.pause(busy=self.lease is not None))
            self._stir.clear()
            if self._done.is_set():
                break
            lease = self.lease
            try:
                close_if_broken()
                with transaction.atomic():  # one lock for both writes
                    Engine.objects.filter(id=self.engine_id).update(
                        seen=timezone.now(), session_id=lease.session_id if lease else None
                    )
                    if lease is not None:
                        log.renew(lease)
            except log.LeaseLost:
                if self.lease is lease:  # otherwise it ended meanwhile, which is no loss
                    self._lost.set()
            except (DatabaseError, InterfaceError):
                logger.exception("a heartbeat failed")
        connection.close()

    # -- one session ---------------------------------------------------------------------------------------------

    def work(self, lease: log.Lease) -> None:
        """Run the session from the end of its log to its end, or release it cleanly."""
        self._lost.clear()
        self.lease = lease
        self._stir.set()
        logger.info("%s session %s", "resuming" if lease.taken_over else "starting", lease.session_id)
        try:
            self._working = True
            self._drive(lease)
        except Leaving:
            logger.info("releasing session %s", lease.session_id)
        except log.LeaseLost:
            logger.warning("session %s is another engine's now", lease.session_id)
        except AWAY:
            logger.exception("the database did not answer; releasing session %s", lease.session_id)
            time.sleep(1)
        except Exception as e:  # if it were released, the session would end the next engine as well
            logger.exception("session %s cannot be worked on", lease.session_id)
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.abandon(lease, f"This session cannot be read ({type(e).__name__}: {e})."[:500])
        finally:
            self._working = False
            self.lease = None
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.release(lease)  # does nothing if it ended or another engine has it
                Engine.objects.filter(id=self.engine_id).update(session_id=None)

    def _drive(self, lease: log.Lease) -> None:
        if self._leaving.is_set():
            raise Leaving  # the signal came during the claim
        session = Session.objects.get(id=lease.session_id)
        if session.losses >= MOST_LOSSES:
            reason = f"The engine was lost {session.losses} times in a row while it worked on this session."
            self._end(lease, reason, "engine_lost")
            return
        try:
            log.check_version(session)
            history = log.history(session.id)
        except log.UnreadableLog as e:
            logger.error("session %s: %s", session.id, e)
            self._end(lease, str(e), "unreadable_log")
            return
        Engine.objects.filter(id=self.engine_id).update(session_id=session.id, seen=timezone.now())
        control = Control(lease, lambda: self._lost.is_set() or self._leaving.is_set())
        ended = False
        stream = None
        try:
            stream = self.run(
                self._spec(session), device=None, history=history, read_blob=read_blob, control=control,
                began=log.began(session.id),
            )  # fmt: skip
            for emitted in stream:
                if self._lost.is_set():
                    raise log.LeaseLost(lease.session_id)
                handled = control.handled(emitted.event)
                log.append(lease, [(emitted.event, emitted.blobs)], t=emitted.t, handled=handled)
                ended = isinstance(emitted.event, events.SessionEnded)
        except (log.LeaseLost, *AWAY):
            raise
        except Exception as e:
            logger.exception("session %s broke the engine", lease.session_id)
            reason = f"The engine made a mistake and gave this session up ({type(e).__name__}: {e})."[:500]
            self._end(lease, reason, "engine_error")
            return
        finally:
            if hasattr(stream, "close"):
                stream.close()
        if not ended:
            self._end(lease, "The engine stopped without giving a reason.", "engine_error")

    def _spec(self, session: Session) -> Any:
        device = self.serves if session.device == "auto" else session.device
        return {**session.spec, "device": device}

    @staticmethod
    def _end(lease: log.Lease, reason: str, code: str) -> None:
        """End the session on behalf of the engine, with its reason. The results of its trials stay."""
        view = log.view(lease.session_id)
        seconds = 0.0 if view.started_t is None else max(0.0, time.time() - view.started_t)
        ended = events.SessionEnded("failed", reason, view.best, len(view.proposed), seconds, code)
        log.append(lease, [(ended, {})])


def read_blob(name: str) -> str:
    """The text of a blob. Raises KeyError if it is not stored."""
    blob = Blob.objects.filter(sha256=name).first()
    if blob is None:
        raise KeyError(name)
    return blob.text
