"""A real HTTP server that speaks chat completions with streaming and plays a model by a script.

    with ModelServer() as server:
        server.play(says("hello"), status(500), drip("slow", 0.1))
        ... OpenAI(base_url=server.url) ...
        assert len(server.requests) == 3

Each request takes the next play of the script, and after the last one `server.usual`. A play gets the `Exchange`: the
request, and ways to send parts of an answer.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted-1-2026-11-01"


class Exchange:
    """One request and its answer."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event):
        self.handler, self.body, self.closing = handler, body, closing
        self.headers = handler.headers
        self.path = handler.path

    def raw(self, data: bytes) -> None:
        self.handler.wfile.write(data)
        self.handler.wfile.flush()

    def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Connection", "close")
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.flush()

    def chunk(self, delta: dict[str, Any] | None = None, finish: str | None = None, usage: Any = None) -> None:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        data = {
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": choices,
            "usage": usage,
        }  # fmt: skip
        self.raw(f"data: {json.dumps(data)}\n\n".encode())

    def text(self, text: str, piece: int = 40) -> None:
        for at in range(0, len(text), piece):
            self.chunk({"content": text[at : at + piece]})

    def end(self, finish: str = "stop", usage: dict[str, Any] | None = None) -> None:
        self.chunk({}, finish)
        self.chunk(usage=usage or {"prompt_tokens": 100, "completion_tokens": 20,
                                   "prompt_tokens_details": {"cached_tokens": 60},
                                   "completion_tokens_details": {"reasoning_tokens": 5}})  # fmt: skip
        self.raw(b"data: [DONE]\n\n")

    def cut(self) -> None:
        """Reset the connection."""
        linger = b"\x01\0\0\0\0\0\0\0"
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.handler.connection.close()


Play = Callable[[Exchange], None]


def says(text: str, finish: str = "stop", piece: int = 40, usage: dict[str, Any] | None = None) -> Play:
    def play(x: Exchange) -> None:
        x.head()
        x.text(text, piece)
        x.end(finish, usage)

    return play


def status(code: int, message: str = "no", **headers: str) -> Play:
    def play(x: Exchange) -> None:
        x.head(code, "application/json", **headers)
        x.raw(json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode())

    return play


def drip(text: str, pause: float, piece: int = 1) -> Play:
    """A few characters, then a pause, and so on."""

    def play(x: Exchange) -> None:
        x.head()
        for at in range(0, len(text), piece):
            x.chunk({"content": text[at : at + piece]})
            if x.closing.wait(pause):
                return
        x.end()

    return play


def endless(piece: str = "token ") -> Play:
    def play(x: Exchange) -> None:
        x.head()
        while not x.closing.is_set():
            x.chunk({"content": piece})

    return play


def half(text: str, *, reset: bool = False) -> Play:
    """A part of a reply, then the end of the connection."""

    def play(x: Exchange) -> None:
        x.head()
        x.text(text)
        if reset:
            x.cut()

    return play


def silent(x: Exchange) -> None:
    x.head()
    x.closing.wait(30)


def disconnects(x: Exchange) -> None:
    x.cut()


def calls_a_tool(x: Exchange) -> None:
    x.head()
    x.chunk(
        {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "rm", "arguments": "{}"}, "type": "function"}]}
    )
    x.end("tool_calls")


def declines(x: Exchange) -> None:
    x.head()
    x.chunk({"refusal": "I will not "})
    x.chunk({"refusal": "do this."})
    x.end()


def raw(*parts: bytes, kind: str = "text/event-stream", **headers: str) -> Play:
    def play(x: Exchange) -> None:
        x.head(200, kind, **headers)
        for part in parts:
            x.raw(part)

    return play


class ModelServer:
    """`requests`: every exchange so far; `usual`: what is played after the script; `tls`: speak https."""

    def __init__(self, usual: Play | None = None, tls: ssl.SSLContext | None = None):
        self.usual = usual or says("ok")
        self.requests: list[Exchange] = []
        self._script: deque[Play] = deque()
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.close_connection = True
                exchange = Exchange(self, body, outer._closing)
                outer.requests.append(exchange)
                with contextlib.suppress(OSError):  # the client left
                    (outer._script.popleft() if outer._script else outer.usual)(exchange)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.block_on_close = False
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def play(self, *plays: Play) -> None:
        self._script.extend(plays)

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


def wait_for(ready: Callable[[], Any], seconds: float = 60.0) -> None:
    """Raises AssertionError if it does not become true."""
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)
