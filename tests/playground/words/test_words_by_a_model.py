"""Words that go to a model: the web process writes a row, the engine asks the model and answers in it. The web server,
the engine and the endpoint are real ones."""

import contextlib
import json
import sqlite3
import time
import urllib.error
import urllib.request

import pytest

from engine.llm.rehearse.player import Player
from playground.live import descriptions, desk
from playground.words.writer import LONGEST
from tests.engine.llm.server import ModelServer, drip, says, wait_for
from tests.engine.llm.test_module_writer import MODULE, as_reply
from tests.playground.conftest import House

KEY = "sk-secret-words-0123456789"
WORDS = "a gated thing from 512 to 768 with GELU, 64 rows"


@pytest.fixture(scope="module")
def server():
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def house(tmp_path_factory, server):
    """A web server without any setting of a model, and one engine with a key."""
    built = House(tmp_path_factory.mktemp("house"), UCUTLASS_LEASE_SECONDS="3")
    built.web()
    plain = built.environ
    settings = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "UCUTLASS_MODEL_WORDS": "scripted-words"}
    built.environ = plain | settings
    built.model_engine = start(built)
    built.environ = plain
    yield built
    built.close()


def start(house):
    engine = house.start("manage.py", "engine", "--device", "modelled:h200", name=f"engine{len(house.processes)}")
    wait_for(lambda: any(e["device"].get("words") for e in house.get("/api/engines")["engines"]), 60)
    return engine


def asked(house, text=WORDS):
    return house.post("/api/words/model", {"text": text})


def ended(house, row, seconds=120):
    """The state of a description when it is done or failed."""
    states = []

    def over():
        states.append(house.get(f"/api/words/model/{row['id']}"))
        return states[-1]["state"] in ("done", "failed")

    wait_for(over, seconds)
    return states[-1]


def delete(house, row):
    address = f"http://127.0.0.1:{house.port}/api/words/model/{row['id']}"
    with urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=60) as reply:
        return reply.status


def test_the_engine_asks_the_model_and_the_answer_is_only_a_text(house, server):
    server.usual = says(as_reply())
    row = asked(house)
    assert row["model"] == "scripted-words" and row["host"] == server.url.split("/")[2]
    answer = ended(house, row)
    assert answer["state"] == "done" and answer["module"] == MODULE and answer["model"].startswith("scripted-1")
    assert answer["sentence"] == "A relu." and answer["assumed"] == ["8 rows"]
    with contextlib.closing(sqlite3.connect(house.var / "playground.sqlite3")) as database:
        sessions = database.execute("SELECT count(*) FROM playground_session").fetchone()
    assert sessions == (0,), "nothing starts before the visitor confirms it"
    sent = server.requests[-1]
    assert WORDS in json.dumps(sent.body) and sent.headers["Authorization"] == f"Bearer {KEY}"
    for path in house.var.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("text", ["", "no", "[]", as_reply("x = 1"), as_reply("import os"), "a" * (2 << 20)])
def test_a_bad_model_is_one_message_and_no_module(house, server, text):
    server.usual = says(text, piece=1 << 16)
    answer = ended(house, asked(house))
    assert answer["state"] == "failed" and answer["error"] and not answer["module"]
    assert answer["fix"] == descriptions.AGAIN


def test_a_visitor_who_cancels_or_goes_stops_the_model(house, server):
    server.usual = drip("slow " * 4000, 0.1)
    first = asked(house)
    wait_for(lambda: house.get(f"/api/words/model/{first['id']}")["state"] == "writing", 60)
    began = time.monotonic()
    assert delete(house, first) == 204
    with pytest.raises(urllib.error.HTTPError) as missing:
        house.get(f"/api/words/model/{first['id']}")
    assert missing.value.code == 404
    second = asked(house)
    assert delete(house, second) == 204
    server.usual = says(as_reply())
    assert ended(house, asked(house))["state"] == "done" and time.monotonic() - began < 200, (
        "all of the reply takes 400 s"
    )


def test_an_address_has_a_few_places_and_one_clear_message(house, server):
    server.usual = drip("slow " * 4000, 0.1)
    rows = [asked(house) for _ in range(desk.MOST_OF_ADDRESS)]
    refused = asked(house)
    assert "wait already" in refused["error"] and refused["fix"] == "Cancel one, or wait."
    for row in rows:
        assert delete(house, row) == 204
    assert "no description yet" in asked(house, " \n")["error"]
    assert f"over {LONGEST:,} characters" in asked(house, "a" * (LONGEST + 1))["error"]


def test_a_rehearsal_is_named_as_one(house, server):
    player = Player()

    def rehearse(x):
        says(player.reply("\n".join(m["content"] for m in x.body["messages"])))(x)

    server.usual = rehearse
    answer = ended(house, asked(house))
    assert answer["sentence"].startswith("Rehearsed: ") and "return [512, 768]" in answer["module"]
    session = house.post("/api/sessions", {"source": answer["module"], "trials": 1})
    assert house.wait(session["id"], lambda s: s["state"] == "ended")["summary"]["end"]["state"] == "done"


def test_a_lost_engine_is_said_and_nothing_is_asked_again(house, server):
    server.usual = drip("slow " * 4000, 0.1)
    row = asked(house)
    wait_for(lambda: house.get(f"/api/words/model/{row['id']}")["state"] == "writing", 60)
    house.model_engine.kill()
    house.model_engine.wait()
    many = len(server.requests)
    answer = ended(house, row)
    assert answer["error"] == "The engine was lost while the model wrote." and len(server.requests) == many
    refused = asked(house)
    assert refused["error"] == descriptions.NO_ENGINE and "manage.py engine" in refused["fix"]
    start(house)  # an engine without a model
    refused = asked(house)
    assert "OPENAI_API_KEY" in refused["error"] and "rules" in refused["fix"]
