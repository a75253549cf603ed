"""`python -m engine watch URL` and `python -m engine submit FILE --to URL`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from engine import progress
from engine.remote.client import Client, RemoteError, events, name, place_of
from engine.session import events as of_session

PAUSE = 1.0  # seconds between two looks at a log that did not grow
DONE = ("done", "stopped")


def watch(url: str, token: str = "", out: TextIO | None = None, pause: float = PAUSE) -> str:
    """Follow a session to its end, or a room until Ctrl-C. Returns the state in which a session ended, "" for a room.
    `token`: the teacher's, for a room. Raises RemoteError."""
    what, key = place_of(url)
    out = out or sys.stdout
    if what == "session":
        client = Client(url)
        client.get(f"/api/sessions/{name(key)}")  # a wrong link ends here
        return _session(client, key, out, pause)
    if not token:
        raise RemoteError(
            "a room shows its log to its teacher alone; put the teacher's token into a file, --token-file"
        )
    _room(Client(url, {"X-Teacher-Token": token}), key, out, pause)
    return ""


def submit(
    url: str, spec: dict[str, Any], token: str = "", out: TextIO | None = None, pause: float = PAUSE,
    started: Callable[[dict[str, str]], None] = lambda reply: None,
) -> str:  # fmt: skip
    """Start a session on a playground and follow it to its end. Ctrl-C asks it to stop; a second one leaves it alone.
    `started`: called with the links. Returns the state in which it ended. Raises RemoteError."""
    out = out or sys.stdout
    client = Client(url, {"Authorization": f"Bearer {token}"} if token else {})
    session = client.post("/api/sessions", spec)
    started(session)
    try:
        return _session(client, session["id"], out, pause)
    except KeyboardInterrupt:
        print("stopping the session; Ctrl-C again leaves it running", file=sys.stderr)
    stop = {"kind": "stop"}
    client.post(f"/api/sessions/{session['id']}/commands", stop, {"X-Control-Token": session["control_token"]})
    return _session(client, session["id"], out, pause)


def _session(client: Client, session_id: str, out: TextIO, pause: float) -> str:
    state, path = "failed", f"/api/sessions/{name(session_id)}"
    with progress.Display(out) as display:
        waits = ""

        def idle() -> None:
            """Say why nothing comes: the place in the queue, no engine, a lost one."""
            nonlocal waits
            before, waits = waits, client.patiently(path).get("text", "")
            if waits and waits != before:
                display.say(waits)

        for row in events(client, f"{path}/events", pause, idle):
            try:
                event = of_session.decode(row["kind"], row["data"])
            except ValueError:
                continue  # of a newer server; the rest can be read
            display.show(event)
            if isinstance(event, of_session.SessionEnded):
                state = event.state
    return state


def _room(client: Client, code: str, out: TextIO, pause: float) -> None:
    names: dict[int, str] = {}
    for row in events(client, f"/api/rooms/{name(code)}/events", pause):
        if row["kind"] == "seat.joined":
            names[row["seat"]] = row["data"]["name"]
        if text := room_line(row, names):
            print(f"{time.strftime('%H:%M:%S', time.localtime(row['t']))}  {text}", file=out, flush=True)


def room_line(row: dict[str, Any], names: dict[int, str]) -> str:
    """An event of a room as a line for a person; "" for an unknown kind."""
    data, who = row["data"], names.get(row["seat"], f"seat {row['seat']}")
    match row["kind"]:
        case "room.opened":
            return f"{data['title']}: {len(data['steps'])} steps, {'paced' if data['paced'] else 'all open'}"
        case "room.paced":
            return f"open up to {data['step']}" if data["step"] else "all steps are open"
        case "room.paused" | "room.resumed" | "room.ended":
            return row["kind"].removeprefix("room.")
        case "room.message":
            return f"message: {data['text']}"
        case "room.hint":
            return f"hint for all: {data['step']}"
        case "room.projected":
            number = data["number"]
            return "nobody is projected" if number is None else f"{names.get(number, number)} is projected"
        case "seat.joined":
            return f"{who} joined"
        case "seat.reset":
            return f"{who} was reset"
        case "seat.step":
            return f"{who} is at {data['step']}"
        case "seat.session":
            return f"{who} started the session {data['session']}"
        case "seat.answered":
            verdict = {True: "right", False: "wrong", None: "stored"}[data["right"]]
            return f"{who} answered {data['step']}: {verdict}"
    return ""
