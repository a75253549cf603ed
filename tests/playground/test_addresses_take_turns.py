"""One address cannot fill the queue, engines serve addresses in turn, and little is kept of an address, briefly."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone

from engine.session import events
from playground import engines, retention
from playground.access import limits
from playground.live import log, turns
from playground.models import Engine, Session, Turn, Waste
from tests.playground.conftest import House

pytestmark = pytest.mark.django_db
START = timezone.now() - timedelta(minutes=5)


def start(client, address="10.0.0.1"):
    body = {"source": "class Model: ..."}
    return client.post("/api/sessions", body, content_type="application/json", REMOTE_ADDR=address)


def waits(*origins: str) -> None:
    """Sessions of these origins that wait, in this order; each is called by its origin and its number there."""
    for origin in origins:
        number = Session.objects.filter(origin=origin).count() + 1
        created = START + timedelta(seconds=Session.objects.count())
        Session.objects.create(title=f"{origin}{number}", spec={}, origin=origin, created=created)


def title_of(lease: log.Lease) -> str:
    return Session.objects.get(id=lease.session_id).title


def end(lease: log.Lease) -> None:
    log.append(lease, [(events.SessionEnded("done", "r", {}, 0, 0.0), {})])


def one_after_the_other(engine: str = "engine") -> list[str]:
    """What one engine takes, each session ended before the next."""
    titles = []
    while lease := log.claim(engine):
        titles.append(title_of(lease))
        end(lease)
    return titles


# ---- the cap ----


def test_one_address_has_so_many_places_and_the_others_have_the_rest(client, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE", "10")
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "3")
    assert [start(client).status_code for _ in range(5)] == [201, 201, 201, 429, 429]
    reply = start(client).json()
    assert reply["error"] == "3 sessions from this address wait already." and "stop one" in reply["fix"]
    assert start(client, "10.0.0.2").status_code == 201
    log.claim("engine")
    assert start(client).status_code == 201, "a session that runs waits no more"


def test_a_cap_beyond_the_queue_leaves_a_place_to_the_others(client, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE", "4")
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "50")
    assert [start(client).status_code for _ in range(4)] == [201, 201, 201, 429]
    assert start(client, "10.0.0.2").status_code == 201
    assert start(client, "10.0.0.3").status_code == 503


def test_the_default_is_well_below_the_queue(client):
    answers = [start(client).status_code for _ in range(100)]
    assert answers.count(201) == 20 and set(answers[20:]) == {429}


def test_the_addresses_of_an_ipv6_network_are_one(client, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "2")
    mine = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2:3:4:5:6")
    assert [start(client, a).status_code for a in mine] == [201, 201, 429]
    assert start(client, "2001:db8:1:3::1").status_code == 201
    assert limits.address(type("R", (), {"META": {"REMOTE_ADDR": "::ffff:10.0.0.1"}, "headers": {}})()) == "10.0.0.1"


def test_requests_side_by_side_do_not_pass_the_cap(tmp_path):
    house = House(tmp_path, UCUTLASS_QUEUE_PER_ADDRESS="5")
    try:
        house.web()
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda i: house.submit(f"pace {i}"), range(36)))
        assert sum("id" in m for m in replies) == 5 and {m["error"] for m in replies if "error" in m} == {
            "5 sessions from this address wait already."
        }
        with sqlite3.connect(tmp_path / "playground.sqlite3") as db:
            assert db.execute("SELECT count(*), count(DISTINCT origin) FROM playground_session").fetchone() == (5, 1)
    finally:
        house.close()


# ---- the turns ----


def test_addresses_take_turns():
    waits(*"aaaaa", *"bb", "c")
    assert one_after_the_other() == ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5"]


def test_who_has_the_fewest_running_comes_first():
    waits(*"aaaa", *"bb", "c")
    assert [title_of(log.claim(f"engine{i}")) for i in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert log.claim("engine") is None


def test_one_session_after_the_other_wins_no_turn():
    """b has one session at a time and starts the next when it ends; a's wait all the while."""
    waits(*"aaa", "b")
    titles = []
    for _ in range(6):
        lease = log.claim("engine")
        titles.append(title_of(lease))
        end(lease)
        if titles[-1].startswith("b"):
            waits("b")
    assert [t[0] for t in titles] == list("ababab")


def test_one_address_alone_is_served_in_order():
    waits(*"aaa")
    assert one_after_the_other() == ["a1", "a2", "a3"]


def test_a_session_that_was_begun_goes_on_first():
    waits(*"ab")
    lease = log.claim("lost")
    log.append(lease, [(events.Progress("begun"), {})])
    log.release(lease)
    waits("c")
    assert title_of(log.claim("engine")) == "a1"


def test_a_place_in_the_queue_is_the_place_in_the_order_of_turns():
    Engine.objects.create(id="engine", serves="modelled:h200")
    waits(*"aaaa", *"bb", "c")
    end(log.claim("engine"))
    places = {s.title: engines.state_message(s)["queue"] for s in Session.objects.filter(state=Session.QUEUED)}
    assert sorted(places, key=places.get) == ["b1", "c1", "a2", "b2", "a3", "a4"]
    assert sorted(places.values()) == [1, 2, 3, 4, 5, 6]
    assert one_after_the_other() == sorted(places, key=places.get)


