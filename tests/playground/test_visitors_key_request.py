"""The request that brings a visitor's key: who may send it, when, and what is stored and answered."""

import json
import time
from types import SimpleNamespace

import pytest

from engine.llm.keys import KeyPair, KeyRequest
from engine.session import events
from playground.access import limits
from playground.adapter import Adapter
from playground.live import keys, log
from playground.live.running import Running
from playground.models import SealedKey, Session
from tests.playground import script

pytestmark = pytest.mark.django_db
ENDPOINT = "https://models.example/v1"
KEY = "sk-visitor-0123456789abcdef"
OWN = {"source": "class Model: ...", "strategy": "flat", "endpoint": ENDPOINT, "model": "theirs"}


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setenv("UCUTLASS_ENDPOINTS", f"{ENDPOINT}, http://plain.example/v1")


def post(client, path, body, **headers):
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.generic("POST", path, text, content_type="application/json", headers=headers)


@pytest.fixture
def waiting(client):
    """(session, its control token, lease, pair) of a session whose engine waits for the key."""
    answer = post(client, "/api/sessions", OWN).json()
    lease = log.claim("an engine")
    pair, (started, texts) = KeyPair(), next(script.session())
    log.append(lease, [(started, texts)])
    ask(lease, pair)
    session = Session.objects.get(id=answer["id"])
    return SimpleNamespace(session=session, token=answer["control_token"], lease=lease, pair=pair)


def ask(lease, pair):
    wanted = events.KeyWanted(pair.public_key, lease.claim, ENDPOINT, "theirs", time.time() + 60, text="waits")
    log.append(lease, [(wanted, {})])


def give(client, waiting, body=None, **headers):
    path = f"/api/sessions/{waiting.session.id}/key"
    return post(client, path, {"key": KEY} if body is None else body, **{"X-Control-Token": waiting.token, **headers})


def test_the_key_is_stored_sealed_for_the_engine_that_asked(client, waiting):
    answer = give(client, waiting)
    assert (answer.status_code, answer.json()) == (202, {"endpoint": ENDPOINT})
    row = SealedKey.objects.get()
    assert KEY.encode() not in bytes(row.sealed)
    assert waiting.pair.open(bytes(row.sealed), KeyRequest(waiting.session.id, waiting.lease.claim, ENDPOINT)) == KEY
    box = keys.Postbox(waiting.lease, lambda: True)
    assert waiting.pair.open(box.take(), KeyRequest(waiting.session.id, waiting.lease.claim, ENDPOINT)) == KEY
    assert not SealedKey.objects.exists(), "deleted on receipt"


def test_the_latest_of_two_keys_counts(client, waiting):
    for key in ("sk-mistyped-0123456", KEY):
        assert give(client, waiting, {"key": key}).status_code == 202
    sealed = keys.Postbox(waiting.lease, lambda: True).take()
    assert waiting.pair.open(sealed, KeyRequest(waiting.session.id, waiting.lease.claim, ENDPOINT)) == KEY


def test_an_owner_token_may_give_it_and_another_may_not(client):
    made_tokens = [post(client, "/api/tokens", {}).json()["token"] for _ in range(2)]
    own, other = ({"Authorization": f"Bearer {token}"} for token in made_tokens)
    session = post(client, "/api/sessions", OWN, **own).json()
    lease = log.claim("an engine")
    log.append(lease, [next(script.session())])
    ask(lease, KeyPair())
    path = f"/api/sessions/{session['id']}/key"
    statuses = [post(client, path, {"key": KEY}, **headers).status_code for headers in ({}, other, own)]
    assert statuses == [403, 403, 202]


ODD = [
    (b"", 400), (KEY, 400), (f'{{"{KEY}": 1}}', 422), (json.dumps([KEY]), 422), (json.dumps({"key": [KEY]}), 422),
    (json.dumps({"key": KEY, "more": 1}), 422), (json.dumps({"key": ""}), 422), (json.dumps({"key": f"{KEY} x"}), 422),
    (json.dumps({"key": f"{KEY}\u00e9"}), 422), (json.dumps({"key": KEY * 20}), 422),
    (json.dumps({"key": KEY * 90}), 413), (f'{{"key": "{KEY}', 400), (f'{"[" * 1000}"{KEY}"', 400),
    (json.dumps({"key": f"{KEY}\0"}), 422), (f'{{"key": "{KEY}\\ud800"}}', 422),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), ODD, ids=range(len(ODD)))
def test_an_odd_body_is_refused_and_never_repeated(client, waiting, body, status, caplog):
    answer = give(client, waiting, body)
    assert (answer.status_code, set(answer.json()) >= {"error", "fix"}) == (status, True)
    assert KEY not in answer.content.decode() + caplog.text and not SealedKey.objects.exists()


