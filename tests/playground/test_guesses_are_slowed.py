"""An address that guesses links is slowed, and an honest viewer behind it keeps the sessions on the screen."""

import pytest

from playground.access import limits
from playground.models import Session
from tests.playground.websocket import Closed, WebSocket

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(limits, "guesses", limits.Guesses(3, 10))


@pytest.fixture
def session(client):
    return client.post("/api/sessions", {"source": "class Model: ..."}, content_type=JSON).json()


WRONG = ("/s/x{}", "/c/x{}", "/s/x{}/fork", "/s/x{}/export", "/api/sessions/x{}", "/api/sessions/x{}/events",
         "/api/figures/x{}", "/api/sessions/x{}/blobs/00")  # fmt: skip


@pytest.mark.parametrize("path", WRONG)
def test_wrong_links_are_slowed_after_a_few(client, three, path):
    replies = [client.get(path.format(n)) for n in range(5)]
    assert [r.status_code for r in replies] == [404, 404, 404, 429, 429]
    assert 1 <= int(replies[-1]["Retry-After"]) <= 10 and "do not exist" in replies[-1].content.decode()


def test_wrong_control_tokens_are_slowed_and_the_owner_is_not(client, three, session):
    def pause(token):
        body = {"kind": "pause", "control_token": token}
        return client.post(f"/api/sessions/{session['id']}/commands", body, content_type=JSON).status_code

    assert pause(session["control_token"]) == 202
    assert [pause(f"guess{n}") for n in range(5)] == [403, 403, 403, 429, 429]
    assert pause(session["control_token"]) == 202, "the owner gave it before"
    assert client.get(f"/c/{session['control_token']}").status_code == 200, "the address started it"
    assert pause("") == 403, "no token is no guess"


def test_an_address_over_the_limit_learns_nothing_of_a_link_that_exists(client, three):
    links = [Session.objects.create(title="t", spec={"source": "", "source_kind": "module"}).id for _ in range(2)]
    assert client.get(f"/api/sessions/{links[0]}").status_code == 200
    for n in range(3):
        client.get(f"/s/x{n}")
    assert client.get(f"/api/sessions/{links[1]}").status_code == client.get("/api/sessions/x").status_code == 429
    assert client.get(f"/api/sessions/{links[0]}").status_code == 200, "this one is on the screen"
    assert client.get(f"/api/sessions/{links[1]}", REMOTE_ADDR="10.0.0.9").status_code == 200


def test_right_links_do_not_count(client, three, session):
    for _ in range(10):
        Session.objects.create(title="t", spec={"source": "", "source_kind": "module"})
    assert [client.get(f"/api/sessions/{s.id}").status_code for s in Session.objects.all()] == [200] * 11
    assert client.get("/api/sessions/x").status_code == 404


def test_a_guess_is_free_again_after_a_while():
    guesses = limits.Guesses(2, 10)
    assert [guesses.wait("a", str(n), now=0) for n in range(4)] == [0, 0, 10, 10]
    assert guesses.wait("a", "5", now=4) == pytest.approx(6)
    assert guesses.wait("a", "6", now=10) == 0 and guesses.wait("a", "7", now=10) == 10
    assert [guesses.wait("a", str(n), now=1000) for n in range(3)] == [0, 0, 10], "no more than at first"


def test_neither_addresses_nor_links_fill_the_memory(monkeypatch):
    monkeypatch.setattr(limits, "MAX_ADDRESSES", 50)
    guesses = limits.Guesses(2, 10)
    for n in range(500):
        guesses.right(str(n), "x")
        guesses.right("a", str(n))
    assert len(guesses._visitors) <= 51 and len(guesses._visitors["a"].opened) == limits.MAX_LINKS


def test_sockets_count_too(house):
    session = house.submit()
    codes = []
    for n in range(32):
        with WebSocket(house.port, f"/ws/s/x{n}") as ws, pytest.raises(Closed) as closed:
            while True:
                ws.receive()
        codes.append(closed.value.code)
    assert codes[:30] == [4404] * 30 and codes[-1] == 4429
    with WebSocket(house.port, f"/ws/s/{session['id']}") as ws:
        assert ws.until("viewers") == {"viewers": 1}
