"""What waits costs the database little: idle engines take no write lock to look for work, viewers keep a connection."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from playground import engines
from playground.adapter import Adapter
from playground.live import connections, hub, log, watched
from playground.models import Engine, Session
from tests.playground import script

WRITES = ("BEGIN", "SAVEPOINT", "INSERT", "UPDATE", "DELETE")


@pytest.fixture
def statements(monkeypatch):
    """Every SQL statement of every thread, from now on."""
    queries, execute = [], CursorWrapper.execute

    def noted(self, sql, params=None):
        queries.append(sql)
        return execute(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", noted)
    return queries


@pytest.fixture
def opened():
    """A list that grows by each database connection that is opened."""
    connections = []

    def note(sender, connection, **kwargs):
        connections.append(connection)

    connection_created.connect(note)
    yield connections
    connection_created.disconnect(note)


@pytest.mark.django_db
def test_a_look_for_work_takes_no_lock():
    Session.objects.create(title="t", spec={}, device="cuda")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert log.claim("engine", "modelled:h200") is None
    assert [q["sql"].split()[0] for q in queries] == ["SELECT"]


@pytest.mark.django_db(transaction=True)
def test_an_idle_engine_writes_with_its_heartbeats_alone(statements, opened, monkeypatch):
    """3 s of an idle engine: 12 looks for work, and as many heartbeats as a lease of 3 s asks for."""
    monkeypatch.setenv("UCUTLASS_LEASE_SECONDS", "3")
    adapter = Adapter(script.run, serves="modelled:h200", about={})
    looks, claim = [], log.claim
    monkeypatch.setattr(log, "claim", lambda *words, **more: looks.append(words) or claim(*words, **more))
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    threading.Timer(3, adapter._leaving.set).start()
    adapter.serve()
    written = [s for s in statements if s.upper().startswith(WRITES)]
    beats = [s for s in written if s.startswith('UPDATE "playground_engine"')]
    assert len(looks) >= 4, "the engine looked for work, or this proves nothing"
    assert 1 <= len(beats) <= 4
    # Registering and leaving are some statements once; a heartbeat is a transaction with one update.
    assert len(written) <= 6 + 2 * len(beats), written
    assert len(opened) <= 2, "one connection for its loop and one for its heartbeat"


@pytest.mark.django_db
@pytest.mark.parametrize(("lease", "silent", "lives"), [(15, 13, True), (15, 16, False), (60, 50, True), (2, 3, False)])
def test_how_long_an_engine_counts_as_alive_goes_by_the_lease(monkeypatch, lease, silent, lives):
    monkeypatch.setenv("UCUTLASS_LEASE_SECONDS", str(lease))
    Engine.objects.create(id="e", serves="modelled:h200", seen=timezone.now() - timedelta(seconds=silent))
    assert bool(engines.alive()) == lives
    assert engines.pause(busy=True) < engines.pause(busy=False) <= lease / 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("running", "device", "place"),
    [
        (["modelled:h200"], "auto", 2),  # behind one that the engine takes; it never takes the two for a GPU
        ([], "modelled:h200", 2),
        (["modelled:h200", "cuda"], "auto", 2),
        (["cuda"], "auto", 4),
        (["cuda", "modelled:h200"], "cuda", 4),
        ([], "cuda", 4),
    ],
)
def test_a_place_in_the_queue_counts_those_that_the_same_engine_takes(running, device, place):
    for ahead in ("cuda", "auto", "cuda"):
        Session.objects.create(title="t", spec={}, device=ahead)
    mine = Session.objects.create(title="t", spec={}, device=device)
    for serves in running:
        Engine.objects.create(id=serves, serves=serves)
    assert engines.state_message(mine)["queue"] == place


@pytest.mark.django_db(transaction=True)
def test_the_poller_and_the_sockets_keep_their_connections(opened):
    session = Session.objects.create(title="t", spec={})
    opened.clear()  # this thread's own

    async def reads():
        for _ in range(30):
            await hub.read({session.id: 0}, True)
            await asyncio.gather(*(watched.read_page(session.id, 0) for _ in range(8)))
            await hub.look(session.id)

    try:
        asyncio.run(reads())
        assert len(opened) <= hub.poller.threads + watched.readers.threads
    finally:
        hub.poller.close()
        watched.readers.close()


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_broke_is_replaced_once():
    readers = connections.Readers(1, "test")
    attempts = []

    @readers
    def read(broken: int) -> int:
        attempts.append(connection.connection is not None)
        if len(attempts) <= broken:
            raise OperationalError("the server closed the connection unexpectedly")
        return Session.objects.count()

    try:
        assert asyncio.run(read(0)) == 0 and attempts == [False]
        attempts.clear()
        assert asyncio.run(read(1)) == 0 and attempts == [True, False], "once more, on a new connection"
        attempts.clear()
        with pytest.raises(OperationalError):
            asyncio.run(read(9))
        assert attempts == [True, False], "and no more than once"
    finally:
        readers.close()


@pytest.mark.django_db(transaction=True)
def test_a_heartbeat_comes_at_once_when_a_session_is_taken(monkeypatch):
    """An idle engine may be in the middle of its longer pause; a lease is renewed by the shorter one."""
    monkeypatch.setenv("UCUTLASS_LEASE_SECONDS", "30")
    adapter = Adapter(script.run, serves="modelled:h200", about={})
    Engine.objects.create(id=adapter.engine_id, serves="modelled:h200", seen=timezone.now() - timedelta(seconds=9))
    session = Session.objects.create(title="t", spec={"title": "pace 1 trials 0"})
    beat = threading.Thread(target=adapter._beat, daemon=True)
    beat.start()
    lease = log.claim(adapter.engine_id)
    before = Session.objects.get(id=session.id).lease_until
    adapter.begin(lease)
    deadline = time.monotonic() + 8
    while (extended := Session.objects.get(id=session.id).lease_until) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Engine.objects.get().sessions == 1
    adapter._release()
    adapter._done.set()
    adapter._stir.set()
    beat.join(10)
    assert extended > before
