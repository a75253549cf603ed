"""Rate limits per address: a sliding window in this process's memory. Enough to stop an accident.

A public server with many processes needs a real limiter in its proxy; the README says so.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict, deque

from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from playground import conf

MAX_ADDRESSES = 10_000


class Limit:
    """At most `most` calls in `seconds` for each key."""

    def __init__(self, most: int, seconds: float):
        self.most, self.seconds = most, seconds
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str, now: float | None = None, *, count: bool = True) -> float:
        """Return 0.0 and count the call, or return the seconds to wait before asking again.

        `count=False` asks whether a call may be made, before work that ends in the call or in a refusal.
        """
        now = time.monotonic() if now is None else now
        calls = self._calls.setdefault(key, deque())
        self._calls.move_to_end(key)
        while len(self._calls) > MAX_ADDRESSES:
            self._calls.popitem(last=False)
        while calls and calls[0] <= now - self.seconds:
            calls.popleft()
        if len(calls) >= self.most:
            return calls[0] + self.seconds - now
        if count:
            calls.append(now)
        return 0.0


def address(request: HttpRequest) -> str:
    """The address that the limits count: the peer, or the last hop that a trusted proxy names. For IPv6 its /64
    network, because a visitor may use any address in it."""
    named = request.META.get("REMOTE_ADDR", "")
    if conf.get("UCUTLASS_TRUST_PROXY") and (forwarded := request.headers.get("X-Forwarded-For")):
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
assists = Limit(2 * conf.get("UCUTLASS_CHECKS_PER_MINUTE"), 60)  # completion and hover come with typing
