"""The server of a rehearsal: `POST /v1/chat/completions`, streamed or whole, and `GET /v1/models`."""

from __future__ import annotations

import json
import logging
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine.llm.rehearse import MODEL
from engine.llm.rehearse.player import Player

logger = logging.getLogger(__name__)
MOST_BODY = 4 << 20
PIECE = 48  # characters of a streamed piece
CHARACTERS_A_TOKEN = 4  # for the counts of tokens, which no tokenizer made


class Rehearsal(ThreadingHTTPServer):
    """`pace`: seconds between two streamed pieces, so that a person sees the reply being written."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], player: Player, pace: float = 0.0):
        super().__init__(address, _Handler)
        self.player, self.pace = player, pace

    @property
    def url(self) -> str:
        """The OPENAI_BASE_URL of this server."""
        return f"http://{self.server_address[0]}:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Rehearsal

    def log_message(self, format: str, *args: Any) -> None:
        logger.info(format, *args)

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            return self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "rules"}]})
        self._error(404, "This rehearsal answers /v1/models and /v1/chat/completions.")

    def do_POST(self) -> None:
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            return self._error(411, "Send the length of the body.")
        if not 0 < length <= MOST_BODY:
            return self._error(413, f"The body has at most {MOST_BODY} bytes.")
        body = self.rfile.read(length)
        if not self.path.rstrip("/").endswith("/chat/completions"):
            return self._error(404, "This rehearsal answers /v1/models and /v1/chat/completions.")
        try:
            asked = json.loads(body)
            prompt = "\n".join(_text(m["content"]) for m in asked["messages"])
        except (ValueError, KeyError, TypeError):
            return self._error(400, "The body is no chat completion request.")
        try:
            reply = self.server.player.reply(prompt)
        except Exception:
            logger.exception("the rehearsal has no reply")
            return self._error(500, "The rehearsal made a mistake; its log says which.")
        usage = {
            "prompt_tokens": len(prompt) // CHARACTERS_A_TOKEN,
            "completion_tokens": len(reply) // CHARACTERS_A_TOKEN + 1,
        }  # fmt: skip
        usage["total_tokens"] = sum(usage.values())
        if asked.get("stream"):
            return self._stream(reply, usage, bool((asked.get("stream_options") or {}).get("include_usage")))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": reply}}
        self._json(200, {**_frame("chat.completion"), "choices": [choice], "usage": usage})

    def _stream(self, reply: str, usage: dict[str, int], with_usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for at in range(0, len(reply), PIECE):
                self._event([{"index": 0, "delta": {"content": reply[at : at + PIECE]}, "finish_reason": None}])
                time.sleep(self.server.pace)
            self._event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
            if with_usage:
                self._event([], usage=usage)
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            logger.info("the client left in mid-stream")

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> None:
        chunk = {**_frame("chat.completion.chunk"), "choices": choices, **more}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def _error(self, status: int, message: str) -> None:
        self._json(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def _json(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "rehearsal", "object": kind, "created": int(time.time()), "model": MODEL}


def _text(content: str | list[dict[str, Any]]) -> str:
    """The text of a message, whose content is a string or parts."""
    return content if isinstance(content, str) else "\n".join(p.get("text", "") for p in content)


def serve(port: int, skill: float, seed: int, pace: float) -> None:
    """Serve on this machine alone until Ctrl-C."""
    server = Rehearsal(("127.0.0.1", port), Player(skill, seed), pace)
    print(
        f"A rehearsal answers at {server.url} (skill {skill:g}, seed {seed}). No model writes its replies.\n"
        f"Start the app with it in another terminal:\n"
        f"  OPENAI_BASE_URL={server.url} OPENAI_API_KEY=none UCUTLASS_MODEL={MODEL} make run",
        flush=True,
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
