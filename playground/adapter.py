"""An engine process as the database sees it: a heartbeat, a lease, and one session at a time written to its log.

`Adapter` knows nothing of the engine's inside. It is given `run` (engine.session.runner.run, by the management
command; a script of events, by the tests) and drives it: claim, replay the log to it, append what it yields, mark the
end.

Three ways to leave a session, none of which loses or doubles an event:
  - SIGTERM or Ctrl-C: the exception Leaving unwinds `run` wherever it is, the lease is given back, and another
    engine goes on from the log at once;
  - kill -9: the lease runs out and another engine goes on from the log;
  - another engine took the session (we were thought lost): the next append raises LeaseLost, and we let go.
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

IDLE = 0.25  # seconds between looks for work: the first event comes within this of pressing Run
MOST_LOSSES = 5  # engines lost in a row on one session without a trial ended, then it is given up


class Leaving(BaseException):
    """This process is asked to end, or the session is another's now. Not an Exception: nothing may swallow it."""


class Control:
    """The owner's words to a running session, each delivered once and again after a crash if it left no trace.

    A word is marked handled in the same transaction as the event that says it was heard, so that no crash can lose it.
    """

    EVERY = 0.2  # seconds between looks at the database, however often the engine asks

    def __init__(self, lease: log.Lease, leaving: Callable[[], bool]):
        self.lease, self.leaving = lease, leaving
        self._taken: list[tuple[int, str]] = []  # (id, kind) of the words that no event has said yet
        self._delivered: set[int] = set()
        self._next = 0.0

    def __call__(self) -> list[tuple[str, dict[str, Any]]]:
        """[(kind, data)] that came since the last call. Raises Leaving when the engine must let go."""
        if self.leaving():
            raise Leaving
        if time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + self.EVERY
        waiting = Command.objects.filter(session_id=self.lease.session_id, handled=None).exclude(id__in=self._delivered)
        words = [(c.id, c.kind, c.data) for c in waiting]
        self._taken += [(i, kind) for i, kind, _ in words]
        self._delivered |= {i for i, _, _ in words}
        return [(kind, data) for _, kind, data in words]

    def handled(self, event: events.Event) -> list[int]:
        """The ids of the words that this event says were heard: one, with those before it that the engine passed over.
        The other words of the same look stay open until their own events."""
        kinds = [kind for _, kind in self._taken]
        if not isinstance(event, events.Controlled) or event.action not in kinds:
            return []
        upto = kinds.index(event.action) + 1
        ids, self._taken = [i for i, _ in self._taken[:upto]], self._taken[upto:]
        return ids


class Adapter:
    """One engine process. `run(spec, device=, history=, read_blob=, control=, began=)` yields {event, blobs, t}.

    `about`: {device: {...}, sandbox, toolchain} for the page; `serves`: cuda | modelled:NAME. `warm` is called while
    no session runs, to have ready what the next one would wait for.
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
        """Work until SIGTERM or SIGINT; `once`: until there is nothing to do. Blocks the main thread."""
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
        """At each pause of playground.engines: say that we live, and renew the lease that we hold."""
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
                if self.lease is lease:  # else it ended meanwhile, which is not a loss
                    self._lost.set()
            except (DatabaseError, InterfaceError):
                logger.exception("no heartbeat this time")
        connection.close()

    # -- one session ---------------------------------------------------------------------------------------------

    def work(self, lease: log.Lease) -> None:
        """Take the session from where its log stands to its end, or let go of it cleanly."""
        self._lost.clear()
        self.lease = lease
        self._stir.set()
        logger.info("%s session %s", "resuming" if lease.taken_over else "starting", lease.session_id)
        try:
            self._working = True
            self._drive(lease)
        except Leaving:
            logger.info("letting go of session %s", lease.session_id)
        except log.LeaseLost:
            logger.warning("session %s is another engine's now", lease.session_id)
        except AWAY:
            logger.exception("the database did not answer; session %s goes back", lease.session_id)
            time.sleep(1)
        except Exception as e:  # given back, the session would end the next engine as well, and so on
            logger.exception("session %s cannot be worked on", lease.session_id)
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.abandon(lease, f"This session cannot be read ({type(e).__name__}: {e})."[:500])
        finally:
            self._working = False
            self.lease = None
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.release(lease)  # touches nothing when it ended or is another's
                Engine.objects.filter(id=self.engine_id).update(session_id=None)

    def _drive(self, lease: log.Lease) -> None:
        if self._leaving.is_set():
            raise Leaving  # the signal came while we claimed
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
        """End the session for the engine, in its words; what the trials reached stays."""
        view = log.view(lease.session_id)
        seconds = 0.0 if view.started_t is None else max(0.0, time.time() - view.started_t)
        ended = events.SessionEnded("failed", reason, view.best, len(view.proposed), seconds, code)
        log.append(lease, [(ended, {})])


def read_blob(name: str) -> str:
    """The text of a blob. Raises KeyError when it is not kept."""
    found = Blob.objects.filter(sha256=name).first()
    if found is None:
        raise KeyError(name)
    return found.text
