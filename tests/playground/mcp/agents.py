"""A coding agent for tests: the SDK's own client, over HTTP or over stdio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.playground.conftest import ROOT, House

T = TypeVar("T")


def run(drive: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns. It has a thread of its own: where browser tests ran before, this one has a loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, drive).result()


class Agent:
    """A connected client. `call` returns the JSON of the answer and its other texts."""

    def __init__(self, client: Client):
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> tuple[dict[str, Any], list[str]]:
        result = await self.client.call_tool(tool, arguments)
        texts = [block.text for block in result.content]
        data = json.loads(texts.pop(0)) if texts and texts[0].startswith("{") else {}
        assert result.is_error == ("error" in data), texts
        return data, texts


@contextlib.asynccontextmanager
async def over_http(house: House, token: str = ""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"http://127.0.0.1:{house.port}/mcp"
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield Agent(client)


@contextlib.asynccontextmanager
async def over_stdio(house: House, token: str = ""):
    arguments = ["-m", "engine", "mcp", "--url", f"http://127.0.0.1:{house.port}"]
    environ = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"} | {"UCUTLASS_TOKEN": token}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environ, cwd=ROOT)
    async with Client(stdio_client(server)) as client:
        yield Agent(client)


def new_token(house: House, **headers: str) -> dict[str, str]:
    """{id, label, token, key}"""
    return house.post("/api/tokens", {"label": "a test"}, **headers)
