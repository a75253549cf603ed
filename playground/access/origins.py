"""Which hosts and origins a request may name, alike for requests and sockets, and which addresses can be read at all.

There is no cookie to steal, but a page elsewhere could post a module to http://127.0.0.1:8000 and have this machine run
it, or follow a session through a name that it points to this machine. Browsers send the origin of a request (Origin,
Sec-Fetch-Site) and cannot forge it; programs such as curl send none and pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from playground.access.answers import Refused
from playground.access.bodies import NO_TEXT

MAX_PATH, MAX_NAME, MAX_QUERY = 1024, 255, 4096  # characters


def foreign(origin: str | None, host: str) -> bool:
    """Return True if `origin`, as a browser sends it, is not the host that the request names. None: no origin."""
    if origin is None:
        return False
    try:
        parts = urlsplit(origin)
        return parts.scheme not in ("http", "https") or not parts.netloc or parts.netloc.lower() != host.lower()
    except ValueError:  # for example a bracket without its other half
        return True


def unreadable(path: str, query: str) -> Refused | None:
    """Why no view can read an address: too long, or not text. `query` is still percent-encoded."""
    if len(path) > MAX_PATH or any(len(name) > MAX_NAME for name in path.split("/")):
        error = f"The address is longer than {MAX_PATH} characters, or a part of it than {MAX_NAME}."
        return Refused(414, error, "Check the link.")
    if len(query) > MAX_QUERY:
        return Refused(414, f"What follows ? is longer than {MAX_QUERY} characters.", "Send long texts in a body.")
    if NO_TEXT.search(path) or b"\0" in unquote_to_bytes(query):
        return Refused(400, "The address holds characters that are not text (NUL).", "Check the link.")
    return None


class Sockets:
    """An ASGI application that answers a handshake of another site's page, of an unknown host or with an unreadable
    address with 403, and passes the others on."""

    def __init__(self, application: Callable[..., Any]):
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope.get("headers", ())]
        hosts = [value for name, value in headers if name == b"host"]
        origins = [value for name, value in headers if name == b"origin"]
        host = hosts[0] if len(hosts) == 1 else ""
        domain, _ = split_domain_port(host)
        wrong = (
            not (domain and validate_host(domain, allowed_hosts()))
            or len(origins) > 1
            or foreign(origins[0] if origins else None, host)
            or unreadable(scope["path"], scope.get("query_string", b"").decode("latin-1"))
        )
        return await (WebsocketDenier() if wrong else self.application)(scope, receive, send)


def allowed_hosts() -> list[str]:
    """The hosts that Django allows (HttpRequest.get_host)."""
    return settings.ALLOWED_HOSTS or ([".localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
