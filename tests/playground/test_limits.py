"""What a visitor may ask for: sizes, rates, fields. Each refusal is one {error, fix} with the status that fits."""

import json

import pytest

from engine.session import events
from playground import summary
from playground.access import limits
from playground.language import service
from playground.models import Session

pytestmark = pytest.mark.django_db


def start(client, **fields):
    return client.post("/api/sessions", {"source": "class Model: ...", **fields}, content_type="application/json")


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"source": "x" * 65_537}, 413, "64 KiB"),
        ({"source": ""}, 422, "paste"),
        ({"source": "   \n"}, 422, "paste"),
        ({"source": "a\0b"}, 422, "NUL"),
        ({"source": 3}, 422, "source: a PyTorch module or a μCUTLASS program"),
        ({"source_kind": "poem"}, 422, "source_kind: 'poem' is not one of module, program"),
        ({"classes": "f16"}, 422, "classes: at least one of f32, tf32"),
        ({"device": "gameboy"}, 422, "modelled:h200"),
        ({"classes": []}, 422, "classes"),
        ({"classes": ["f7"]}, 422, "f7"),
        ({"trials": 0}, 422, "trials"),
        ({"trials": 0}, 422, "from 1 to 400"),
        ({"trials": 401}, 422, "from 1 to 400"),
        ({"trials": 99_999_999}, 422, "from 1 to 400"),
        ({"trials": 1.5}, 422, "trials: a whole number from 1 to 400"),
        ({"trials": True}, 422, "trials: a whole number"),
        ({"trials": "3"}, 422, "trials: a whole number"),
        ({"eps": "much"}, 422, "eps: a number"),
        ({"strategy": "oracle"}, 422, "'oracle' is not one of planner"),
        ({"strategy": "x" * 10_000}, 422, "xxx… is not one of planner"),
        ({"device": "modelled:gameboy"}, 422, "modelled:h200"),
        ({"options": {"order": "listed"}}, 422, "options: strategy planner has no option 'order'; it has none"),
        (
            {"strategy": "sweep", "options": {"order": "best"}},
            422,
            "options: order: one of predicted, listed, shuffled (",
        ),
        ({"strategy": "sweep", "options": {"limit": -1}}, 422, "options: limit: a whole number from 0 ("),
        ({"strategy": "sweep", "options": {"structure": 9}}, 422, "options: structure: a whole number from 1 to 8 ("),
        ({"seed": 2**63}, 422, "seed: a whole number from 0 to 9223372036854775807."),
        ({"strategy": "sweep", "options": 7}, 422, "options: an object with the strategy's own options"),
        ({"foo": 1}, 422, "foo: no such field"),
        ({"x" * 10_000: 1}, 422, "no such field"),
        ({"title": "a\0b"}, 422, "title"),
        ({"eps": -1}, 422, "eps"),
        ({"window": 0}, 422, "window"),
        ({"algebraic": 1}, 422, "algebraic"),
        ({"title": "t" * 201}, 422, "title"),
    ],
)
def test_a_field_that_is_wrong_is_named(client, fields, status, word):
    reply = start(client, **fields)
    assert reply.status_code == status and word in reply.json()["error"] and reply.json()["fix"]
    assert "Correct the field" not in reply.json()["fix"] and len(reply.content) < 600
    assert not Session.objects.exists()


def test_an_option_out_of_range_names_the_values_that_fit(client):
    refusal = start(client, strategy="sweep", options={"structure": 9}).json()
    assert refusal["fix"] == (
        'structure takes a whole number from 1 to 8. Write for example {"structure": 1}, or leave structure out.'
    )


@pytest.mark.parametrize("most", [None, "77"])
def test_the_description_of_the_api_names_the_limit_that_the_server_keeps(client, monkeypatch, most):
    if most:
        monkeypatch.setenv("UCUTLASS_MAX_TRIALS", most)
    most = int(most or 400)
    schemas = client.get("/api/openapi.json").json()["components"]["schemas"]
    trials = schemas["SpecFields"]["properties"]["trials"]
    assert (trials["minimum"], trials["maximum"]) == (1, most) and f"from 1 to {most}" in trials["description"]
    assert f'"maximum": {most}' in json.dumps(schemas["BudgetIn"]["properties"]["trials"])
    assert start(client, trials=most + 1).status_code == 422 and start(client, trials=most).status_code == 201


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"x"', "9" * 50])
def test_a_body_that_is_no_object_is_told_so(client, body):
    reply = client.post("/api/sessions", body, content_type="application/json")
    assert reply.status_code in (400, 422) and "fix" in reply.json()
    assert "JSON object" in reply.json()["error"] + reply.json()["fix"]


