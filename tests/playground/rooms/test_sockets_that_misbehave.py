"""A room's socket that sends nonsense, never reads or is one of many costs little, and leaves nobody behind."""

import json
import struct
import time
from contextlib import ExitStack

import pytest

from playground.rooms.socket.consumer import SEAT_SOCKETS
from tests.playground.test_socket_holds_back import rss
from tests.playground.websocket import Closed, WebSocket

READ = 1 << 16


@pytest.fixture
def room(house):
    """{path, teacher, seat}: where the room's sockets are, and two tokens."""
    reply = house.post("/api/rooms", {"title": "t", "lessons": ["roofline"]})
    seat = house.post(f"/api/rooms/{reply['code']}/seats", {"name": "Ada"})
    return {"path": f"/ws/w/{reply['code']}", "teacher": reply["teacher_token"], "seat": seat["token"]}


def frame(payload: bytes) -> bytes:
    """Of a client, masked with zeros."""
    n = len(payload)
    return (struct.pack("!BB", 0x81, 0x80 | n) if n < 126 else struct.pack("!BBH", 0x81, 0xFE, n)) + bytes(4) + payload


def online(house, room) -> list[int]:
    with WebSocket(house.port, room["path"]) as wall:
        wall.send({"token": room["teacher"]})
        return wall.until("online")["online"]


def test_many_faults_at_once_are_answered_once_and_leave_nobody_behind(house, room):
    hello = frame(json.dumps({"token": room["seat"]}).encode())
    for nonsense in (frame(b"x") * 6, frame(b'{"ack":1}') + frame(b"x") * 3, b"\x88\x80" + bytes(4)):
        with WebSocket(house.port, room["path"], timeout=10) as socket:
            socket.socket.sendall(hello + nonsense)
            errors = []
            with pytest.raises(Closed):
                while True:
                    errors += [m for m in [socket.receive()] if "error" in m]
            assert len(errors) <= 1
    time.sleep(0.5)
    assert online(house, room) == []
    assert "Traceback" not in (house.var / "daphne.log").read_text()


def test_a_seat_has_a_few_sockets_and_the_one_too_many_is_told_so(house, room):
    with ExitStack() as open_ones:
        for _ in range(SEAT_SOCKETS):
            socket = open_ones.enter_context(WebSocket(house.port, room["path"]))
            socket.send({"token": room["seat"]})
            assert socket.until("seat") == {"seat": 1}
        with WebSocket(house.port, room["path"]) as late:
            late.send({"token": room["seat"]})
            assert "open already" in late.until("error")["error"]
            with pytest.raises(Closed, match="4429"):
                late.receive()
        assert online(house, room) == [1]


def test_who_acknowledges_without_reading_is_sent_little(house, room):
    """Ten sockets that acknowledge a log of 12 MB at once: a batch each, not ten logs."""
    house.manage("shell", "-c", FILL.format(code=room["path"].rpartition("/")[2]))
    with WebSocket(house.port, room["path"]) as socket:  # once, so that what is loaded late is loaded
        socket.send({"token": room["teacher"]})
        socket.until("events")
    before = rss(house.daphne)
    with ExitStack() as open_ones:
        sockets = [open_ones.enter_context(WebSocket(house.port, room["path"])) for _ in range(10)]
        for socket in sockets:
            socket.send({"token": room["teacher"]})
            socket.until("seat")
        for _ in range(20):
            for socket in sockets:
                socket.send({"ack": 10**9})
            time.sleep(0.1)
        for socket in sockets:  # the server writes again, and joins what waits
            socket.socket.recv(READ)
        time.sleep(1)
        grown = rss(house.daphne) - before
    assert grown < 40e6, f"{grown / 1e6:.0f} MB for ten batches"  # ten logs would be 120


FILL = """
import time
from playground.models import Room, RoomEvent
room = Room.objects.get(code="{code}")
data = {{"text": "x" * 6000}}
rows = [RoomEvent(room=room, seq=n, kind="room.message", t=time.time(), data=data) for n in range(3, 2003)]
RoomEvent.objects.bulk_create(rows, batch_size=100)
Room.objects.filter(code=room.code).update(last_seq=2002)
"""
