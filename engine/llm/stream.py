"""One request to an endpoint, and the stream of its reply, read with every limit.

Whatever the endpoint sends, `send` returns nothing or raises Failed; the reply is in `Written`, also the part that came
before a failure. Importing this module loads the `openai` client, which takes seconds; only a call imports it.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable
from typing import Any

import httpx2
import openai

from engine.llm.endpoint import SHORTEST_SECRET, Endpoint
from engine.llm.request import Abilities, Call
from engine.llm.transport import Compressed, TooManyBytes, http_client

AGAIN = (408, 409, 425, 429)  # and every status from 500
LONGEST_QUOTE = 300  # characters of an endpoint's own words in a reason
BYTES_AROUND = 1024  # of JSON around one token of a stream, at most
COUNTS = {
    "in": ("prompt_tokens",), "out": ("completion_tokens",),
    "cached": ("prompt_tokens_details", "cached_tokens"),
    "reasoning": ("completion_tokens_details", "reasoning_tokens"),
}  # fmt: skip


class Failed(Exception):
    """The request failed: `refusal` and `reason` of a Reply. `again`: another try may help, after `wait` seconds if the
    endpoint said so. `free`: the endpoint did not work on the request. `complaint`: its words on a request that it does
    not take."""

    def __init__(self, refusal: str, reason: str, *, again: bool = False, wait: float | None = None, complaint=""):
        super().__init__(reason)
        self.refusal, self.reason, self.again, self.wait, self.complaint = refusal, reason, again, wait, complaint
        self.free = False


class Written:
    """A reply as far as it came. `say` gets the text as it grows, without the endpoint's key, even if the key arrives
    in parts."""

    def __init__(self, endpoint: Endpoint, call: Call, say: Callable[[str], None]):
        self.endpoint, self.call, self._say = endpoint, call, say
        self.model, self.finish, self.declined = "", "", ""
        self.tokens: dict[str, int] = {}
        self.parts = self.bytes = 0
        self._pieces: list[str] = []
        self._tail = ""
        self._hidden = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces) + self._tail

    def add(self, piece: str) -> None:
        """Add text of the reply. Raises Failed at the call's limit."""
        self.count(piece)
        text = self.endpoint.redacted(self._tail + piece)
        held_back = len(self.endpoint.key) - 1 if len(self.endpoint.key) >= SHORTEST_SECRET else 0
        safe = len(text) - held_back
        if safe > 0:
            self._pieces.append(text[:safe])
            self._tail = text[safe:]
            self._say(text[:safe])
        else:
            self._tail = text

    def count(self, piece: str) -> None:
        """Count what a model writes, its reasoning included. Raises Failed at the call's limit."""
        self.parts += 1
        self.bytes += len(piece.encode("utf-8", "replace"))
        if self.bytes > self.call.most_bytes or self.parts > self.call.tokens + 16:
            raise Failed("too_long", f"{_longest(self.call)} The stream was cut there.")

    def end(self) -> None:
        """Say what was held back."""
        if self._tail:
            self._say(self._tail)
            self._pieces.append(self._tail)
            self._tail = ""

    def counted(self) -> tuple[dict[str, int], bool]:
        """(the reply's tokens, whether they are estimates)."""
        if "in" in self.tokens and "out" in self.tokens:
            return self.tokens, False
        return {"in": self.call.estimate, "out": max(self.parts and 1, self.bytes // 4), **self.tokens}, True


async def send(endpoint: Endpoint, call: Call, abilities: Abilities, written: Written, patience: Any) -> None:
    """Send the request and read the reply to its end into `written`. Raises Failed."""
    most = 4 * call.most_bytes + BYTES_AROUND * (call.tokens + 64)
    http = http_client(endpoint, patience.connect, patience.silence, most)
    try:
        client = openai.AsyncOpenAI(
            api_key=endpoint.key or "none", base_url=endpoint.base_url, max_retries=0, http_client=http,
            timeout=http.timeout, default_headers=_own_headers(endpoint),
        )  # fmt: skip
        stream = await client.chat.completions.create(**abilities.body(call))
        try:
            async for chunk in stream:
                _take(written, chunk)
        finally:
            await stream.close()
    except Failed:
        raise
    except Exception as e:
        raise _failed(e, endpoint, written) from None
    finally:
        written.end()
        await http.aclose()
    _judge(written)


def _own_headers(endpoint: Endpoint) -> dict[str, Any]:
    """The operator's organisation and project, which the client reads from the environment, are not a visitor's."""
    return (
        dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit()) if endpoint.whose != "operator" else {}
    )


def _take(written: Written, chunk: Any) -> None:
    """Read one chunk, of which nothing is certain. Raises Failed."""
    if isinstance(model := getattr(chunk, "model", None), str) and model:
        written.model = written.endpoint.redacted(model[:200])
    if (usage := getattr(chunk, "usage", None)) is not None:
        written.tokens |= _counts(usage)
    choices = getattr(chunk, "choices", None)
    if not isinstance(choices, list) or not choices:
        return
    choice = choices[0]
    delta = getattr(choice, "delta", None)
    if getattr(delta, "tool_calls", None) or getattr(delta, "function_call", None):
        raise Failed("refused", "The model called a tool, and no tool was offered to it.")
    for name, take in (("reasoning_content", written.count), ("reasoning", written.count), ("content", written.add)):
        if isinstance(piece := getattr(delta, name, None), str) and piece:
            take(piece)
    if isinstance(piece := getattr(delta, "refusal", None), str):
        written.count(piece)
        written.declined += piece
    if isinstance(finish := getattr(choice, "finish_reason", None), str):
        written.finish = finish[:40]


def _counts(usage: Any) -> dict[str, int]:
    """The endpoint's token counts that are plausible numbers."""
    counts = {}
    for name, path in COUNTS.items():
        value = usage
        for part in path:
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        if type(value) is int and 0 <= value < 1 << 40:
            counts[name] = value
    return counts


def _judge(written: Written) -> None:
    """Raises Failed if the stream ended and is no complete reply."""
    if written.declined:
        raise Failed("refused", f"The model declined: {_quote(written.declined, written.endpoint)}")
    match written.finish:
        case "content_filter":
            raise Failed("refused", "The endpoint's content filter ended the reply.")
        case "tool_calls" | "function_call":
            raise Failed("refused", "The model called a tool, and no tool was offered to it.")
        case "length":
            raise Failed("too_long", _longest(written.call))
        case "":
            raise Failed("broken", "The stream ended before the reply was complete.")
    if not written.text.strip():
        raise Failed("empty", "The model replied without any text.")


def _longest(call: Call) -> str:
    return f"The reply reached the limit of {call.tokens:,} tokens for one call before its end."


def _failed(e: Exception, endpoint: Endpoint, written: Written) -> Failed:
    """An exception of the client as a failure. A stream that began is not asked for again: it was paid for."""
    began = written.parts > 0
    if isinstance(e, openai.APIStatusError):
        failure = _refused(e, endpoint)
        failure.free = True
        return failure
    cause = e.__cause__ if isinstance(e.__cause__, Exception) else e
    if isinstance(cause, TooManyBytes):
        return Failed("too_long", f"{_longest(written.call)} The stream was cut there.")
    if isinstance(cause, Compressed):
        return Failed("broken", "The endpoint compressed its answer although that was not accepted.")
    if isinstance(e, openai.APITimeoutError):
        if isinstance(cause, httpx2.ConnectTimeout):
            return Failed("timeout", f"No connection to {endpoint.host} within the time for it.", again=True)
        return Failed("timeout", f"{endpoint.host} was silent for too long.")
    if isinstance(e, openai.APIConnectionError | httpx2.TransportError):
        if isinstance(cause, httpx2.ConnectError):
            failure = Failed("broken", f"No connection to {endpoint.host}.", again=True)
            failure.free = True
            return failure
        return Failed("broken", f"The connection to {endpoint.host} broke off.", again=not began)
    if isinstance(e, openai.APIError):
        quote = _quote(e.message, endpoint)
        return Failed("broken", f"{endpoint.host} reported an error in its stream: {quote}")
    return Failed("broken", f"{endpoint.host} sent something that is no chat completion ({type(e).__name__}).")


def _refused(e: openai.APIStatusError, endpoint: Endpoint) -> Failed:
    """An answer with a status that is no success."""
    status, host, quote = e.status_code, endpoint.host, _quote(_words(e), endpoint)
    if status == 429 and e.code == "insufficient_quota":
        return Failed("refused", f"The account of the key at {host} has no quota left (status 429): {quote}")
    if status in AGAIN or status >= 500:
        code = "rate_limited" if status == 429 else "broken"
        return Failed(code, f"{host} answered with status {status}: {quote}", again=True, wait=_wait(e))
    if status < 400:
        return Failed("refused", f"{host} answered with a redirect (status {status}), and none is followed.")
    if status in (401, 403):
        code = "key_refused" if status == 401 else "refused"
        if endpoint.whose != "operator":  # its words may hold a part of the key
            return Failed(code, f"{host} does not accept the key (status {status}).")
        return Failed(code, f"{host} does not accept the key (status {status}): {quote}")
    complaint = _words(e) if status in (400, 422) else ""
    return Failed("refused", f"{host} refused the request (status {status}): {quote}", complaint=complaint)


def _words(e: openai.APIStatusError) -> str:
    """The endpoint's own words."""
    body = e.body
    if isinstance(body, dict):
        parts = [str(body[name]) for name in ("message", "detail", "param") if body.get(name)]
        body = " ".join(parts) or None
    return str(body if body is not None else e.message)[:4000]


def _quote(text: str, endpoint: Endpoint) -> str:
    """One line of an endpoint's words, without the key."""
    line = " ".join(endpoint.redacted(text).split())
    return line[:LONGEST_QUOTE] + ("…" if len(line) > LONGEST_QUOTE else "") or "it gave no reason."


def _wait(e: openai.APIStatusError) -> float | None:
    """Seconds that the endpoint asks to wait, or None."""
    headers = e.response.headers
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * scale
            return max(0.0, seconds) if seconds == seconds else None
        except ValueError:
            at = email.utils.parsedate_tz(value) if value else None
            if at is not None:
                return max(0.0, email.utils.mktime_tz(at) - time.time())
    return None
