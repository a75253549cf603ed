"""Requests to a playground's API. Tokens go in headers, never in an address, which other programs may log."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

SECONDS = 30.0  # that an answer may take
LONGEST_PAUSE = 15.0
GIVE_UP = 600.0  # seconds without an answer of the server


class RemoteError(Exception):
    """The playground refuses, or does not answer: one sentence, and the way out. `status`: 0 without an answer."""

    def __init__(self, text: str, status: int = 0, wait: float = 0.0):
        super().__init__(text)
        self.status, self.wait = status, wait


class Client:
    """`url`: of the playground, with or without a path behind it; `headers`: sent with every request."""

    def __init__(self, url: str, headers: dict[str, str] | None = None):
        self.base, self.headers = base_of(url), headers or {}

    def get(self, path: str) -> Any:
        """The JSON of an address. Raises RemoteError."""
        return self._ask(urllib.request.Request(f"{self.base}{path}", headers=self.headers))

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        """The JSON of the answer. Raises RemoteError."""
        every = {"Content-Type": "application/json", **self.headers, **(headers or {})}
        return self._ask(urllib.request.Request(f"{self.base}{path}", json.dumps(body).encode(), every))

    def patiently(self, path: str) -> Any:
        """`get`, again and again while the server does not answer or is busy. Raises RemoteError."""
        pause, began = 0.5, time.monotonic()
        while True:
            try:
                return self.get(path)
            except RemoteError as e:
                if e.status not in (0, 429, 500, 502, 503, 504) or time.monotonic() - began > GIVE_UP:
                    raise
                time.sleep(max(pause, min(e.wait, 60.0)))
                pause = min(LONGEST_PAUSE, 2 * pause)

    def _ask(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            raise RemoteError(_words(e), e.code, _wait(e)) from None
        except (OSError, HTTPException) as e:
            why = getattr(e, "reason", None) or e
            raise RemoteError(f"no playground answers at {self.base} ({why}); start it with `make run`") from None
        except ValueError:
            raise RemoteError(f"{self.base} does not answer as a playground does; check the address") from None


def _words(e: urllib.error.HTTPError) -> str:
    try:
        body = json.load(e)
        return f"{body['error']} {body['fix']}"
    except (ValueError, KeyError, TypeError, OSError):
        return f"the server answered {e.code}; check the address"


def _wait(e: urllib.error.HTTPError) -> float:
    text = e.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else 0.0


def base_of(url: str) -> str:
    """Scheme and host of an address, and the path before /s/, /w/ or /api. Raises RemoteError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username or parts.password:
        raise RemoteError(f"{url!r} is no address of a playground; write for example http://127.0.0.1:8000")
    return f"{parts.scheme}://{parts.netloc}"


def place_of(url: str) -> tuple[str, str]:
    """("session", id) of /s/ID or ("room", code) of /w/CODE. Raises RemoteError."""
    names = [name for name in urlsplit(url).path.split("/") if name]
    if len(names) >= 2 and names[0] in ("s", "embed"):
        return "session", names[1]
    if len(names) >= 2 and names[0] == "w" and names[1] != "new":
        return "room", names[1]
    if names[:1] == ["c"]:
        raise RemoteError("this is a control link, which is secret; watch the view link (/s/...) instead")
    raise RemoteError(f"{url!r} is no session and no room; write for example http://127.0.0.1:8000/s/ID")


def events(
    client: Client, path: str, pause: float, idle: Callable[[], None] = lambda: None
) -> Iterator[dict[str, Any]]:
    """The rows of a log as they come, {seq, kind, t, data, ...}, to the end of a session's; a room's has none. `idle`:
    called before each pause without a new row. Raises RemoteError."""
    after = 0
    while True:
        page = client.patiently(f"{path}?after={after}")
        yield from page["events"]
        reached = page.get("reached", page["events"][-1]["seq"] if page["events"] else after)
        if page.get("ended") and reached >= page["last"]:
            return
        if reached == after:
            idle()
            time.sleep(pause)
        after = reached


def name(text: str) -> str:
    """A part of a path."""
    return quote(text, safe="")
