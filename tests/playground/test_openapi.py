"""The API's document and its page: every event has a schema, every link leads somewhere."""

import json
import re

import pytest

from engine.session import events as of_sessions
from playground.api import api
from playground.openapi import event_schemas, page
from playground.rooms import events as of_rooms
from tests.playground import script


@pytest.fixture(scope="module")
def document():
    return json.loads(json.dumps(api.get_openapi_schema(path_params={}), default=str))


def test_every_kind_of_event_has_a_schema(document):
    schemas = document["components"]["schemas"]
    for row, kinds in (("SessionEvent", of_sessions.KINDS), ("RoomEvent", of_rooms.KINDS)):
        assert set(schemas[row]["discriminator"]["mapping"]) == set(kinds)
    read = document["paths"]["/api/sessions/{session_id}/events"]["get"]["responses"]["200"]
    assert read["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/SessionEvents"}


def test_what_is_written_fits_its_schema(document):
    jsonschema = pytest.importorskip("jsonschema")
    for event, _ in script.session():
        name = f"Session{type(event).__name__}Event"
        row = {"seq": 1, "kind": event.KIND, "t": 1.0, "data": of_sessions.encode(event)}
        jsonschema.validate(json.loads(json.dumps(row)), {**document["components"]["schemas"][name], **_all(document)})


def _all(document) -> dict:
    return {"components": document["components"]}


def test_no_reference_leads_nowhere_and_headers_are_as_clients_send_them(document):
    names = set(re.findall(re.escape(event_schemas.REF) + r"([\w.-]+)", json.dumps(document)))
    assert names <= set(document["components"]["schemas"])
    headers = {
        p["name"] for path in document["paths"].values() for o in path.values() for p in o.get("parameters", ())
        if p["in"] == "header"
    }  # fmt: skip
    assert headers == {"X-Control-Token", "X-Owner-Key", "X-Seat-Token", "X-Teacher-Token"}


def test_a_type_is_a_few_words():
    assert page.words({"anyOf": [{"type": "integer"}, {"type": "null"}]}) == "whole number or null"
    assert page.words({"type": "array", "items": {"$ref": "#/components/schemas/Fix"}}) == "list of Fix"
    assert page.link({"anyOf": [{"type": "null"}, {"items": {"$ref": "#/components/schemas/Fix"}}]}) == "Fix"
    assert page.words({"enum": ["a", None]}) == '"a" | null' and page.words({}) == "any value"


@pytest.mark.django_db
def test_the_page_lists_every_address_and_needs_no_script(client, document):
    text = client.get("/api/docs").content.decode()
    for path, methods in document["paths"].items():
        assert f"<code>{path}</code>" in text and all(f'id="{o["operationId"]}"' in text for o in methods.values())
    assert "swagger" not in text.lower() and not re.findall(r"<script(?![^>]*theme)", text)
