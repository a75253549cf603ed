"""A client that does not acknowledge costs the server a window of 256 events or 1 MiB, not the whole log."""

import os
import subprocess
import sys
import time

import pytest

from tests.playground.conftest import ROOT
from tests.playground.websocket import WebSocket

READ = 1 << 16  # bytes
# Writes a log of many events into the house's database, as an engine would: events, bytes of text in each.
FILL = """
import sys, django
django.setup()
from engine.session import events
from playground.live import log
from playground.models import Session
s = Session.objects.create(title="long", spec={})
lease = log.claim("filler")
n, size = int(sys.argv[1]), int(sys.argv[2])
for start in range(0, n, 500):
    log.append(lease, [(events.Progress("x" * size), {}) for _ in range(start, min(n, start + 500))])
log.append(lease, [(events.SessionEnded("done", "r", {}, 0, 0.0), {})])
print(s.id)
"""


def fill(house, events: int, size: int) -> str:
    command = [sys.executable, "-c", FILL, str(events), str(size)]
    done = subprocess.run(command, cwd=ROOT, env=house.environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def silent(socket: WebSocket) -> list[int]:
    """Every seq that arrives before the server falls silent for two seconds."""
    seen = []
    socket.socket.settimeout(2)
    try:
        while True:
            seen += [e["seq"] for e in socket.until("events")["events"]]
    except TimeoutError:
        return seen


def rss(process) -> int:
    """Resident memory in bytes."""
    with open(f"/proc/{process.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def many(house):
    return fill(house, 2000, 20)


def test_a_client_that_never_acknowledges_gets_256_events(house, many):
    with WebSocket(house.port, f"/ws/s/{many}") as socket:
        assert silent(socket) == list(range(1, 257))


def test_an_acknowledgement_opens_the_window_by_as_much(house, many):
    with WebSocket(house.port, f"/ws/s/{many}") as socket:
        silent(socket)
        socket.file = socket.socket.makefile("rb")  # a file that timed out once reads no more
        socket.send({"ack": 100})
        assert silent(socket) == list(range(257, 357))


def test_who_acknowledges_gets_everything(house, many):
    with WebSocket(house.port, f"/ws/s/{many}") as socket:
        assert [e["seq"] for e in socket.events()] == list(range(1, 2002))


def test_large_events_stop_at_a_mebibyte(house):
    large = fill(house, 40, 100_000)
    with WebSocket(house.port, f"/ws/s/{large}") as socket:
        assert silent(socket) == list(range(1, 11))
    with WebSocket(house.port, f"/ws/s/{large}") as socket:
        assert len(socket.events()) == 41


def test_the_largest_events_that_the_log_takes_arrive(house):
    """Daphne sends no message over 1 MiB; the log takes no event near that."""
    huge = fill(house, 4, 500_000)
    with WebSocket(house.port, f"/ws/s/{huge}") as socket:
        assert [e["seq"] for e in socket.events()] == [1, 2, 3, 4, 5]


def test_clients_that_never_read_leave_the_servers_memory_flat(house):
    """Twenty sockets on a log of 60 MB, none of which reads a byte: 20 windows at most, not 20 logs."""
    session = fill(house, 600, 100_000)
    with WebSocket(house.port, f"/ws/s/{session}") as socket:
        silent(socket)  # once, so that what is loaded late is loaded
    before = rss(house.daphne)
    sockets = [WebSocket(house.port, f"/ws/s/{session}", receive_buffer=4096) for _ in range(20)]
    try:
        time.sleep(4)
        grown = rss(house.daphne) - before
    finally:
        [s.close() for s in sockets]
    assert grown < 200e6, f"{grown / 1e6:.0f} MB for 20 windows of 1 MiB"  # 20 logs would be 1,200
    assert house.get("/healthz")["ok"]


def test_clients_that_acknowledge_without_reading_get_no_more_than_a_batch(house):
    """Twenty sockets at different events of a log of 12 MB acknowledge all of it and read almost nothing."""
    session = fill(house, 3000, 4000)
    with WebSocket(house.port, f"/ws/s/{session}") as socket:
        silent(socket)
    before = rss(house.daphne)
    sockets = [WebSocket(house.port, f"/ws/s/{session}?after={n}", receive_buffer=READ) for n in range(20)]
    try:
        for _ in range(20):
            for socket in sockets:
                socket.send({"ack": 10**9})
            time.sleep(0.1)
        for socket in sockets[1:] * 20:  # the server writes again, and joins what waits
            socket.socket.recv(READ)
        time.sleep(1)
        grown = rss(house.daphne) - before
        rest = list(sockets[0].events())
    finally:
        [s.close() for s in sockets]
    assert grown < 80e6, f"{grown / 1e6:.0f} MB for twenty batches"  # twenty logs would be 240
    assert rest[-1]["kind"] == "session.ended", "who reads again gets the rest"
