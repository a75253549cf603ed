"""Every route and every socket message, with the answer for each visitor: the data of test_request_table.py.

A stranger has no link, a viewer has the view link, the owner has the control link too. In a path, a header and a body,
ID is the session's name, TOKEN its control token and BLOB the name of one of its texts; OWNER is the owner token that
it was started with, of the name ROW, and KEY the key of that. SNAP is a snapshot without its source, of another session
of the same owner with the same control token, and FOREIGN the view link of another owner's session. A stranger has
made-up ones. A viewer has the ID, the BLOB, SNAP and FOREIGN, and made-up tokens and keys. A forker and an embedded
pane have what a viewer has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
TEXT = {"text": PROGRAM}
PLACE = {"text": PROGRAM, "line": 1, "col": 3}


@dataclass(frozen=True)
class Row:
    """A request and its answers. `route`: as the resolver has it; `path`: what is asked, "" for the route itself."""

    method: str
    route: str
    stranger: int
    viewer: int
    owner: int
    body: Any = None
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def same(method: str, route: str, status: int, body: Any = None, path: str = "", **more: Any) -> Row:
    """A request that gets one answer, whoever sends it."""
    return Row(method, route, status, status, status, body, path, **more)


def command(kind: str, owner: int = 202, **data: Any) -> Row:
    body = {"kind": kind, "data": data, "control_token": "TOKEN"}
    return Row("POST", "api/sessions/<session_id>/commands", 404, 403, owner, body)


def control(method: str, name: str, owner: int, body: Any = None, all_of_them: int = 0) -> Row:
    """A request of who controls the session. `all_of_them`: the answer to a body that is wrong whoever sends it."""
    others = (all_of_them, all_of_them) if all_of_them else (404, 403)
    path = f"/api/sessions/ID/{name.replace('<trial>', '1')}"
    return Row(method, f"api/sessions/<session_id>/{name}", *others, owner, body, path, {"X-Control-Token": "TOKEN"})


def mcp(tool: str, status: int = 200, **arguments: Any) -> Row:
    """A call of /mcp with the owner token. A wrong token is refused."""
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return Row("POST", "mcp", 401, 401, status, body, headers=BEARER)


BEARER = {"Authorization": "Bearer OWNER"}
KEY = {"X-Owner-Key": "KEY"}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CONTROL = {"X-Control-Token": "TOKEN"}
ONE = "api/sessions/<session_id>"
COMMANDS = f"{ONE}/commands"
SNAPSHOT = "api/snapshots/<snapshot_id>"
PROFILE = "api/sessions/<session_id>/trials/<trial>/profile"
RUN = {"when": "2026-11-25", "device": "cuda", "verdict": "reproduced", "trials": []}
MODULE = {"source": "class Model: ..."}
LESSON = "api/lessons/<slug>/answers"

ROWS = [
    # pages
    same("GET", "", 200),
    Row("GET", "s/<str:session_id>", 404, 200, 200),
    Row("GET", "s/<str:session_id>/fork", 404, 200, 200),
    Row("GET", "s/<str:session_id>/fork", 404, 200, 200, path="/s/ID/fork?trial=1"),
    Row("GET", "s/<str:session_id>/export", 404, 409, 409),  # it has no trial yet
    Row("GET", "framed/<str:session_id>", 404, 200, 200),
    Row("GET", "embed/<str:session_id>", 404, 200, 200),
    Row("GET", "embed/<str:session_id>", 404, 200, 200, path="/embed/ID?pane=roofline"),
    Row("GET", "embed/<str:session_id>", 404, 404, 404, path="/embed/ID?pane=control"),
    Row("GET", "embed/<str:session_id>", 404, 404, 404, path="/embed/TOKEN"),  # a frame never holds control
    Row("GET", "card/<str:session_id>.png", 404, 200, 200, path="/card/ID.png"),
    Row("GET", "card/<str:session_id>.png", 404, 404, 404, path="/card/TOKEN.png"),
    Row("GET", "c/<str:token>", 404, 404, 200),
    Row("GET", "c/<str:token>", 404, 404, 404, path="/c/ID"),  # the view link is no control link
    Row("GET", "s/<str:session_id>", 404, 404, 404, path="/s/TOKEN"),  # nor the other way
    same("GET", "mine", 200),
    same("GET", "gallery", 200),
    same("GET", "gallery/compare", 200),
    Row("GET", "gallery/compare", 404, 200, 200, path="/gallery/compare?a=ID&b=FOREIGN"),
    Row("GET", "gallery/compare", 404, 200, 200, path="/gallery/compare?a=/s/SNAP&b=ID"),
    same("GET", "gallery/compare", 404, path="/gallery/compare?a=ID&b=TOKEN"),
    same("GET", "gallery/compare", 400, path="/gallery/compare?a=ID&b=/c/TOKEN"),
    same("GET", "gallery/compare", 400, path="/gallery/compare?a=http://[&b=ID"),
    same("GET", "gallery/suite/<str:name>", 200, path="/gallery/suite/bmm?class=f16"),
    same("GET", "gallery/suite/<str:name>", 404, path="/gallery/suite/nothing"),
    same("GET", "gallery/kernelbench", 200),
    same("GET", "gallery/kernelbench/<path:name>", 200, path="/gallery/kernelbench/level3/4_LeNet5"),
    same("GET", "gallery/kernelbench/<path:name>", 404, path="/gallery/kernelbench/level3/nothing"),
    same("GET", "learn", 200),
    same("GET", "learn/own", 200),
    same("GET", "learn/<str:slug>", 200, path="/learn/roofline"),
    same("GET", "learn/<str:slug>", 404, path="/learn/nothing"),
    same("GET", "language", 200),
    same("GET", "language/<str:word>", 200, path="/language/E204"),
    same("GET", "language/<str:word>", 404, path="/language/nothing"),
    same("GET", "healthz", 200),
    same("GET", "robots.txt", 200),
    same("GET", "favicon.ico", 204),
    # the API's own pages
    same("GET", "api/", 404),
    same("GET", "api/openapi.json", 200),
    same("GET", "api/docs", 200),
    # sessions
    same("POST", "api/sessions", 201, {"source": "class Model: ..."}),
    same("POST", "api/sessions", 422, {"source": ""}),
    Row("GET", "api/sessions/<session_id>", 404, 200, 200),
    Row("GET", "api/sessions/<session_id>/events", 404, 200, 200),
    Row("GET", "api/sessions/<session_id>/events", 422, 422, 422, path="/api/sessions/ID/events?after=-1"),
    Row("GET", "api/sessions/<session_id>/blobs/<sha256>", 404, 200, 200),
    Row("GET", "api/sessions/<session_id>/blobs/<sha256>", 404, 404, 404, path="/api/sessions/ID/blobs/OTHER"),
    Row("GET", PROFILE, 404, 404, 404, path="/api/sessions/ID/trials/1/profile"),  # it has no trial yet
    Row("GET", PROFILE, 422, 422, 422, path="/api/sessions/ID/trials/first/profile"),
    Row("GET", "api/figures/<session_id>", 404, 200, 200),
    Row("GET", "api/figures/<session_id>", 422, 422, 422, path="/api/figures/ID?names=nothing"),
    Row("GET", "api/sessions/<session_id>/limit", 404, 200, 200),
    Row("GET", f"{ONE}/export", 404, 409, 409),  # it has no trial yet
    Row("GET", f"{ONE}/export", 404, 409, 409, path="/api/sessions/SNAP/export?trial=1"),
    Row("GET", f"{ONE}/export", 422, 422, 422, path="/api/sessions/ID/export?as=sources"),
    # the gallery
    same("GET", "api/recordings", 200),
    Row("GET", "api/comparisons", 404, 200, 200, path="/api/comparisons?a=ID&b=/s/SNAP"),
    same("GET", "api/comparisons", 422, path="/api/comparisons?a=ID&b=ID"),
    same("GET", "api/comparisons", 422, path="/api/comparisons?a=ID"),
    same("GET", "api/comparisons", 400, path="/api/comparisons?a=ID&b=/c/TOKEN"),
    same("GET", "api/comparisons", 400, path="/api/comparisons?a=ID&b=//%E2%84%80x"),
    same("GET", "api/suite", 200),
    same("GET", "api/suite/<name>", 404, path="/api/suite/nothing"),
    same("GET", "api/kernelbench", 200),
    same("GET", "api/kernelbench/<path:name>", 200, path="/api/kernelbench/level3/4_LeNet5"),
    same("GET", "api/kernelbench/<path:name>", 404, path="/api/kernelbench/level3/nothing"),
    same("GET", "api/suite/<name>", 200, path="/api/suite/bmm?class=f16"),
    Row("GET", "api/sessions/<session_id>/limit", 422, 422, 422, path="/api/sessions/ID/limit?seq=-1"),
    command("pause"),
    command("resume"),
    command("budget", trials=40),
    command("budget", 422, trials=0),
    command("try", program=PROGRAM),
    command("try", 400, program="x"),
    Row("POST", "api/sessions/<session_id>/commands", 422, 422, 422, {"kind": "explode", "control_token": "TOKEN"}),
    command("profile", 404, trial=1),  # it has no trial yet
    command("profile", 422),
    command("stop"),
    # sharing: the original has not ended, so there is nothing to copy yet
    control("POST", "snapshots", 409, {}),
    control("POST", "snapshots", 422, {"source": "yes"}, 422),
    control("GET", "snapshots", 200),
    control("POST", "pin", 200, {"pinned": True}),
    control("POST", "pin", 422, {"pinned": 1}, 422),
    control("PUT", "notes/<trial>", 404, {"text": "a note"}),  # it has no trial yet
    control("PUT", "notes/<trial>", 422, {"text": 3}, 422),
    Row("GET", f"{ONE}/notes", 404, 200, 200),
    Row("GET", f"{ONE}/record", 404, 409, 409),
    Row("POST", f"{ONE}/again", 404, 409, 409),  # it has not ended
    Row("GET", f"{ONE}/again", 404, 404, 404),
    Row("DELETE", SNAPSHOT, 404, 404, 404),  # a session is no snapshot
    Row("DELETE", SNAPSHOT, 404, 403, 204, path="/api/snapshots/SNAP", headers=CONTROL),
    Row("DELETE", SNAPSHOT, 404, 401, 204, path="/api/snapshots/SNAP", headers=BEARER),
    Row("DELETE", SNAPSHOT, 404, 403, 403, path="/api/snapshots/SNAP"),
    Row("POST", f"{SNAPSHOT}/reproductions", 404, 403, 201, RUN, "/api/snapshots/SNAP/reproductions", CONTROL),
    Row("POST", f"{SNAPSHOT}/reproductions", 404, 403, 403, RUN, "/api/snapshots/SNAP/reproductions"),
    Row("POST", f"{SNAPSHOT}/reproductions", 404, 404, 404, RUN, "/api/snapshots/ID/reproductions", CONTROL),
    same("POST", f"{SNAPSHOT}/reproductions", 422, RUN | {"verdict": "true"}, "/api/snapshots/SNAP/reproductions"),
    # a snapshot of another finished session of the owner: nobody commands it, and who controls the original deletes it
    Row("GET", "s/<str:session_id>", 404, 200, 200, path="/s/SNAP"),
    Row("GET", "s/<str:session_id>/fork", 404, 409, 409, path="/s/SNAP/fork"),  # it has no source
    Row("GET", "s/<str:session_id>/fork", 404, 409, 409, path="/s/SNAP/fork?trial=1"),
    Row("GET", "s/<str:session_id>/export", 404, 409, 409, path="/s/SNAP/export?trial=1"),
    Row("GET", "embed/<str:session_id>", 404, 200, 200, path="/embed/SNAP?pane=trials"),
    Row("GET", "card/<str:session_id>.png", 404, 200, 200, path="/card/SNAP.png"),
    Row("GET", f"{ONE}/record", 404, 200, 200, path="/api/sessions/SNAP/record"),
    Row("POST", f"{ONE}/again", 404, 409, 409, path="/api/sessions/SNAP/again"),
    Row("GET", f"{ONE}/again", 404, 404, 404, path="/api/sessions/SNAP/again"),
    Row("GET", f"{ONE}/blobs/<sha256>", 404, 404, 404, path="/api/sessions/SNAP/blobs/BLOB"),
    Row("GET", f"{ONE}/notes", 404, 200, 200, path="/api/sessions/SNAP/notes"),
    *(
        Row("POST", COMMANDS, 404, 403, 403, {"kind": kind, "control_token": "TOKEN"}, "/api/sessions/SNAP/commands")
        for kind in ("pause", "resume", "stop")
    ),
    Row("POST", f"{ONE}/key", 404, 403, 403, {"key": "k" * 20}, "/api/sessions/SNAP/key", CONTROL),
    Row("POST", f"{ONE}/pin", 404, 403, 403, {"pinned": True}, "/api/sessions/SNAP/pin", CONTROL),
    Row("POST", f"{ONE}/snapshots", 404, 403, 403, {}, "/api/sessions/SNAP/snapshots", CONTROL),
    Row("GET", f"{ONE}/snapshots", 404, 403, 403, None, "/api/sessions/SNAP/snapshots", CONTROL),
    Row("PUT", f"{ONE}/notes/<trial>", 404, 403, 403, {"text": "x"}, "/api/sessions/SNAP/notes/1", CONTROL),
    # the owner's rights do not reach another owner's session, whose view link is FOREIGN
    Row("GET", "s/<str:session_id>", 404, 200, 200, path="/s/FOREIGN"),
    *(
        Row("POST", COMMANDS, 404, 403, 403, {"kind": kind, "control_token": "TOKEN"}, "/api/sessions/FOREIGN/commands")
        for kind in ("pause", "resume", "stop")
    ),
    Row("POST", COMMANDS, 404, 403, 403, {"kind": "stop", "control_token": "KEY"}, "/api/sessions/FOREIGN/commands"),
    Row("POST", COMMANDS, 404, 401, 403, {"kind": "stop"}, "/api/sessions/FOREIGN/commands", BEARER),
    Row("POST", f"{ONE}/key", 404, 403, 403, {"key": "k" * 20}, "/api/sessions/FOREIGN/key", CONTROL),
    Row("POST", f"{ONE}/pin", 404, 403, 403, {"pinned": True}, "/api/sessions/FOREIGN/pin", CONTROL),
    Row("POST", f"{ONE}/snapshots", 404, 403, 403, {}, "/api/sessions/FOREIGN/snapshots", CONTROL),
    Row("GET", f"{ONE}/snapshots", 404, 403, 403, None, "/api/sessions/FOREIGN/snapshots", CONTROL),
    Row("PUT", f"{ONE}/notes/<trial>", 404, 403, 403, {"text": "x"}, "/api/sessions/FOREIGN/notes/1", CONTROL),
    # owner tokens
    Row("POST", COMMANDS, 404, 401, 202, {"kind": "pause"}, headers=BEARER),
    Row("POST", COMMANDS, 404, 403, 202, {"kind": "pause"}, headers={"X-Control-Token": "KEY"}),
    Row("POST", "api/sessions", 401, 401, 201, MODULE, headers=BEARER),
    same("POST", "api/sessions", 401, MODULE, headers={"Authorization": "Basic OWNER"}),
    same("POST", "api/tokens", 201, {"label": "an agent"}),
    Row("POST", "api/tokens", 403, 403, 201, {"label": "an agent"}, headers=KEY),
    same("POST", "api/tokens", 422, {"label": "x" * 81}),
    same("GET", "api/tokens", 401),
    Row("GET", "api/tokens", 403, 403, 200, headers=KEY),
    Row("GET", "api/tokens", 401, 401, 200, headers=BEARER),
    same("DELETE", "api/tokens/<token_id>", 401),
    Row("DELETE", "api/tokens/<token_id>", 401, 401, 404, path="/api/tokens/nothing", headers=BEARER),
    Row("DELETE", "api/tokens/<token_id>", 403, 403, 204, headers=KEY),
    # a visitor's key, for which nobody waits
    Row(
        "POST", "api/sessions/<session_id>/key", 404, 403, 409, {"key": "k" * 20}, headers={"X-Control-Token": "TOKEN"}
    ),
    Row("POST", "api/sessions/<session_id>/key", 404, 401, 409, {"key": "k" * 20}, headers=BEARER),
    # agents
    same("POST", "mcp", 200, LISTING),
    Row("POST", "mcp", 401, 401, 200, LISTING, headers=BEARER),
    same("POST", "mcp", 400, [1]),
    same("POST", "mcp", 403, LISTING, headers={"Origin": "https://elsewhere.example"}),
    mcp("devices"),
    mcp("status", session="ID"),
    mcp("stop", session="ID"),
    # the language
    same("POST", "api/check", 200, TEXT),
    same("POST", "api/format", 200, TEXT),
    same("POST", "api/resolve", 200, TEXT),
    same("POST", "api/compile", 200, TEXT),
    same("POST", "api/export", 200, TEXT),
    same("POST", "api/export", 422, {"text": "x"}),
    same("POST", "api/complete", 200, PLACE),
    same("POST", "api/hover", 200, PLACE),
    same("POST", "api/tries/check", 200, TEXT),
    same("GET", "api/explain", 200, path="/api/explain?word=tile"),
    same("GET", "api/explain", 404, path="/api/explain?word=nothing"),
    same("GET", "api/words", 200),
    same("POST", "api/words", 200, {"text": "softmax of a 64x64 matrix"}),
    same("POST", "api/words", 422, {"text": ""}),
    same("POST", "api/words/model", 503, {"text": "a gated thing"}),  # no engine is running
    same("POST", "api/words/model", 422, {"text": " "}),
    same("GET", "api/words/model/<description_id>", 404, path="/api/words/model/nothing"),
    same("DELETE", "api/words/model/<description_id>", 404, path="/api/words/model/nothing"),
    same("POST", "api/limits", 202, {"text": "class Model: ..."}),
    same("POST", "api/limits", 422, {"text": " "}),
    same("GET", "api/limits/<reading_id>", 404, path="/api/limits/nothing"),
    same("DELETE", "api/limits/<reading_id>", 404, path="/api/limits/nothing"),
    # lessons
    same("GET", "api/lessons", 200),
    same("GET", "api/lessons/<slug>", 200, path="/api/lessons/roofline"),
    same("GET", "api/lessons/<slug>", 404, path="/api/lessons/nothing"),
    same("POST", LESSON, 200, {"step": "which", "answer": "sum"}, "/api/lessons/roofline/answers"),
    same("POST", LESSON, 404, {"step": "nothing", "answer": "sum"}, "/api/lessons/roofline/answers"),
    same("POST", LESSON, 422, {"step": "two-speeds", "answer": "sum"}, "/api/lessons/roofline/answers"),
    same("POST", "api/own-lesson", 200, {"text": "no lesson"}),
    same("POST", "api/own-lesson/answers", 422, {"text": "no lesson", "step": "a", "answer": 1}),
    same("GET", "api/examples", 200),
    same("GET", "api/strategies", 200),
    same("GET", "api/engines", 200),
]

# A client's messages on the socket of a session that exists: the close code, or 0 if it stays open. The socket of a
# stranger is closed with 4404 before any message. The owner's socket is the viewer's: orders go over HTTP.
MESSAGES = [
    ({"ack": 0}, 0),
    ({"ack": 2**62}, 0),
    ({"pong": 1}, 0),
    ({"pong": None, "ack": 3}, 0),
    ({}, 0),
    ({"ack": -1}, 4400),
    ({"ack": "1"}, 4400),
    ({"ack": True}, 4400),
    ({"ack": 1.5}, 4400),
    ({"ack": None}, 4400),
    ({"kind": "stop", "control_token": "TOKEN"}, 4400),
    ({"control_token": "TOKEN"}, 4400),
    ([], 4400),
    ("ack", 4400),
    (None, 4400),
    (b"", 4400),
    (b"{", 4400),
    (b"[" * 1000, 4400),
    (b"1" * 1025, 4400),
    (b'{"ack": ' + b"9" * 900 + b"}", 0),
]
# Every route of the sockets; tests/playground/rooms/table.py has the messages of a room's.
SOCKETS = {"ws/s/<str:session_id>": "session_socket", "ws/w/<str:code>": "RoomConsumer", "": "unknown_socket"}
