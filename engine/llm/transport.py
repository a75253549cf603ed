"""The HTTP client under the `openai` client: pinned to a checked address, without redirects, with a limit of bytes.

Importing this module loads httpx2, which takes long; only a call imports it.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterator

import httpx2

from engine.llm.endpoint import Endpoint


class TooManyBytes(httpx2.ReadError):
    """The answer is longer than any reply of the agreed length can be."""


class Compressed(httpx2.ReadError):
    """The answer is compressed although that was not accepted: a small one could unpack to any size."""


def http_client(endpoint: Endpoint, connect: float, silence: float, most_bytes: int) -> httpx2.AsyncClient:
    """A client for one call. `connect`, `silence`: seconds; `most_bytes`: of an answer's body, of any status."""
    timeout = httpx2.Timeout(silence, connect=connect, pool=connect)

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise Compressed("the answer is compressed", request=response.request)
        response.stream = _Bounded(response.stream, most_bytes, response.request)

    return httpx2.AsyncClient(
        transport=_Pinned(endpoint) if endpoint.address else None,
        verify=_certificates(),
        trust_env=not endpoint.is_local and not endpoint.address,
        timeout=timeout,
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Who is trusted, read once: reading it takes longer than a local call."""
    return httpx2.create_ssl_context()


class _Pinned(httpx2.AsyncHTTPTransport):
    """Connects to the endpoint's checked address. The Host header and the certificate are those of its name."""

    def __init__(self, endpoint: Endpoint):
        super().__init__(verify=_certificates(), trust_env=False)
        self._endpoint = endpoint

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host != self._endpoint.host:
            raise httpx2.ConnectError("another host than the one that was checked", request=request)
        extensions = request.extensions | {"sni_hostname": self._endpoint.host}
        url = request.url.copy_with(host=self._endpoint.address)
        pinned = httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=extensions
        )
        return await super().handle_async_request(pinned)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int, request: httpx2.Request):
        self._stream, self._left, self._request = stream, most, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise TooManyBytes("the answer is too long", request=self._request)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
