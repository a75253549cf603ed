"""A session with a visitor's own endpoint: it waits for the visitor's key, then asks the visitor's model with it.

The wait is the session's first step: nothing of the module has run, and no place on the machine is held. The key pair
and the key exist in this process alone, so an engine that continues a session of another one asks again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import urlsplit

from engine.devices import SessionRefused
from engine.llm.client import Patience
from engine.llm.endpoint import Endpoint, Forbidden, Resolve, visitors
from engine.llm.handler import Models
from engine.llm.keys import KeyPair, KeyRequest, Unopened
from engine.llm.settings import Settings
from engine.session import events
from engine.session.journal import Journal
from engine.session.script.steps import Steps, Wait, Work
from engine.session.script.turns import Turn
from engine.strategies.api import Ask, Reply

PATIENCE = 15 * 60.0  # seconds
LATE = b""  # in place of a sealed key: none came in time
AGAIN = "Fork it, start it again and type the key on its page."


class Postbox(Protocol):
    """Where sealed keys for one claim of a session arrive."""

    session: str
    claim: int

    @property
    def is_empty(self) -> bool:
        """Whether no key has arrived. Quick: it is called often."""

    def take(self) -> bytes | None:
        """The sealed key, deleted where it was stored; None while there is none or the engine has no room."""


class VisitorsModels(Models):
    """`base_url`, `model`: as the session's spec names them. `patience_for_key`: seconds; `resolve`: as in
    engine.llm.endpoint.visitors."""

    def __init__(
        self, settings: Settings, base_url: str, model: str, postbox: Postbox, *, patience_for_key: float = PATIENCE,
        resolve: Resolve | None = None, patience: Patience | None = None, now: Callable[[], float] = time.time,
    ):  # fmt: skip
        super().__init__(settings.for_visitor(model), Endpoint(base_url, whose="visitor"), patience)
        self.postbox, self.patience_for_key, self.resolve, self.now = postbox, patience_for_key, resolve, now

    def before(self, journal: Journal) -> Steps[None]:
        """Ask for the key and wait for it. Raises SessionRefused: `endpoint` for an endpoint that may not be called,
        `no_key` if none comes in time."""
        base_url, host = self.endpoint.base_url, urlsplit(self.endpoint.base_url).netloc
        yield Work(lambda: self._visitors(""))  # nobody types a key for an endpoint that will not be called
        request, pair = KeyRequest(self.postbox.session, self.postbox.claim, base_url), KeyPair()
        until, again = self.now() + self.patience_for_key, bool(journal.of(events.KeyWanted))
        clock = datetime.fromtimestamp(until, UTC).strftime("%H:%M UTC")
        text = f"Waiting for the key of {host}: its owner types it on the page of the control link, until {clock}"
        if again:
            text += "; another engine continues the session and does not have the key, so it must be typed again"
        wanted = events.KeyWanted(pair.public_key, request.claim, base_url, self.settings.model, until, again, text)
        yield from journal.emit(wanted)
        yield from journal.emit(events.Progress(text, "wait"))
        key, arrived = "", []

        def look() -> bytes | None:  # asked again after its first answer
            if not arrived and (sealed := self._sealed(until)) is not None:
                arrived.append(sealed)
            return arrived[0] if arrived else None

        while not key:
            sealed = yield Wait(look)
            arrived.clear()
            if sealed == LATE:
                minutes = max(1, round(self.patience_for_key / 60))
                raise SessionRefused("no_key", f"No key for {host} came within {minutes} min, and the session "
                                     f"needs one to ask its model. {AGAIN}")  # fmt: skip
            try:
                key = pair.open(sealed, request)
            except Unopened as e:
                yield from journal.emit(events.Progress(f"A key came that does not fit: {e} {text}", "wait"))
        self.endpoint = yield Work(lambda: self._visitors(key))
        yield from journal.emit(events.KeyReceived(request.claim))
        yield from journal.emit(events.Progress(f"The key of {host} came", "place"))

    def _sealed(self, until: float) -> bytes | None:
        sealed = self.postbox.take()
        if sealed is None and self.postbox.is_empty and self.now() > until:
            return LATE
        return sealed

    def _visitors(self, key: str) -> Endpoint:
        try:
            return visitors(self.endpoint.base_url, key, self.settings, self.resolve)
        except Forbidden as e:
            raise SessionRefused("endpoint", str(e)) from None

    def __call__(self, verb: Ask, turn: Turn) -> Reply:
        try:
            reply = super().__call__(verb, turn)
        except Exception as e:  # whatever its words are, they become an event
            reason = self.endpoint.redacted(f"The turn broke off ({type(e).__name__}: {e}).")
            return Reply(refusal="broken", reason=reason[:500])
        if reply.refusal == "key_refused":
            reply = dataclasses.replace(reply, reason=f"{reply.reason} {AGAIN}")
        return reply
