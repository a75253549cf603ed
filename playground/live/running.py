"""One session in an engine: replay its log to the runner, append the events, mark the end.

There are three ways to leave a session; none loses or doubles an event:
  - the engine ends: `leave` makes the runner's control raise Leaving, the lease is released, another engine continues
  - kill -9: the lease expires and another engine continues from the log;
  - another engine took the session (this one was thought lost): the next append raises LeaseLost, and we stop.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from threading import Event as Flag
from typing import Any

from django.db import DatabaseError, InterfaceError

from engine.executors import Share
from engine.session import events
from playground import conf
from playground.live import log
from playground.live.connections import AWAY
from playground.live.keys import Postbox
from playground.live.mailbox import Control, Leaving, Mailbox
from playground.models import Blob, Session
from playground.sharing import again

logger = logging.getLogger(__name__)

# Engines lost in a row at the same step of a session before it is given up. A lost engine takes all its sessions with
# it, so those that make it a suspect do not count: five more must be lost while nothing new starts beside it.
MOST_LOSSES = log.SUSPECT + 5
# Seconds that a suspect has to get on before others start beside it again: what ends an engine does so sooner, and a
# session may wait for its agent for an hour.
ALONE = 60.0


class Running:
    """`run`: engine.session.runner.run, or a script of events from the tests; `device`: what `auto` means here;
    `began`: when this engine took it or its owner let it go on, by the monotonic clock; `settled`: it had a trial, so
    it holds the memory that it needs; `advanced`: its own work got on; `rests`: nothing of it runs until its owner or
    their agent says something; `waits`: for a visitor's key, and holds nothing meanwhile. `admit(self)` ends both, if
    the engine has room for the session."""

    def __init__(
        self, lease: log.Lease, run: Callable[..., Iterator[Any]], device: str, mailbox: Mailbox,
        admit: Callable[[Running], bool] = lambda running: True,
    ):  # fmt: skip
        self.lease, self.run, self.device, self.mailbox = lease, run, device, mailbox
        self.began, self.settled, self.advanced, self.rests = time.monotonic(), False, False, False
        self.waits = lease.own_key
        self._admit = admit
        self._postbox = Postbox(lease, lambda: admit(self)) if lease.own_key else None
        self._leave = Flag()
        self._lost = Flag()

    @property
    def idle(self) -> bool:
        """It waits for somebody outside, and needs no room meanwhile."""
        return self.waits or self.rests

    @property
    def isolated(self) -> bool:
        """Several engines were lost at the step that it is at, so for a while nothing new starts beside it."""
        if not self.lease.suspect or self.advanced or self.idle:
            return False
        return time.monotonic() - self.began < ALONE

    def _rest(self) -> None:
        self.rests = True

    def leave(self) -> None:
        """Release the session soon."""
        self._leave.set()

    def lose(self) -> None:
        """The lease is another engine's: write nothing more."""
        self._lost.set()

    def work(self) -> None:
        """Run the session from the end of its log to its end, or release it cleanly. Raises nothing."""
        lease = self.lease
        logger.info("%s session %s", "resuming" if lease.taken_over else "starting", lease.session_id)
        self.mailbox.open(lease.session_id)
        try:
            self._drive()
        except Leaving:
            logger.info("releasing session %s", lease.session_id)
        except log.LeaseLost:
            logger.warning("session %s is another engine's now", lease.session_id)
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.not_lost(lease)
        except AWAY:
            logger.exception("the database did not answer; releasing session %s", lease.session_id)
            time.sleep(1)
        except Exception as e:  # if it were released, the session would end the next engine as well
            logger.exception("session %s cannot be worked on", lease.session_id)
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.abandon(lease, f"This session cannot be read ({type(e).__name__}: {e})."[:500])
        finally:
            self.mailbox.close(lease.session_id)
            if self._postbox is not None:
                self._postbox.close()
            with contextlib.suppress(DatabaseError, InterfaceError):
                log.release(lease)  # does nothing if it ended or another engine has it

    def _drive(self) -> None:
        lease = self.lease
        session = Session.objects.get(id=lease.session_id)
        if session.losses >= MOST_LOSSES:
            reason = f"The engine was lost {session.losses} times in a row at the same step of this session."
            self._end(reason, "engine_lost")
            return
        try:
            log.check_version(session)
            history = log.history(session.id)
        except log.UnreadableLog as e:
            logger.error("session %s: %s", session.id, e)
            self._end(str(e), "unreadable_log")
            return
        patience = 60 * conf.get("UCUTLASS_AGENT_IDLE_MINUTES") if session.spec.get("strategy") == "agent" else None
        control = Control(
            session.id, self.mailbox, lambda: self._lost.is_set() or self._leave.is_set(), patience,
            rest=self._rest, admitted=lambda: not self.rests or self._admit(self),
        )  # fmt: skip
        ended = False
        stream = None
        own = {"postbox": self._postbox} if self._postbox is not None else {}
        try:
            stream = self.run(
                self._spec(session), device=None, history=history, read_blob=read_blob, control=control,
                began=log.began(session.id), share=self._share(session), **own,
            )  # fmt: skip
            for emitted in stream:
                if self._lost.is_set():
                    raise log.LeaseLost(lease.session_id)
                handled = control.handled(emitted.event)
                control.active()
                with again.attached(session, emitted.event):
                    log.append(lease, [(emitted.event, emitted.blobs)], t=emitted.t, handled=handled)
                self.settled = self.settled or isinstance(emitted.event, events.TrialProposed)
                self.advanced = self.advanced or emitted.event.KIND not in log.BESIDE
                ended = isinstance(emitted.event, events.SessionEnded)
        except (log.LeaseLost, *AWAY):
            raise
        except Exception as e:
            logger.exception("session %s broke the engine", lease.session_id)
            reason = f"The engine made a mistake and gave this session up ({type(e).__name__}: {e})."[:500]
            self._end(reason, "engine_error")
            return
        finally:
            if hasattr(stream, "close"):
                stream.close()
        if not ended:
            self._end("The engine stopped without giving a reason.", "engine_error")

    def _spec(self, session: Session) -> dict[str, Any]:
        return {**session.spec, "device": self.device if session.device == "auto" else session.device}

    @staticmethod
    def _share(session: Session) -> Share:
        account = {"room": f"room {session.origin}", "address": f"seat {session.seat_id}"}
        of = account if session.seat_id is not None else {"address": session.origin}
        return Share(**of, session=session.id, since=session.created.timestamp())

    def _end(self, reason: str, code: str) -> None:
        """End the session on behalf of the engine, with its reason. The results of its trials stay."""
        view = log.view(self.lease.session_id)
        seconds = 0.0 if view.started_t is None else max(0.0, time.time() - view.started_t)
        ended = events.SessionEnded("failed", reason, view.best, len(view.proposed), seconds, code)
        log.append(self.lease, [(ended, {})])


def read_blob(name: str) -> str:
    """The text of a blob. Raises KeyError if it is not stored."""
    blob = Blob.objects.filter(sha256=name).first()
    if blob is None:
        raise KeyError(name)
    return blob.text
