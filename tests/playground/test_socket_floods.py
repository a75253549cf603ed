"""One socket that sends thousands of small frames is closed, and the pages of everybody else stay quick."""

import contextlib
import struct
import threading
import time
import urllib.request

import pytest

from playground.access.intake import FRAMES
from tests.playground.websocket import WebSocket

MASK = bytes(4)


@pytest.fixture(scope="module")
def waiting(house):
    """A session that no engine has taken."""
    return house.submit("pace 0 trials 5", trials=5)["id"]


def frame(opcode: int, payload: bytes) -> bytes:
    """Of a client, masked with zeros."""
    return bytes([0x80 | opcode, 0x80 | len(payload)]) + MASK + payload


class Looks(threading.Thread):
    """Asks /healthz again and again."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.address, self.seconds, self.over = f"http://localhost:{port}/healthz", [], threading.Event()

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            with urllib.request.urlopen(self.address, timeout=60) as reply:
                assert reply.status == 200
            self.seconds.append(time.monotonic() - began)
            time.sleep(0.02)


def pour(socket: WebSocket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # closed meanwhile
        socket.socket.sendall(data)


@pytest.mark.parametrize(
    "small",
    [frame(9, b""), frame(1, b"null"), frame(1, b'{"ack": 0}'), frame(0, b""), frame(2, struct.pack(">I", 7))],
    ids=["ping", "null", "ack", "continuation", "binary"],
)
def test_a_flood_of_frames_ends_its_socket_and_delays_nobody(house, small):
    looks = Looks(house.port)
    looks.start()
    with WebSocket(house.port, "/ws/s/nowhere", timeout=30) as socket:
        pour(socket, small * 300_000)
    time.sleep(0.5)
    looks.over.set()
    looks.join(timeout=60)
    assert len(looks.seconds) > 3
    assert max(looks.seconds) < 1.5, "it took 2 to 9 s"


def words(socket: WebSocket) -> str:
    """The server's reason for closing."""
    return socket.until("error")["error"]


def test_as_many_frames_as_a_viewer_sends_are_taken(house, waiting):
    with WebSocket(house.port, f"/ws/s/{waiting}") as socket:
        for _ in range(FRAMES // 2):
            socket.send({"ack": 0})
        socket.send({"neither": "of them"})
        assert "understood" in words(socket)


def test_the_one_who_floods_is_told_why(house, waiting):
    with WebSocket(house.port, f"/ws/s/{waiting}") as socket:
        pour(socket, frame(9, b"") * (FRAMES + 200))
        assert "frames faster" in words(socket)
