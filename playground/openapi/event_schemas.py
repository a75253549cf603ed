"""JSON schemas of the events of a session's and a room's log, for the OpenAPI document.

They come from the classes that write the events, so they cannot disagree with a log of this version.
"""

from __future__ import annotations

import inspect
from typing import Any

from pydantic import TypeAdapter

from engine.session import events as of_sessions
from playground.openapi.forms import Failure
from playground.rooms import events as of_rooms

REF = "#/components/schemas/"
HEADERS = {
    "X-Control-Token": "the session's control token",
    "X-Owner-Key": "the key of owner tokens, from the page My sessions",
    "X-Seat-Token": "the seat's token, from joining",
    "X-Teacher-Token": "the room's teacher token, from opening it",
}
_PREFIX = "Event"  # of the names that an event's schema refers to; the API has a Prediction of its own


def components() -> dict[str, Any]:
    """{name: schema}: of each event, of the rows SessionEvent and RoomEvent, and of the pages of events."""
    schemas: dict[str, Any] = {}
    session_rows = _rows("Session", of_sessions.KINDS, schemas)
    room_rows = _rows("Room", of_rooms.KINDS, schemas, {"seat": _seat()})
    more = {"reached": {"type": "integer", "description": "the last event that was looked at"}}
    schemas |= {
        "SessionEvent": session_rows,
        "SessionEvents": _page("SessionEvent", ended={"type": "boolean", "description": "the log is complete here"}),
        "RoomEvent": room_rows,
        "RoomEvents": _page("RoomEvent", **more),
    }
    return schemas


def _seat() -> dict[str, Any]:
    about = "the seat that the event is about; null: the whole room"
    return {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": about}


def _rows(
    of: str, kinds: dict[str, type], schemas: dict[str, Any], more: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of a log's row: one of its kinds, each put into `schemas` under a name of its own."""
    names = {}
    for kind, cls in sorted(kinds.items()):
        data = TypeAdapter(cls).json_schema(ref_template=f"{REF}{_PREFIX}{{model}}")
        for name, schema in data.pop("$defs", {}).items():
            schemas[f"{_PREFIX}{name}"] = schema
        data.pop("description", None)
        properties = {
            "seq": {"type": "integer", "minimum": 1, "description": "its place in the log"},
            "kind": {"const": kind, "type": "string"},
            "t": {"type": "number", "description": "seconds since the epoch"},
            **(more or {}),
            "data": data,
        }
        names[kind] = f"{of}{cls.__name__}Event"
        schemas[names[kind]] = {
            "type": "object", "title": kind, "description": inspect.cleandoc(_doc(cls)), "properties": properties,
            "required": list(properties),
        }  # fmt: skip
    mapping = {kind: f"{REF}{name}" for kind, name in names.items()}
    return {
        "title": f"{of}Event", "description": f"One row of a {of.lower()}'s log.",
        "oneOf": [{"$ref": ref} for ref in mapping.values()],
        "discriminator": {"propertyName": "kind", "mapping": mapping},
    }  # fmt: skip


def _doc(cls: type) -> str:
    """The class's own words, "" if it has none: dataclasses make up a signature."""
    text = cls.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{cls.__name__}(") else text


def _page(row: str, **more: Any) -> dict[str, Any]:
    properties = {
        "events": {"type": "array", "items": {"$ref": f"{REF}{row}"}},
        "last": {"type": "integer", "description": "the log's last event"},
        **more,
    }
    return {"type": "object", "title": f"{row}s", "properties": properties, "required": list(properties)}


def describe(schema: dict[str, Any]) -> None:
    """Add the events and the refusals to an OpenAPI document, and write each header as a client sends it:
    X-Seat-Token."""
    schema["components"]["schemas"] |= components() | {"Failure": TypeAdapter(Failure).json_schema()}
    for path, name in (
        ("/api/sessions/{session_id}/events", "SessionEvents"),
        ("/api/rooms/{code}/events", "RoomEvents"),
    ):
        responses = schema["paths"][path]["get"]["responses"]
        responses[200] = {
            "description": "OK", "content": {"application/json": {"schema": {"$ref": f"{REF}{name}"}}},
        }  # fmt: skip
    for methods in schema["paths"].values():
        for operation in methods.values():
            operation["responses"]["4XX"] = {
                "description": "refused", "content": {"application/json": {"schema": {"$ref": f"{REF}Failure"}}},
            }  # fmt: skip
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "header":
                    parameter["name"] = parameter["name"].replace("_", "-").title()
                    parameter["description"] = HEADERS[parameter["name"]]
