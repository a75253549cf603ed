"""The MCP server over the SDK (`mcp`), stateless: one HTTP request in, one JSON answer out.

Daphne runs no ASGI lifespan, in which the SDK expects its session manager to be started. In stateless mode the manager
keeps nothing between requests, so each request runs one of its own, which ends with it (0.1 ms of a call's 1.8 ms).
Importing the SDK takes a second and 20 MB; playground.mcp.views imports this module when the first agent calls.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextvars import ContextVar
from typing import Any

from django.db import InterfaceError, OperationalError
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as Described
from pydantic import ValidationError

from playground.access import faults
from playground.access.answers import Refused
from playground.mcp import driving, reading, starting
from playground.mcp.tool import Answer, Call, Tool

logger = logging.getLogger(__name__)

INSTRUCTIONS = """This server makes PyTorch modules fast on NVIDIA GPUs. You propose kernels. It checks, builds,
verifies and times each one beside PyTorch, and tells you how far you are from the hardware's limit (speed of light).

1. reference() to learn the language μCUTLASS (short; a program replaces the module or a region of it).
2. start_session(module): the module's source, as in KernelBench (class Model, get_inputs; get_init_inputs
   if Model takes arguments).
3. report(session): the limits, the costs, the levers, and programs to start from.
4. check_program(text) until it is valid (free), then propose(session, candidate, change).
5. wait_for_trial(session, trial): verdict, time, gap, mistakes, advice. Repeat 4 and 5 with what you learned.
6. stop(session) when the gap to the limit is small (below 1.1) or nothing more helps. best(session) has the result.

Only trials with the verdict clean or minor count. Give the session's page to the person: it shows every step live."""
TOOLS: dict[str, Tool] = {t.name: t for t in (*reading.TOOLS, *starting.TOOLS, *driving.TOOLS)}
PASSED = ("mcp-protocol-version", "mcp-method", "mcp-name", "content-type")  # headers that the SDK reads
_call: ContextVar[Call] = ContextVar("call")


async def _list(context: Any, params: Any) -> ListToolsResult:
    return _listed()


@functools.cache
def _listed() -> ListToolsResult:
    return ListToolsResult(
        tools=[
            Described(
                name=t.name, title=t.title, description=t.about + (" Needs an owner token." if t.owner else ""),
                input_schema=t.schema,
                annotations=ToolAnnotations(
                    title=t.title, read_only_hint=t.reads, destructive_hint=t.ends, open_world_hint=False
                ),
            )
            for t in TOOLS.values()
        ]
    )  # fmt: skip


async def _run(context: Any, params: CallToolRequestParams) -> CallToolResult:
    """Run a tool. What an agent can mend is an error of the tool, in words, with the way out."""
    tool = TOOLS.get(params.name)
    if tool is None:
        return _failed(Refused(404, f"There is no tool {params.name[:64]!r}.", f"The tools are {', '.join(TOOLS)}."))
    try:
        arguments = tool.arguments(**(params.arguments or {}))
    except ValidationError as e:
        return _failed(_invalid(tool, e))
    try:
        answer = await tool.run(_call.get(), arguments)
    except Refused as e:
        return _failed(e)
    except (OperationalError, InterfaceError, OSError) as e:
        refused = faults.refusal_of(e)
        if refused is None:
            raise
        return _failed(refused)
    except Exception:
        logger.exception("the tool %s failed", tool.name)
        return _failed(Refused(500, "The server failed; the error is in its log.", "Try again, or another way."))
    return CallToolResult(content=[TextContent(text=text) for text in answer.blocks()])


def _invalid(tool: Tool, e: ValidationError) -> Refused:
    first = e.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "arguments"
    if first["type"] == "extra_forbidden":
        return Refused(422, f"{tool.name} has no argument {where[:64]!r}.", _fields(tool))
    return Refused(422, f"{where[:64]}: {first['msg']}.", _fields(tool))


def _fields(tool: Tool) -> str:
    names = ", ".join(tool.arguments.model_fields)
    return f"Its arguments are {names}." if names else "It has no arguments."


def _failed(refused: Refused) -> CallToolResult:
    data = refused.body | {"status": refused.status, "retry_after_s": round(refused.wait, 1)}
    return CallToolResult(content=[TextContent(text=text) for text in Answer(data).blocks()], is_error=True)


_server: Server[Any] = Server(
    "ucutlass-playground", version="1", title="μCUTLASS playground", instructions=INSTRUCTIONS, on_list_tools=_list,
    on_call_tool=_run,
)  # fmt: skip


async def answer(call: Call, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
    """One HTTP request in, (status, headers, body) out. `headers`: names in lower case."""
    passed = {name: headers[name] for name in PASSED if name in headers}
    passed |= {"accept": "application/json, text/event-stream", "content-length": str(len(body))}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": None, "server": None,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in passed.items()],
    }  # fmt: skip
    unread = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if unread:
            return unread.pop()
        await asyncio.Event().wait()  # a client that drops cancels this whole request
        raise AssertionError("never set")

    async def send(message: Any) -> None:
        sent.append(message)

    token = _call.set(call)
    try:
        manager = StreamableHTTPSessionManager(_server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)
    finally:
        _call.reset(token)
    status, out = 500, {}
    for message in sent:
        if message["type"] == "http.response.start":
            status = message["status"]
            out = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in message.get("headers", ())}
    return status, out, b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
