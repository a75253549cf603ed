"""The running engines, and the page's message about the engine that a session waits for."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

from django.utils import timezone

from playground import conf
from playground.live import log, turns
from playground.models import Engine, Session

CANNOT = 2  # exit status of an engine that cannot run here, so that restarting it does not help
BEATS, IDLE_BEATS = 5, 3  # heartbeats per lease, of an engine with sessions and of one without
MISSED = 2.5  # heartbeats


def pause(*, busy: bool) -> float:
    """Seconds between an engine's heartbeats. Each is a write, so an idle engine sends fewer."""
    return conf.get("UCUTLASS_LEASE_SECONDS") / (BEATS if busy else IDLE_BEATS)


def alive() -> list[Engine]:
    """The engines that were seen within the time of a lease. After a longer silence, an engine loses its
    sessions too."""
    lease = timedelta(seconds=conf.get("UCUTLASS_LEASE_SECONDS"))
    return list(Engine.objects.filter(seen__gt=timezone.now() - lease).order_by("started"))


def fell_silent(engine: Engine | None) -> bool:
    """Return True if the engine of a session is gone or missed two heartbeats, well before its lease ends."""
    return engine is None or engine.seen < timezone.now() - timedelta(seconds=MISSED * pause(busy=True))


def describe(engine: Engine) -> dict[str, Any]:
    """An engine for the page: its device, its sandbox, how many sessions it advances. Their names stay private."""
    return {
        "id": engine.id,
        "device": engine.device,
        "serves": engine.serves,
        "sandbox": engine.sandbox,
        "toolchain": engine.toolchain,
        "busy": engine.sessions > 0,
        "sessions": engine.sessions,
        "started": engine.started.timestamp(),
    }


class Situation:
    """The current engines and queue, read once for all requested sessions."""

    def __init__(self) -> None:
        self._order: dict[str, list[str]] = {}

    @cached_property
    def alive(self) -> list[Engine]:
        return alive()

    def place(self, session: Session, serves: str) -> int:
        """The session's position, from 1, among those that an engine which serves `serves` takes."""
        if serves not in self._order:
            self._order[serves] = [s.id for s in turns.in_turn(log.waiting(serves))]
        order = self._order[serves]
        return order.index(session.id) + 1 if session.id in order else 1  # an engine just took it


def state_message(session: Session, now: Situation | None = None) -> dict[str, Any]:
    """The page's message while a session waits: {state, queue, engine, text}. `text` is a whole sentence."""
    now = now or Situation()
    if session.state != Session.QUEUED:
        mine = Engine.objects.filter(id=session.engine_id).first() if session.engine_id else None
        message: dict[str, Any] = {"state": session.state, "queue": 0, "engine": describe(mine) if mine else None}
        message["text"] = ""
        if session.state == Session.RUNNING and not session.recorded and fell_silent(mine):
            others = [
                e for e in now.alive if e.id != session.engine_id and (session.device != "cuda" or e.serves == "cuda")
            ]
            then = "Another continues it in a few seconds." if others else "It continues when an engine is started."
            message["text"] = f"The engine of this session was lost. {then} All results are kept."
        return message
    able = [e for e in now.alive if session.device != "cuda" or e.serves == "cuda"]
    # The engine that reaches the session first is the one that takes the fewest of the others.
    only_gpu = session.device == "cuda" or (able and all(e.serves == "cuda" for e in able))
    position = now.place(session, "cuda" if only_gpu else "")
    if able:
        text = "Next in the queue." if position == 1 else _behind(position, able)
    elif session.device == "cuda" and now.alive:
        text = "No engine with a GPU is running. Start one there, or ask for a prediction (modelled:h200)."
    else:
        text = "No engine is running. Start one with: manage.py engine"
    return {"state": session.state, "queue": position, "engine": describe(able[0]) if able else None, "text": text}


def _behind(position: int, able: list[Engine]) -> str:
    """The message of a session that is not the next. An engine advances many sessions at once, so one that waits behind
    others need not wait for their end."""
    free = sum(max(0, conf.get("UCUTLASS_SESSIONS") - e.sessions) for e in able)
    then = "It begins with them: an engine runs many at once." if position <= free else "It begins as others end."
    return f"Queued: {position - 1} before this one. {then}"