def test_who_waits_behind_others_learns_whether_their_end_matters(monkeypatch):
    Engine.objects.create(id="engine", serves="modelled:h200", sessions=1)
    waits("a")
    monkeypatch.setenv("UCUTLASS_SESSIONS", "3")
    waits("b", "c", "d")
    texts = [engines.state_message(s)["text"] for s in Session.objects.order_by("id")]
    by_place = {t.partition(" before")[0]: t for t in texts}
    assert by_place["Next in the queue."], texts
    assert by_place["Queued: 1"] == "Queued: 1 before this one. It begins with them: an engine runs many at once."
    assert by_place["Queued: 2"] == "Queued: 2 before this one. It begins as others end."


# ---- what is kept of an address ----


def test_a_session_keeps_a_keyed_hash_of_its_address_until_it_ends(client, settings):
    start(client, "203.0.113.77")
    session = Session.objects.get()
    assert len(session.origin) == 16 and int(session.origin, 16)
    assert "203.0.113" not in json.dumps(Session.objects.values().get(), default=str)
    settings.SECRET_KEY = "another installation's"
    start(client, "203.0.113.77")
    assert len(set(Session.objects.values_list("origin", flat=True))) == 2
    for reply in (client.get(f"/api/sessions/{session.id}"), client.get(f"/s/{session.id}")):
        assert session.origin not in reply.content.decode()
    log.release(log.claim("first"))
    session.refresh_from_db()
    assert session.origin, "a session that goes back to the queue still has its turn"
    for _ in range(2):
        end(log.claim("engine"))
    assert set(Session.objects.values_list("origin", flat=True)) == {""}


def test_a_session_that_is_given_up_forgets_it_too(client):
    start(client)
    lease = log.claim("engine")
    log.abandon(lease, "it broke")
    assert Session.objects.get().origin == ""
    start(client)
    log.end_unclaimed(Session.objects.get(state=Session.QUEUED).id, "stopped")
    assert set(Session.objects.values_list("origin", flat=True)) == {""}


def test_when_an_address_was_served_is_forgotten_after_an_hour():
    waits(*"ab")
    one_after_the_other()
    assert {t.origin for t in Turn.objects.all()} == {"a", "b"}
    Turn.objects.filter(origin="a").update(served=timezone.now() - turns.KEPT - timedelta(seconds=1))
    retention.sweep()
    assert [t.origin for t in Turn.objects.all()] == ["b"]
    Turn.objects.update(served=timezone.now() - turns.KEPT - timedelta(seconds=1))
    waits("c")
    log.claim("engine")
    assert [t.origin for t in Turn.objects.all()] == ["c"]


# ---- sessions that only take time ----


def burn(origin: str, seconds: float = 30.0, **end) -> None:
    """A session of this origin ends after so many seconds of an engine's work."""
    waits(origin)
    lease = log.claim("engine")
    assert title_of(lease).startswith(origin)
    fields = {"trials": 0, "code": "timeout", "spent": {"trace": seconds, "wait_core": 99.0, "gpu": 99.0}} | end
    log.append(lease, [(events.SessionEnded("refused", "r", {}, seconds=200.0, **fields), {})])


def test_sessions_without_a_trial_count_as_running_ones_of_their_address():
    burn("a")
    waits(*"aa", *"bb", "c")
    assert [title_of(log.claim(f"engine{i}"))[0] for i in range(5)] == list("bcaba"), "as if one of a were running"


@pytest.mark.parametrize(
    "end",
    [{"seconds": 3.0}, {"trials": 1}, {"code": "engine_lost"}, {"code": "engine_error"}, {"spent": {"wait_gpu": 50.0}}],
)
def test_who_is_refused_soon_or_has_a_trial_or_lost_the_engine_is_not_counted(end):
    burn("a", **end)
    assert turns.wastes("a") == 0


def test_an_older_engine_s_whole_time_counts():
    burn("a", spent={})
    assert turns.wastes("a") == 1


def test_wasted_sessions_take_places_in_the_queue(client, monkeypatch):
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "3")
    start(client)
    origin = Session.objects.get().origin
    one_after_the_other()
    for _ in range(2):
        Waste.objects.create(origin=origin)
    assert [start(client).status_code for _ in range(2)] == [201, 429]
    assert "2 of its places are taken for an hour" in start(client).json()["error"]
    assert start(client, "10.0.0.2").status_code == 201
    Waste.objects.update(ended=timezone.now() - turns.KEPT - timedelta(seconds=1))
    assert [start(client).status_code for _ in range(3)] == [201, 201, 429]
    retention.sweep()
    assert not Waste.objects.exists()


def test_an_address_that_only_wastes_still_has_one_place(client, monkeypatch):
    start(client)
    origin = Session.objects.get().origin
    one_after_the_other()
    for _ in range(50):
        Waste.objects.create(origin=origin)
    assert [start(client).status_code for _ in range(2)] == [201, 429]
