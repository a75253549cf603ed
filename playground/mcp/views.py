"""The HTTP side of the MCP server: who calls, how often, how much; then the SDK answers (playground.mcp.server).

Host, Origin and the size of a request are checked as on every other route (playground.access). A call without a token
may read; a wrong token is refused with 401. The limits count each call for its address and for its token.
"""

from __future__ import annotations

import asyncio
import importlib

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, JsonResponse

from playground.access import bodies, limits, owners, sessions
from playground.access.answers import Refused
from playground.mcp.tool import Call

POST = "This address speaks MCP over POST (streamable HTTP, stateless), without a stream of its own."


async def endpoint(request: HttpRequest) -> HttpResponse:
    """One JSON-RPC request of an agent. Raises Refused for what never reaches a tool."""
    if request.method != "POST":
        fix = "Add it to an agent as the README says."
        return JsonResponse({"error": POST, "fix": fix}, status=405, headers={"Allow": "POST"})
    call, body = await sync_to_async(_admitted)(request)
    # It takes a second: the first agent alone waits for it, in a thread that is not the one of the views.
    server = await asyncio.to_thread(importlib.import_module, "playground.mcp.server")
    headers = {name.lower(): value for name, value in request.headers.items()}
    status, named, text = await server.answer(call, request.path, headers, body)
    response = HttpResponse(text, status=status, content_type=named.get("content-type", "application/json"))
    response["Cache-Control"] = "no-store"
    if status >= 400 and not text:
        return JsonResponse({"error": "The request is not one of MCP.", "fix": POST}, status=status)
    return response


def _admitted(request: HttpRequest) -> tuple[Call, bytes]:
    """The call and its body. Raises Refused."""
    caller = owners.caller(request)
    sessions.limited(limits.agents, caller.keys, "calls")
    if (request.content_type or "").lower() != "application/json":
        raise Refused(415, "The body is not sent as JSON.", 'Send JSON with "Content-Type: application/json".')
    body = request.body
    value = bodies.parsed(body)
    if not isinstance(value, dict):
        raise Refused(400, "The body is no JSON-RPC request.", "Send one JSON-RPC 2.0 object.")
    bodies.check(value)
    return Call(caller, request.build_absolute_uri("/").rstrip("/")), body
