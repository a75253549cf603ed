"""The API's document and its page: every event has a schema, every link leads somewhere."""

import ast
import json
import re

import pytest

from engine.session import events as of_sessions
from engine.session.spec import strategies
from playground import engines
from playground.api import api, describe
from playground.conf import ROOT
from playground.language import examples
from playground.live.viewers import BROKEN, GUESSING, MALFORMED, MESSAGES, UNKNOWN
from playground.models import Engine, Session
from playground.openapi import event_schemas, page
from playground.rooms import events as of_rooms
from playground.rooms.socket.consumer import REFUSED
from tests.playground import script
from tests.playground.test_request_table import routes


@pytest.fixture(scope="module")
def document():
    return json.loads(json.dumps(api.get_openapi_schema(path_params={}), default=str))


def test_it_is_made_once_and_again_for_other_limits(monkeypatch):
    assert api.get_openapi_schema(path_params={}) is api.get_openapi_schema(path_params={})
    monkeypatch.setenv("UCUTLASS_MAX_TRIALS", "7")
    budget = api.get_openapi_schema(path_params={})["components"]["schemas"]["BudgetIn"]["properties"]["trials"]
    assert "from 1 to 7" in budget["description"]


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


@pytest.mark.django_db
def test_the_page_describes_every_message_of_both_sockets(client):
    text = client.get("/api/docs").content.decode()
    live = text[text.index('id="live"') : text.index('id="schemas"')]
    served = {"events", "last", "ended", "state", "queue", "engine", "text", "viewers", "seat", "session", "online"}
    for key in {*MESSAGES, "token", "after", *served, "sessions", "ping", "error"}:
        assert f'"{key}"' in live, key
    for code in (MALFORMED, UNKNOWN, GUESSING, BROKEN, REFUSED):
        assert str(code) in live
    for source in ("playground/live/sockets.py", "playground/rooms/socket/consumer.py"):
        about = ast.get_docstring(ast.parse((ROOT / source).read_text()))
        assert {key for key in re.findall(r'\{"(\w+)"', about) if f'"{key}"' not in live} == set(), source


@pytest.mark.django_db
def test_no_field_of_an_answer_is_lost_to_its_form(client):
    """A field that a form lacks would be dropped in silence."""

    def whole(path: str, data) -> bool:
        return client.get(path).json() == json.loads(json.dumps(data))

    engine = Engine.objects.create(id="here", serves="modelled:h200", device={"name": "a model"})
    session = Session.objects.create(title="t", spec={"source": "x"}, control_hash="c")
    assert whole("/api/strategies", {"strategies": strategies()})
    assert whole("/api/examples", {"examples": examples.all_examples()})
    assert whole("/api/engines", {"engines": [engines.describe(engine)], "queued": 1})
    assert whole(f"/api/sessions/{session.id}", describe(session))


def bare(schema: dict) -> bool:
    """Whether a schema says nothing of what is in an answer."""
    return not schema or (schema.get("type") == "object" and not schema.keys() & {"properties", "additionalProperties"})


def test_every_answer_has_a_schema_or_another_content_type(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            assert answers.pop("4XX")["content"]["application/json"]["schema"]["$ref"].endswith("/Failure")
            for status, answer in answers.items():
                content = answer.get("content", {})
                assert content or status == "204", (method, path)
                assert not any(bare(body["schema"]) for body in content.values()), (method, path)


# What a page shows or does -> where the API does it; "" for a page that is nothing but its script and words.
PAGES = {
    "": "/api/examples /api/strategies /api/engines /api/check /api/compile /api/limits /api/words /api/sessions",
    "s/<str:session_id>": "/api/sessions/{session_id} /api/sessions/{session_id}/events /api/figures/{session_id} "
    "/api/sessions/{session_id}/blobs/{sha256} /api/sessions/{session_id}/trials/{trial}/profile",
    "c/<str:token>": "/api/sessions/{session_id}/commands /api/sessions/{session_id}/key "
    "/api/sessions/{session_id}/pin /api/sessions/{session_id}/snapshots /api/sessions/{session_id}/notes/{trial}",
    "s/<str:session_id>/fork": "/api/sessions/{session_id} /api/sessions",
    "s/<str:session_id>/export": "/api/sessions/{session_id}/export",
    "embed/<str:session_id>": "/api/sessions/{session_id}/events",
    "framed/<str:session_id>": "/api/sessions/{session_id}/events",
    "card/<str:session_id>.png": "/api/sessions/{session_id}",
    "w": "/api/rooms/{code}",
    "w/new": "/api/lessons /api/own-lesson /api/rooms",
    "w/<str:code>": "/api/rooms/{code}/seats /api/rooms/{code}/seat /api/rooms/{code}/lessons/{lesson} "
    "/api/rooms/{code}/test/{part} /api/rooms/{code}/steps /api/rooms/{code}/answers /api/rooms/{code}/sessions "
    "/api/rooms/{code}/events",
    "w/<str:code>/wall": "/api/rooms/{code}/results /api/rooms/{code}/commands /api/rooms/{code}/test "
    "/api/rooms/{code}/results.csv /api/rooms/{code}/moved.csv /api/rooms/{code}",
    "w/<str:code>/wall/<str:token>": "/api/rooms/{code}/results",
    "mine": "/api/tokens /api/tokens/{token_id}",
    "gallery": "/api/recordings /api/suite",
    "gallery/compare": "/api/comparisons",
    "gallery/suite/<str:name>": "/api/suite/{name}",
    "gallery/kernelbench": "/api/kernelbench",
    "gallery/kernelbench/<path:name>": "/api/kernelbench/{name}",
    "learn": "/api/lessons",
    "learn/own": "/api/own-lesson /api/own-lesson/answers",
    "learn/<str:slug>": "/api/lessons/{slug} /api/lessons/{slug}/answers",
    "language": "/api/words",
    "language/<str:word>": "/api/explain",
    "healthz": "/api/engines",
}
NO_PAGES = {"robots.txt", "favicon.ico", "mcp"}


def test_every_page_has_its_actions_in_the_api(document):
    pages = {route for route in routes() if not route.startswith("api/")} - NO_PAGES
    assert pages == PAGES.keys()
    assert {path for paths in PAGES.values() for path in paths.split()} <= document["paths"].keys()


def test_every_request_of_a_pages_script_is_in_the_document(document):
    """The addresses that the scripts ask, with any value for what they fill in."""
    forms = [re.compile(re.sub(r"\\{\w+\\}", r"[^/?]+", re.escape(path)) + r"(\?.*)?") for path in document["paths"]]
    asked = set()
    for script_ in (ROOT / "static/js").rglob("*.js"):
        for text in re.findall(r"[`\"](/api/[^`\"]*)[`\"]", script_.read_text()):
            asked.add(re.sub(r"\$\{[^}]*\}", "X", text))
    asked -= {"/api/docs", "/api/rooms/X/X"}  # a room's scripts put the rest of a path together
    unknown = {path for path in asked if not any(form.fullmatch(path) for form in forms)}
    assert len(asked) > 20 and unknown == set()


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
