"""`python -m engine mcp`: an MCP server over stdio that passes every call on to a running playground.

For agents that start their servers as a process. The playground at --url answers over HTTP (its /mcp); this process
keeps nothing. The owner token comes from the environment (UCUTLASS_TOKEN) or from a file (--token-file), never from an
argument, which other users of the machine could read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOKEN = "UCUTLASS_TOKEN"
MOST = 200  # characters of a token
SECONDS = 180.0  # that an answer may take; a call waits at most two minutes


class BadBridge(Exception):
    """The bridge cannot start: the reason and the way out, in one sentence."""


def token_of(file: str | None, environ: dict[str, str] | None = None) -> str:
    """The owner token from a file or the environment, "" for none. Raises BadBridge."""
    environ = dict(os.environ) if environ is None else environ
    if file is None:
        token = environ.get(TOKEN, "").strip()
        where = TOKEN
    else:
        path, where = Path(file).expanduser(), file
        try:
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise BadBridge(f"{file} can be read by other users: chmod 600 {file}")
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as e:
            why = getattr(e, "strerror", None) or "it is not text"
            raise BadBridge(f"cannot read {file}: {why}; save the token from the page /mine in it") from None
    if token and (not token.isascii() or not token.isprintable() or " " in token or len(token) > MOST):
        raise BadBridge(f"{where} holds no token: one line without spaces, as the page /mine shows it")
    return token


def address_of(url: str) -> str:
    """The address of /mcp at `url`. Raises BadBridge."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.username:
        raise BadBridge(f"{url!r} is no address of a playground; write for example http://127.0.0.1:8000")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith('/mcp') else f'{path}/mcp'}"


def run(url: str, token: str) -> None:
    """Serve on stdin and stdout until stdin ends. Raises BadBridge if the playground does not answer, or refuses the
    token."""
    import anyio
    import httpx2
    from mcp.shared.exceptions import MCPError

    address = address_of(url)
    try:
        anyio.run(_serve, address, token)
    except* (BadBridge, OSError, httpx2.HTTPError, MCPError) as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, BadBridge):
            raise first from None
        fix = "start it with `make run`, or name its address with --url"
        raise BadBridge(f"no playground answers at {address} ({first}); {fix}") from None


async def _serve(address: str, token: str) -> None:
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def refused(reply: httpx2.Response) -> None:
        """Say why the playground refuses every call, in its own words."""
        if reply.status_code in (401, 403):
            await reply.aread()
            try:
                words = " ".join(reply.json()[name] for name in ("error", "fix"))
            except (ValueError, KeyError, TypeError):
                words = f"it answered {reply.status_code}"
            raise BadBridge(f"the playground at {address} refuses the call: {words}")

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(30.0, read=SECONDS)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [refused]}) as http:
        async with Client(streamable_http_client(address, http_client=http)) as there:

            async def list_tools(context: Any, params: Any) -> Any:
                return await there.session.list_tools()

            async def call_tool(context: Any, params: Any) -> Any:
                return await there.session.call_tool(params.name, params.arguments or {})

            here: Server[Any] = Server(
                "ucutlass-playground", version="1", title="μCUTLASS playground", instructions=there.instructions,
                on_list_tools=list_tools, on_call_tool=call_tool,
            )  # fmt: skip
            async with stdio_server() as (read, write):
                await here.run(read, write, here.create_initialization_options())
