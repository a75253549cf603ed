"""Visitors' keys on their way from the web process to the engine, sealed (engine.llm.keys).

`give` runs in the web process, where the key exists for one call. `Postbox` is in the engine and gets sealed bytes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError
from django.views.decorators.debug import sensitive_variables

from engine.llm.keys import KeyRequest, seal
from engine.session import events
from playground.access.answers import Refused
from playground.live.log import Lease
from playground.models import SealedKey, Session, SessionEvent

EVERY = 0.5  # seconds between two looks for a key
ABOUT = (events.KeyWanted.KIND, events.KeyReceived.KIND, events.Resumed.KIND, events.SessionEnded.KIND)


def wanted(session: Session) -> events.KeyWanted:
    """The key that an engine waits for now. Raises Refused(409)."""
    last = SessionEvent.objects.filter(session=session, kind__in=ABOUT).order_by("seq").last()
    waits = last is not None and last.kind == events.KeyWanted.KIND and session.state == Session.RUNNING
    if not waits or last.data["claim"] != session.claims:
        if session.state == Session.ENDED:
            raise Refused(409, "This session has ended.", "Fork it to start it again.")
        if not session.own_key:
            error = "This session needs no key: it asks no endpoint of yours."
            raise Refused(409, error, "Start a session with an endpoint and a model of yours.")
        if last is not None and last.kind == events.KeyReceived.KIND:
            raise Refused(409, "The engine has the key of this session already.", "Watch the session.")
        raise Refused(409, "No engine waits for the key yet.", "Wait until the page asks for it.", wait=2.0)
    request = events.decode(last.kind, last.data)
    assert isinstance(request, events.KeyWanted)
    return request


@sensitive_variables()
def give(session: Session, key: str) -> events.KeyWanted:
    """Seal the key for the engine that waits for it and store only that. Returns what was asked for. Raises Refused."""
    request = wanted(session)
    sealed = seal(key, KeyRequest(session.id, request.claim, request.endpoint), request.public_key)
    row = {"claim": request.claim, "sealed": sealed}
    SealedKey.objects.update_or_create(session_id=session.id, defaults=row)
    return request


class Postbox:
    """Sealed keys for one claim of a session. `admitted()`: the engine has room to go on with the session."""

    def __init__(self, lease: Lease, admitted: Callable[[], bool]):
        self.session, self.claim, self._admitted = lease.session_id, lease.claim, admitted
        self.is_empty = True
        self._looked = 0.0

    def take(self) -> bytes | None:
        """The sealed key, whose row is deleted; None while there is none or no room. At most one read in EVERY s. A
        database that does not answer is asked again later."""
        if time.monotonic() - self._looked < EVERY:
            return None
        self._looked = time.monotonic()
        try:
            SealedKey.objects.filter(session_id=self.session, claim__lt=self.claim).delete()  # for a lost engine
            row = SealedKey.objects.filter(session_id=self.session, claim=self.claim).first()
            self.is_empty = row is None
            if row is None or not self._admitted():
                return None
            row.delete()
            return bytes(row.sealed)
        except (DatabaseError, InterfaceError):
            return None

    def close(self) -> None:
        """Delete a key that nobody took."""
        with contextlib.suppress(DatabaseError, InterfaceError):
            SealedKey.objects.filter(session_id=self.session, claim__lte=self.claim).delete()
