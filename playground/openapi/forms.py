"""The forms of answers that more than one part of the API gives, and of those that are not JSON."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Schema
from pydantic import Field


class SessionMade(Schema):
    """Keep `control_token` (and `control_url`) secret: whoever has it can stop the session."""

    id: str
    view_url: str
    control_url: str
    control_token: str


class EngineOut(Schema):
    """A running engine. `serves`: cuda | modelled:NAME; `sessions`: that it advances now."""

    id: str
    device: dict[str, Any]
    serves: str
    sandbox: str
    toolchain: str
    busy: bool
    sessions: int
    started: float


class Failure(Schema):
    """Why a request was refused, and the way out. `field`: of the request, where one is at fault."""

    error: str
    fix: str
    field: str | None = Field(None)


def not_json(kind: str, *more: str) -> dict[str, Any]:
    """`openapi_extra` of an answer of other content types."""
    content = {one: {"schema": {"type": "string"}} for one in (kind, *more)}
    return {"responses": {200: {"description": "OK", "content": content}}}


def json_of(schema: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a JSON answer that is too large to be checked each time that it is sent."""
    return {"responses": {200: {"description": "OK", "content": {"application/json": {"schema": schema}}}}}


class SessionOut(Schema):
    """A session. `spec`: the request as it was completed; `summary`: the log's fold (engine.session.fold.listing);
    `queue`: its place among those that wait, 0 if it does not; `text`: what a person should know about its engine."""

    id: str
    title: str
    created: float
    ended: float | None
    spec: dict[str, Any]
    summary: dict[str, Any]
    last_seq: int
    recorded: bool
    provenance: dict[str, Any]
    state: Literal["queued", "running", "ended"]
    queue: int
    engine: EngineOut | None
    text: str


class Commanded(Schema):
    """`waits`: paused, if a `try` or a `profile` begins when the session resumes."""

    kind: str
    ended: bool
    waits: str = ""


class ProfileOut(Schema):
    """`source`: profiler | model; `refusal`, `reason`: why there is none."""

    trial: int
    state: str
    source: str
    text: str
    t: float | None
    refusal: str
    reason: str


class Example(Schema):
    id: str
    kind: Literal["module", "program"]
    title: str
    name: str
    topic: str
    text: str
    kernel: str
    featured: bool


class Examples(Schema):
    examples: list[Example]


class StrategyOption(Schema):
    name: str
    about: str
    default: Any
    kind: Literal["text", "number", "choice", "flag"]
    choices: list[Any]
    low: float | None
    high: float | None
    longest: int | None


class StrategyOut(Schema):
    """`asks`: it asks a language model."""

    name: str
    title: str
    about: str
    asks: bool
    options: list[StrategyOption]


class Strategies(Schema):
    strategies: list[StrategyOut]


class Engines(Schema):
    engines: list[EngineOut]
    queued: int


FIGURES = json_of(
    {
        "type": "object", "description": "by name; null while there is nothing to draw",
        "additionalProperties": {
            "anyOf": [
                {"type": "null"},
                {
                    "type": "object", "required": ["figure", "rows", "title", "caption"],
                    "properties": {
                        "figure": {"type": "object", "description": "Plotly's {data, layout}"},
                        "rows": {"type": "array", "items": {"type": "object"}, "description": "the table of it"},
                        "title": {"type": "string"}, "caption": {"type": "string"},
                    },
                },
            ],
        },
    }
)  # fmt: skip