def test_a_body_over_the_limit_is_not_read(client):
    reply = start(client, source="x" * 1_000_000)
    assert reply.status_code == 413 and reply.json()["fix"]


def test_lone_surrogates_are_no_text(client):
    body = b'{"source": "class Model: \\ud800"}'
    reply = client.post("/api/sessions", body, content_type="application/json")
    assert reply.status_code == 422 and reply.json()["error"]


def test_exactly_the_limit_is_accepted(client):
    assert start(client, source="#" * 65_536).status_code == 201


@pytest.mark.parametrize(
    ("source", "kind", "title"),
    [
        ('"""Linear, 8192 to 8192."""\nclass Model: ...', "module", "A PyTorch module"),  # until it is traced
        ("import torch\nclass Fancy(nn.Module): ...", "module", "A PyTorch module"),
        ("x = 1", "module", "A PyTorch module"),
        ("# 8192 rows.\nprogram gate(x: f16[8, 8]) -> f16[8, 8] {\n  return x\n}", "program", "gate"),
        ("# no name", "program", "A μCUTLASS program"),
    ],
)
def test_a_session_without_a_title_gets_none_from_a_docstring(client, source, kind, title):
    start(client, source=source, source_kind=kind)
    assert Session.objects.get().title == title


def test_a_title_has_no_characters_that_nobody_sees(client):
    """Such as those that turn the direction of what follows on a page."""
    asked = {"source": "class Model: ...", "title": "one\u202e owt \u2066three "}
    assert client.post("/api/sessions", asked, content_type="application/json").status_code == 201
    assert Session.objects.get().title == "one owt three"


def test_a_session_without_a_title_is_called_by_what_it_computes_once_it_is_traced(client):
    start(client, source="class Model(nn.Module): ...")
    session = Session.objects.get()
    started = events.SessionStarted(session.title, "", "module", {}, "planner", [], {})
    traced = events.Traced("", 2, 0.1, "linear 8192x8192, gelu on 1,024 rows")
    rows = [{"seq": n, "kind": e.KIND, "t": n, "data": events.encode(e)} for n, e in enumerate((started, traced), 1)]
    summary.take(session, rows)
    assert session.title == "linear 8192x8192, gelu on 1,024 rows"


def test_one_address_may_start_so_many_sessions_an_hour(client, monkeypatch):
    monkeypatch.setattr(limits, "sessions", limits.Limit(2, 3600))
    assert [start(client).status_code for _ in range(3)] == [201, 201, 429]
    assert "Try again in" in start(client).json()["fix"]
    other = client.post("/api/sessions", {"source": "x"}, content_type="application/json", REMOTE_ADDR="10.0.0.9")
    assert other.status_code == 201


def test_a_limit_opens_again_with_time():
    limit = limits.Limit(2, 10)
    assert [limit.wait("a", now) for now in (0, 1, 2)] == [0, 0, 8]
    assert limit.wait("a", 10.5) == 0
    assert limit.wait("b", 2) == 0


def test_many_addresses_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(limits, "MAX_ADDRESSES", 100)
    limit = limits.Limit(1, 10)
    for i in range(1000):
        limit.wait(str(i), now=i)
    assert len(limit._calls) == 100


def test_a_full_queue_refuses_the_next(client, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE", "1")
    assert [start(client).status_code for _ in range(2)] == [201, 503]


def test_a_proxys_word_counts_only_when_trusted(rf, monkeypatch):
    request = rf.get("/", HTTP_X_FORWARDED_FOR="1.1.1.1, 2.2.2.2", REMOTE_ADDR="9.9.9.9")
    assert limits.address(request) == "9.9.9.9"
    monkeypatch.setenv("UCUTLASS_TRUST_PROXY", "1")
    assert limits.address(request) == "2.2.2.2", "the hop that our proxy saw, not what the visitor claims"


def test_a_mistake_of_ours_is_json_too(client, monkeypatch):
    monkeypatch.setattr(service, "check", lambda text: 1 / 0)
    reply = client.post("/api/check", {"text": "x"}, content_type="application/json")
    assert reply.status_code == 500 and "ZeroDivision" not in reply.content.decode() and reply.json()["fix"]
