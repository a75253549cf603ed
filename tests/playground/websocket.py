"""A small WebSocket client (RFC 6455) on a plain socket: the tests decide when to read, and whether to at all."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import time
from typing import Any

MOST = 300


class Closed(Exception):
    """The server closed: its code and reason."""

    def __init__(self, code: int, reason: str = ""):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class WebSocket:
    """`receive_buffer`: bytes the kernel may hold for us; small, so that a client that does not read is felt.
    `headers`: more of them, each with its line end. Raises AssertionError with the status of a refused handshake."""

    def __init__(
        self, port: int, path: str, *, timeout: float = 60, receive_buffer: int | None = None,
        host: str = "localhost", headers: str = "",
    ):  # fmt: skip
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n".encode("latin-1")
        )
        self.file = self.socket.makefile("rb")
        status = self.file.readline().decode()
        while self.file.readline().strip():
            pass
        assert " 101 " in status, f"the handshake was answered with {status!r}"

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, message: Any, opcode: int = 1) -> None:
        payload = message if isinstance(message, bytes) else json.dumps(message).encode()
        mask, n = os.urandom(4), len(payload)
        head = bytes([0x80 | opcode]) + (bytes([0x80 | n]) if n < 126 else struct.pack("!BH", 0x80 | 126, n))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    def receive(self) -> Any:
        """The next message. Raises Closed when the server ends, TimeoutError when it stays silent."""
        text = b""
        while True:
            first, second = self._read(2)
            n = second & 0x7F
            if n == 126:
                (n,) = struct.unpack("!H", self._read(2))
            elif n == 127:
                (n,) = struct.unpack("!Q", self._read(8))
            payload, opcode = self._read(n), first & 0x0F
            if opcode == 8:
                raise Closed(struct.unpack("!H", payload[:2])[0] if n >= 2 else 1005, payload[2:].decode())
            if opcode == 9:
                self.send(payload, opcode=10)
            elif opcode in (0, 1):
                text += payload
                if first & 0x80:
                    return json.loads(text)

    def until(self, key: str) -> Any:
        """The next message that has this key. Raises TimeoutError after MOST seconds, for pings break every silence."""
        end = time.monotonic() + MOST
        while key not in (message := self.receive()):
            if time.monotonic() > end:
                raise TimeoutError(f"no message with {key!r} in {MOST} s; the last one is {message}")
        return message

    def events(self, *, ack: bool = True) -> list[dict[str, Any]]:
        """Every event until the log is complete."""
        rows: list[dict[str, Any]] = []
        while True:
            batch = self.until("events")
            rows += batch["events"]
            if ack and batch["events"]:
                self.send({"ack": rows[-1]["seq"]})
            if batch["ended"]:
                return rows

    def _read(self, n: int) -> bytes:
        data = self.file.read(n)
        if len(data) < n:
            raise Closed(1006, "the connection ended")
        return data
