"""What the tools of sessions share: find a session, check its owner, wait without leaving anything behind."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async

from playground import engines
from playground.access import sessions
from playground.access.answers import Refused
from playground.mcp.tool import Call, must_own
from playground.models import Session

LOOK = 0.25  # seconds between two looks at a log
# Calls that wait at a time: of one caller, of all callers of an address (tokens are free to make), and of all.
WAITS, ADDRESS_WAITS, ALL_WAITS = 8, 32, 64
_waiting: Counter[str] = Counter()


@contextlib.asynccontextmanager
async def waits(call: Call) -> AsyncIterator[None]:
    """Count a call that waits. Raises Refused(429) for one too many."""
    most = {f"caller {call.caller.keys[-1]}": WAITS, f"address {call.caller.address}": ADDRESS_WAITS, "all": ALL_WAITS}
    if any(_waiting[key] >= n for key, n in most.items()):
        error = f"{WAITS} calls of yours wait already, or too many of others."
        raise Refused(429, error, "Wait for one of them to return.", wait=5)
    _waiting.update(most.keys())
    try:
        yield
    finally:
        _waiting.subtract(most.keys())
        for key in most:
            if not _waiting[key]:
                del _waiting[key]


def find(call: Call, session_id: str) -> Session:
    """The session by its id or its link."""
    return sessions.find(call.caller.address, session_id.strip().rstrip("/").rpartition("/")[2])


def owned(call: Call, session_id: str) -> Session:
    must_own(call)
    session = find(call, session_id)
    if session.owner_id != call.caller.owner.id:
        raise Refused(403, "Your owner token does not control this session.", "Use start_session for one of your own.")
    return session


async def why_waiting(session_id: str) -> str:
    def why() -> str:
        session = Session.objects.get(id=session_id)
        message = engines.state_message(session)
        return message["text"] or session.summary.get("progress") or message["state"]

    return await sync_to_async(why)()
