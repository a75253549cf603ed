"""Rate limits per address: a sliding window in this process's memory. Enough to stop an accident.

A public server with many processes needs a real limiter in its proxy; the README says so.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from playground import conf
from playground.access.answers import too_many

T = TypeVar("T")

MAX_ADDRESSES = 10_000
MAX_LINKS = 200  # that an address opened, remembered for it


class Limit:
    """At most `most` calls in `seconds` for each key."""

    def __init__(self, most: int, seconds: float):
        self.most, self.seconds = most, seconds
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str, now: float | None = None, *, count: bool = True, calls: int = 1) -> float:
        """Return 0.0 and count the call, or return the seconds to wait before asking again.

        `count=False` asks whether a call may be made, before work that ends in the call or in a refusal. `calls`: as
        how many a long one counts, where one may be made.
        """
        now = time.monotonic() if now is None else now
        past = self._calls.setdefault(key, deque())
        self._calls.move_to_end(key)
        while len(self._calls) > MAX_ADDRESSES:
            self._calls.popitem(last=False)
        while past and past[0] <= now - self.seconds:
            past.popleft()
        if len(past) >= self.most:
            return past[0] + self.seconds - now
        if count:
            past.extend([now] * min(calls, self.most))
        return 0.0


@dataclass
class _Visitor:
    """An address in Guesses: look-ups that it has left at a time, and the links that it opened."""

    left: float
    at: float
    opened: OrderedDict[bytes, None] = field(default_factory=OrderedDict)


class Guesses:
    """Slow down an address that asks for links that do not exist: `most` wrong ones at once, then one in `seconds`.

    An address over the limit learns nothing about a link, so it cannot go on to guess. The links that it opened before
    stay open, so an honest viewer behind the same address keeps a session that is on the screen, and a new link opens
    after at most `seconds` without a guess. From several threads.
    """

    def __init__(self, most: int, seconds: float):
        self.most, self.seconds = most, seconds
        self._visitors: OrderedDict[str, _Visitor] = OrderedDict()
        self._lock = Lock()

    def wait(self, address: str, name: str, now: float | None = None) -> float:
        """Return 0.0 and take a look-up, or return the seconds to wait. `right` gives the look-up back."""
        now = time.monotonic() if now is None else now
        with self._lock:
            visitor = self._visitor(address, now)
            visitor.left = min(float(self.most), visitor.left + (now - visitor.at) / self.seconds)
            visitor.at = now
            if _mark(name) in visitor.opened:
                return 0.0
            if visitor.left < 1.0:
                return (1.0 - visitor.left) * self.seconds
            visitor.left -= 1.0
            return 0.0

    def right(self, address: str, name: str, now: float | None = None) -> None:
        """The link exists: it stays open to the address, and the look-up does not count."""
        with self._lock:
            visitor = self._visitor(address, time.monotonic() if now is None else now)
            if _mark(name) not in visitor.opened:
                visitor.left = min(float(self.most), visitor.left + 1.0)
            visitor.opened[_mark(name)] = None
            visitor.opened.move_to_end(_mark(name))
            while len(visitor.opened) > MAX_LINKS:
                visitor.opened.popitem(last=False)

    def look(self, address: str, name: str, find: Callable[[], T | None]) -> T | None:
        """`find()`, the look-up of a link. None counts as a wrong one. Raises Refused(429) for an address over the
        limit."""
        if wait := self.wait(address, name):
            raise too_many("links that do not exist", wait)
        result = find()
        if result is not None:
            self.right(address, name)
        return result

    def _visitor(self, address: str, now: float) -> _Visitor:
        visitor = self._visitors.setdefault(address, _Visitor(float(self.most), now))
        self._visitors.move_to_end(address)
        while len(self._visitors) > MAX_ADDRESSES:
            self._visitors.popitem(last=False)
        return visitor


def _mark(name: str) -> bytes:
    """A hash, so that the memory of this process holds no token."""
    return hashlib.sha256(name.encode(errors="replace")).digest()[:8]


def address(request: HttpRequest) -> str:
    """The address that the limits count (address_of)."""
    return address_of(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))


def address_of_socket(scope: Mapping[str, Any]) -> str:
    """The same for a socket's ASGI scope."""
    forwarded = [
        value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == b"x-forwarded-for"
    ]
    return address_of((scope.get("client") or ("",))[0], ",".join(forwarded))


def address_of(peer: str, forwarded: str) -> str:
    """The peer, or the last hop that a trusted proxy names. For IPv6 its /64 network, because a visitor may use any
    address in it. `forwarded`: the header X-Forwarded-For."""
    named = peer
    if conf.get("UCUTLASS_TRUST_PROXY") and forwarded:
        named = forwarded.rsplit(",", 1)[-1].strip()
    try:
        ip = ipaddress.ip_address(named.partition("%")[0])
    except ValueError:
        return named
    if ip.version == 4:
        return named
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))


def origin(request: HttpRequest) -> str:
    """A session's record of the address that started it: 64 bits of a hash under this installation's secret key."""
    return salted_hmac("playground.origin", address(request), algorithm="sha256").hexdigest()[:16]


sessions = Limit(conf.get("UCUTLASS_SESSIONS_PER_HOUR"), 3600)
checks = Limit(conf.get("UCUTLASS_CHECKS_PER_MINUTE"), 60)
commands = Limit(60, 60)  # of one session
keys = Limit(10, 60)  # visitors' keys that may be sent for one session, and from one address
tokens = Limit(30, 3600)  # owner tokens that one address may make
writings = Limit(30, 3600)  # descriptions that one address may have a model read
readings = Limit(60, 60)  # modules that one address may have traced for their limit while it types
agents = Limit(conf.get("UCUTLASS_CHECKS_PER_MINUTE"), 60)  # calls of /mcp, for each address and each owner token
guesses = Guesses(conf.get("UCUTLASS_GUESSES"), 10)
rooms = Limit(30, 3600)  # that one address may open
joins = Limit(240, 60)  # students that join one room
seats = Limit(120, 60)  # messages of one seat of a room
seat_sessions = Limit(conf.get("UCUTLASS_SEAT_SESSIONS_PER_HOUR"), 3600)  # of one seat
assists = Limit(2 * conf.get("UCUTLASS_CHECKS_PER_MINUTE"), 60)  # completion and hover come with typing