def test_a_mistake_of_ours_is_logged_without_the_key(client, waiting, monkeypatch, caplog, settings):
    settings.DEBUG = True
    client.raise_request_exception = False

    def broken(*arguments):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(keys, "seal", broken)
    answer = give(client, waiting)
    assert answer.status_code == 500 and "on fire" in caplog.text
    assert KEY not in answer.content.decode() + caplog.text


def test_a_key_that_nobody_waits_for_is_refused(client, waiting):
    plain = post(client, "/api/sessions", {"source": "class Model: ..."}).json()
    answer = post(
        client, f"/api/sessions/{plain['id']}/key", {"key": KEY}, **{"X-Control-Token": plain["control_token"]}
    )
    assert answer.status_code == 409 and "needs no key" in answer.json()["error"]
    log.append(waiting.lease, [(events.KeyReceived(waiting.lease.claim), {})])
    assert "has the key" in give(client, waiting).json()["error"]
    log.append(waiting.lease, [(events.SessionEnded("stopped", "by its owner", {}, 0, 0.0, "stopped"), {})])
    assert "has ended" in give(client, waiting).json()["error"]
    assert not SealedKey.objects.exists()


def test_a_key_for_a_lost_engine_is_dropped_and_the_next_one_asks_again(client, waiting):
    give(client, waiting)
    log.release(waiting.lease)
    assert give(client, waiting).status_code == 409, "no engine waits"
    lease = log.claim("another engine")
    box = keys.Postbox(lease, lambda: True)
    assert lease.own_key and box.take() is None and not SealedKey.objects.exists()
    assert give(client, waiting).status_code == 409, "the request of the lost engine is over"
    pair = KeyPair()
    log.append(lease, [(events.Resumed("continued"), {})])
    ask(lease, pair)
    assert give(client, waiting).status_code == 202
    stale = keys.Postbox(waiting.lease, lambda: True)
    assert stale.take() is None, "an engine that lost the session does not take the key"
    box._looked = 0.0
    assert pair.open(box.take(), KeyRequest(waiting.session.id, lease.claim, ENDPOINT)) == KEY


def test_keys_are_rate_limited(client, waiting, monkeypatch):
    monkeypatch.setattr(limits, "keys", limits.Limit(3, 60))
    statuses = [give(client, waiting, {"key": "x"}).status_code for _ in range(5)]
    assert statuses == [422, 422, 422, 429, 429]


def test_plain_http_from_elsewhere_is_refused(client, waiting):
    client.defaults["REMOTE_ADDR"] = "203.0.113.7"
    answer = give(client, waiting)
    assert answer.status_code == 403 and "plain http" in answer.json()["error"] and not SealedKey.objects.exists()


def test_tls_from_elsewhere_is_not_refused(client, waiting):
    client.defaults["REMOTE_ADDR"] = "203.0.113.7"
    path, headers = f"/api/sessions/{waiting.session.id}/key", {"X-Control-Token": waiting.token}
    answer = client.post(path, {"key": KEY}, content_type="application/json", headers=headers, secure=True)
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"endpoint": "https://elsewhere.example/v1"}, "endpoint", f"This server allows {ENDPOINT}."),
        ({"endpoint": "http://plain.example/v1"}, "endpoint", "https"),
        ({"model": ""}, "model", "Name a model"),
        ({"strategy": "planner"}, "endpoint", "Leave it out"),
        ({"key": KEY}, "key", "Leave it out"),
    ],
)
def test_a_session_takes_listed_endpoints_and_no_key(client, fields, field, words):
    answer = post(client, "/api/sessions", OWN | fields)
    body = answer.json()
    assert answer.status_code == 422 and body["field"] == field and words in body["fix"] + body["error"]
    assert KEY not in answer.content.decode()


def test_one_address_has_few_sessions_that_wait_for_keys(client):
    answers = [post(client, "/api/sessions", OWN).status_code for _ in range(7)]
    assert answers == [201] * 5 + [429] * 2


def test_sessions_that_wait_hold_no_place_of_the_engine(client):
    """`most` sessions may wait beside `most` that work, and go on one by one."""
    engine = Adapter(script.run, serves="modelled:h200", about={}, memory=SimpleNamespace(fits_another=lambda *n: True))
    engine.most = 2

    class Alive:
        def is_alive(self):
            return True

    def running(waits):
        one = Running(log.Lease("s", "e", 1, own_key=waits), script.run, "modelled:h200", None)
        one.settled = True
        return one

    waits = [running(True) for _ in range(2)]
    engine.running = {Alive(): r for r in waits}
    post(client, "/api/sessions", OWN)
    assert engine._claim() is None, "no more than `most` wait"
    post(client, "/api/sessions", {"source": "class Model: ..."})
    assert not engine._claim().own_key, "and they hold nobody else up"
    assert engine._admit(waits[0]) and not waits[0].waits
    engine.running[Alive()] = running(False)
    assert not engine._admit(waits[1]) and waits[1].waits, "both places are taken"
