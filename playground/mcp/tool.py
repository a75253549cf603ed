"""What a tool of the MCP server is: its arguments, its answer in bounded size, and a call of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from playground.access.answers import Refused
from playground.access.owners import Caller

A_SESSION = "A session's id, or the link of its page"
MOST_TEXT = 12_000  # characters of one text in an answer
MOST = 40_000  # characters of a whole answer


class Arguments(BaseModel):
    """Arguments of a tool. A number may come as a text, because some agents send it so."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Answer:
    """`data`: JSON; `texts`: longer texts as they are, (title, text), each cut at MOST_TEXT characters."""

    data: dict[str, Any]
    texts: list[tuple[str, str]] = field(default_factory=list)

    def blocks(self) -> list[str]:
        """The answer as texts, in all at most MOST characters."""
        blocks = [json.dumps(_plain(self.data), ensure_ascii=False, indent=1)] if self.data else []
        blocks += [f"{title}:\n{cut(text)}" for title, text in self.texts]
        left, bounded = MOST, []
        for block in blocks:
            bounded.append(cut(block, left))
            left -= len(bounded[-1])
            if left <= 0:
                break
        return bounded


@dataclass(frozen=True)
class Call:
    """One call of a tool: who calls, and the address of this server (`http://127.0.0.1:8000`), for links."""

    caller: Caller
    base: str

    def link(self, session_id: str) -> str:
        return f"{self.base}/s/{session_id}"


@dataclass(frozen=True)
class Tool:
    """`about`: the description for an agent that knows nothing of this project; `owner`: it needs an owner token;
    `reads`: it changes nothing; `ends`: it ends something."""

    name: str
    title: str
    about: str
    arguments: type[Arguments]
    run: Callable[[Call, Any], Awaitable[Answer]]
    owner: bool = False
    reads: bool = True
    ends: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, without the titles that pydantic adds."""
        return _without_titles(self.arguments.model_json_schema())


def must_own(call: Call) -> None:
    """Raise Refused(401) for a call without an owner token, with the way to get one."""
    if call.caller.owner is None:
        raise Refused(
            401,
            "This tool needs an owner token, and this connection sends none.",
            f"Ask the person you work for to open {call.base}/mine, make a token there, and add the header "
            '"Authorization: Bearer TOKEN" to this MCP server (Claude Code: claude mcp add --transport http ucutlass '
            f'{call.base}/mcp --header "Authorization: Bearer TOKEN"). Until then the tools that only read work.',
        )


def cut(text: str, most: int = MOST_TEXT) -> str:
    """The text, or its beginning with a remark that it is cut. At most about `most` characters."""
    if len(text) <= most:
        return text
    return f"{text[: max(0, most - 60)]}\n... cut: {max(0, most - 60):,} of {len(text):,} characters"


def _plain(value: Any) -> Any:
    """The value without empty fields, and numbers with five digits, which is all that a time is good for."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            k: {n: _without_titles(p) for n, p in v.items()} if k == "properties" else _without_titles(v)
            for k, v in schema.items()
            if k != "title" or not isinstance(v, str)
        }
    return [_without_titles(v) for v in schema] if isinstance(schema, list) else schema
