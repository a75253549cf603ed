"""One chat completion, streamed: every end of it is a Reply.

    reply = complete(endpoint, Call("model", "prompt"), cancelled=stop.is_set, say=print)

The call runs in an event loop of its own in the caller's thread, so that a stop and the limit of its time end it within
a tenth of a second, whatever the endpoint does. Failures that may pass (no connection, status 429 and 5xx) are tried
again after a growing, random wait or after the endpoint's Retry-After. A stream that began is not asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.llm.endpoint import Endpoint
from engine.llm.request import Abilities, Call
from engine.strategies.api import Reply

POLL = 0.05  # seconds between two looks for a stop
CLOSING = 1.0  # seconds that a cancelled call has to close its connection


@dataclass(frozen=True)
class Patience:
    """Seconds. `silence`: longest pause between two parts of a stream; `total`: of the call with its repetitions.
    The wait before repetition n is at most `first_wait` * 2**n and at most `longest_wait`. An endpoint that asks for
    more than `longest_asked` is not waited for."""

    connect: float = 10.0
    silence: float = 120.0
    total: float = 600.0
    retries: int = 5
    first_wait: float = 1.0
    longest_wait: float = 20.0
    longest_asked: float = 60.0

    def wait(self, retry: int, asked: float | None) -> float:
        """Before repetition `retry` (from 0): what the endpoint asked for, or a random half of a growing time."""
        growing = min(self.longest_wait, self.first_wait * 2**retry) * random.uniform(0.5, 1.0)
        return growing if asked is None else asked + 0.1 * growing


_abilities: dict[tuple[str, str], Abilities] = {}  # (base URL, model) -> what the endpoint has not refused yet


def complete(
    endpoint: Endpoint,
    call: Call,
    cancelled: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda text: None,
    patience: Patience | None = None,
) -> Reply:
    """The model's reply. Blocks; raises nothing that an endpoint can cause. `cancelled` must not block; `say` is called
    in this thread with the text as it arrives. The reply has no cost and no value."""
    from engine.llm import stream  # the client takes seconds to import

    patience, began = patience or Patience(), time.monotonic()
    written = stream.Written(endpoint, call, say)
    completion = _Completion(endpoint, call, written, patience, stream)
    loop = asyncio.new_event_loop()
    try:
        failure = loop.run_until_complete(_watched(completion, cancelled, began + patience.total))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    written.end()
    tokens, estimated = written.counted() if completion.paid else ({}, False)
    return Reply(
        text=written.text, refusal=failure.refusal if failure else "", reason=failure.reason if failure else "",
        model=written.model or call.model, tokens=tokens, seconds=time.monotonic() - began, finish=written.finish,
        retries=completion.retries, estimated=estimated,
    )  # fmt: skip


async def _watched(completion: _Completion, cancelled: Callable[[], bool], until: float):
    """The failure of a completion, or None. Ends it on a stop and when its time is over."""
    Failed = completion.stream.Failed
    task = asyncio.ensure_future(completion.run())
    failure = None
    try:
        while not task.done():
            if cancelled():
                failure = Failed("stopped", "The session was stopped before this was answered.")
                break
            if time.monotonic() > until:
                total = completion.patience.total
                failure = Failed(
                    "timeout", f"The reply was not complete within {total:g} s, the longest time of a call."
                )
                break
            await asyncio.wait({task}, timeout=POLL)
        if failure is None:
            return task.result()
        return failure
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSING)
        if task.done():
            with contextlib.suppress(asyncio.CancelledError, Exception):
                task.result()


class _Completion:
    """`paid`: a request reached the endpoint and may cost something."""

    def __init__(self, endpoint: Endpoint, call: Call, written, patience: Patience, stream):
        self.endpoint, self.call, self.written, self.patience = endpoint, call, written, patience
        self.stream, self.retries, self.paid = stream, 0, False

    async def run(self):
        """The failure in the end, or None."""
        while True:
            try:
                await self._adapted()
                return None
            except self.stream.Failed as failure:
                if not failure.again:
                    return failure
                wait = self.patience.wait(self.retries, failure.wait)
                if self.retries >= self.patience.retries:
                    failure.reason += f" The request was repeated {self.retries} times."
                    return failure
                if wait > self.patience.longest_asked:
                    failure.reason += f" It asks to wait {wait:,.0f} s, which is too long."
                    return failure
                self.retries += 1
                await asyncio.sleep(wait)

    async def _adapted(self) -> None:
        """Send, without the parameters that the endpoint refuses. Raises Failed."""
        at = (self.endpoint.base_url, self.call.model)
        abilities = _abilities.get(at, Abilities())
        while True:
            try:
                self.paid = True
                await self.stream.send(self.endpoint, self.call, abilities, self.written, self.patience)
                _abilities[at] = abilities
                return
            except self.stream.Failed as failure:
                self.paid = not failure.free
                left = abilities.without(self.call, failure.complaint) if failure.complaint else None
                if left is None:
                    if self.written.parts:
                        _abilities[at] = abilities
                    raise
                abilities = left
