"""The viewer's socket, /ws/s/<id>?after=SEQ: the log after a cursor, with acknowledgements.

Server to client, JSON texts:
    {"events": [{seq, kind, t, data}...], "last": N, "ended": bool}   `ended`: the log is complete with this batch
    {"viewers": n}    {"state": queued | running | ended, "queue": n, "engine": {...} | null, "text": "..."}
    {"ping": seconds}    {"error": "..."}   why the server closes now (daphne sends no reason with its codes)
Client to server:
    {"ack": SEQ}      all events up to SEQ are on the screen        {"pong": ...}   optional

Daphne has no back-pressure: data for a client that does not read piles up in our memory. So we stop at 256 events or 1
MiB without acknowledgement, and continue after it. The log keeps the rest. A client that acknowledges once a second, or
after 64 events, misses nothing and costs a third of one that acknowledges every message.

Close codes: 4400 an invalid message, 4404 no such session (or it was deleted), 4429 too many of the address's links do
not exist (the text says how long to wait), 1011 our error: reconnect. Another site's page or host gets no socket: 403.

These are plain ASGI applications: a consumer of channels costs each message several coroutines more.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from playground.access import limits
from playground.live.frames import Outlet, Send
from playground.live.hub import hub
from playground.live.viewers import GUESSING, MALFORMED, UNKNOWN, Viewer
from playground.live.watched import Watched

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]


async def unknown_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Any other address: accept and close with a code, because a browser learns nothing from a refused handshake."""
    await _accept(receive, send)
    await send({"type": "websocket.close", "code": UNKNOWN})
    await _until_gone(receive)


async def session_socket(scope: Scope, receive: Receive, send: Send) -> None:
    await _accept(receive, send)
    session_id = scope["url_route"]["kwargs"]["session_id"]
    raw = parse_qs(scope["query_string"].decode("latin-1")).get("after", ["0"])[-1]
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 10):
        entry, code, reason = None, MALFORMED, "after= takes the number of the last event that you have"
    else:
        entry, code, reason = await _find(limits.address_of_socket(scope), session_id)
    if entry is None:
        await send({"type": "websocket.send", "text": json.dumps({"error": reason})})
        await send({"type": "websocket.close", "code": code})
        await _until_gone(receive)
        return
    viewer = Viewer(entry, Outlet(send), int(raw))
    try:
        hub.join(viewer)
        while (message := await receive())["type"] != "websocket.disconnect":
            if not viewer.closed and (fault := viewer.take(message.get("text"))):
                viewer.end(MALFORMED, fault)
    finally:
        hub.leave(viewer)


async def _find(visitor: str, session_id: str) -> tuple[Watched | None, int, str]:
    """(the session of a link, close code, why there is none). A crowd behind one address that opens a link at once
    makes one look-up, not one for each of the crowd."""
    first = not _looking(visitor, session_id)
    if first and (wait := limits.guesses.wait(visitor, session_id)):
        return None, GUESSING, f"too many links that do not exist; try again in {wait:.0f} s"
    if session_id not in hub.watched:
        _look_ups.setdefault(session_id, set()).add(visitor)
    try:
        entry = await hub.open(session_id)
    finally:
        _look_ups.pop(session_id, None)
    if entry is None:
        return None, UNKNOWN, "no such session"
    if first:
        limits.guesses.right(visitor, session_id)
    return entry, 0, ""


_look_ups: dict[str, set[str]] = {}  # the addresses that wait for the answer to a look-up of a link


def _looking(visitor: str, session_id: str) -> bool:
    return visitor in _look_ups.get(session_id, ())


async def _accept(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})


async def _until_gone(receive: Receive) -> None:
    """Read what the client still sends."""
    while (await receive())["type"] != "websocket.disconnect":
        pass
