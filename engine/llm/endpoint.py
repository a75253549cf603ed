"""Which endpoint may be called, and at which network address.

The operator's endpoint (OPENAI_BASE_URL) may be anywhere, also on this machine. An endpoint that a visitor names is
called only if the operator lists it (UCUTLASS_ENDPOINTS), over https, and if every address that its name resolves to is
public. The connection then goes to one of the addresses that were checked, so a name that resolves to another address
a moment later (DNS rebinding) gains nothing. No redirect is followed (engine.llm.client).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.llm.settings import OPENAI, Settings

SHORTEST_SECRET = 8  # characters; servers without keys are given words such as `none`, which are no secrets
_SHARED = ipaddress.ip_network("100.64.0.0/10")  # carriers' and clouds' inner networks
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]


class Forbidden(Exception):
    """The endpoint may not be called. The message says why, for the visitor."""


@dataclass(frozen=True)
class Endpoint:
    """`address`: the checked network address to connect to; "": resolve the name, for the operator's own endpoint.
    `whose`: operator | visitor."""

    base_url: str
    key: str = field(default="", repr=False)
    whose: str = "operator"
    address: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Return True if the address stands for this machine, so that no proxy is used."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def redacted(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self.key, "[key]") if len(self.key) >= SHORTEST_SECRET else text


def operators(settings: Settings) -> Endpoint:
    """The operator's own endpoint."""
    return Endpoint(settings.base_url or OPENAI, settings.key.get_secret_value())


def visitors(base_url: str, key: str, settings: Settings, resolve: Resolve | None = None) -> Endpoint:
    """A visitor's endpoint with the address to connect to. Blocks while the name is resolved. Raises Forbidden.

    `resolve(host, port)` returns the addresses of a name and raises OSError; None: the system's resolver.
    """
    base_url = base_url.strip().rstrip("/")
    if base_url not in settings.endpoints:
        listed = ", ".join(settings.endpoints) or "none"
        raise Forbidden(f"This endpoint is not allowed here. The operator allows: {listed}.")
    parts = urlsplit(base_url)
    if parts.scheme != "https":
        raise Forbidden("This endpoint is not called, because a key travels over https only.")
    host = parts.hostname or ""
    try:
        addresses = (resolve or _resolve)(host, parts.port or 443)
    except OSError:
        addresses = []
    if not addresses:
        raise Forbidden(f"The name {host} has no network address.")
    if any(not is_public(a) for a in addresses):
        raise Forbidden(f"The name {host} leads to an address inside a private network, which is not called.")
    return Endpoint(base_url, key, "visitor", addresses[0])


def is_public(address: str) -> bool:
    """Return True for an address of the public internet: not private, loopback, link-local, unique-local, shared,
    reserved or multicast, and no IPv6 form of an IPv4 address that is."""
    try:
        ip: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if "%" in address or not ip.is_global or ip.is_multicast or ip.is_reserved or ip.is_unspecified:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return ip not in _SHARED
    inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64:
        inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return not ip.is_site_local and all(v4 is None or is_public(str(v4)) for v4 in inner)


def _resolve(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))
