"""A crowd that watches one live session: who gets what, how late, and what it costs the server.

    python -m tests.playground.crowd_of_viewers --viewers 300 --rate 20 --seconds 20 --silent 10 --json crowd.json

A real daphne, a writer that appends events as an engine does, and clients in a process of their own, which speak just
enough WebSocket. They join at once and acknowledge as the page does. The limits are those of issue 17; the exit status
is 0 if all hold. CPU is the server's own, per delivery (one event to one viewer), so another load of the machine
changes it little; it changes the times a lot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.playground.conftest import ROOT, House
from tests.playground.many_sessions import cpu_seconds

JOINED_S, P99_MS, CPU_MS, MOST_BYTES = 3.0, 250.0, 0.1, 300e6
ACK_EVENTS, ACK_S = 64, 1.0  # as static/js/session/stream.js
_SEQ = re.compile(rb'\{"seq":(\d+),"kind":"[^"]*","t":([\d.]+)')

# Appends events to a new session, `rate` a second for `seconds` once a line comes on stdin. Prints its name first.
WRITER = """
import sys, time, django
django.setup()
from engine.session import events
from playground.live import log
from playground.models import Session
rate, seconds = float(sys.argv[1]), float(sys.argv[2])
session = Session.objects.create(title="a crowd watches", spec={})
lease = log.claim("writer")
print(session.id, flush=True)
sys.stdin.readline()
began = time.time()
for n in range(round(rate * seconds)):
    time.sleep(max(0.0, began + n / rate - time.time()))
    log.append(lease, [(events.Progress("compiling trial 3, " + "x" * 200), {})])
    if n % 100 == 0:
        log.renew([lease])
log.append(lease, [(events.SessionEnded("done", "r", {}, 0, 0.0), {})])
"""


class Client(asyncio.Protocol):
    """One viewer. `silent`: it stops to read once it has joined."""

    def __init__(self, path: str, host: str, silent: bool = False):
        self.path, self.host, self.silent = path, host, silent
        self.buffer = bytearray()
        self.open = False
        self.joined_at = 0.0
        self.last = self.acked = 0
        self.acked_at = 0.0
        self.disorder = 0
        self.delays: list[float] = []
        self.ended = asyncio.get_running_loop().create_future()
        self.joined = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        self.transport = transport
        transport.write(
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        now, self.buffer = time.time(), self.buffer + data
        if not self.open:
            head, end, rest = bytes(self.buffer).partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self.open, self.buffer = True, bytearray(rest)
        buffer = self.buffer
        while len(buffer) >= 2:
            n, start = buffer[1] & 0x7F, 2
            if n >= 126:
                start = 4 if n == 126 else 10
                n = int.from_bytes(buffer[2:start], "big")
            if len(buffer) < start + n:
                return
            self.take(buffer[0] & 15, bytes(buffer[start : start + n]), now)
            del buffer[: start + n]

    def take(self, opcode: int, payload: bytes, now: float) -> None:
        if opcode == 9:
            self.send(payload, 10)
        if opcode != 1:
            return
        if not self.joined_at:
            self.joined_at = now
            self.joined.set_result(now)
            if self.silent:
                self.transport.pause_reading()
        if not payload.startswith(b'{"events"'):
            return
        for seq, t in _SEQ.findall(payload):
            self.disorder += int(seq) != self.last + 1
            self.last = int(seq)
            self.delays.append(now - float(t))
        ended = payload.endswith(b'"ended":true}')
        if self.last - self.acked >= ACK_EVENTS or now - self.acked_at >= ACK_S or ended:
            self.acked, self.acked_at = self.last, now
            self.send(b'{"ack":%d}' % self.last)
        if ended and not self.ended.done():
            self.ended.set_result(None)

    def send(self, payload: bytes, opcode: int = 1) -> None:
        self.transport.write(bytes((0x80 | opcode, 0x80 | len(payload))) + b"\0\0\0\0" + payload)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError(f"closed at event {self.last}: {error}"))


async def watch(port: int, session: str, viewers: int, silent: int) -> None:
    """The clients' process: a line when all have joined, another with what they saw."""
    loop, began = asyncio.get_running_loop(), time.time()
    host = f"localhost:{port}"
    clients = [Client(f"/ws/s/{session}?after=0", host, n < silent) for n in range(viewers + silent)]
    await asyncio.gather(*(loop.create_connection(lambda c=c: c, "127.0.0.1", port) for c in clients))
    joined = max(await asyncio.gather(*(c.joined for c in clients))) - began
    print(json.dumps({"joined_s": round(joined, 3)}), flush=True)
    readers = [c for c in clients if not c.silent]
    lost = [e for e in await asyncio.gather(*(c.ended for c in readers), return_exceptions=True) if e]
    delays = sorted(d for c in readers for d in c.delays)
    seen = {"lost": len(lost), "disorder": sum(c.disorder for c in readers), "least": min(c.last for c in readers)}
    seen |= {"deliveries": len(delays)}
    for name, q in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
        seen[name] = round(1e3 * delays[min(len(delays) - 1, int(q * len(delays)))], 1) if delays else None
    print(json.dumps(seen), flush=True)


def resident(pid: int) -> int:
    """Bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(house: House, viewers: int, rate: float, seconds: float, silent: int) -> dict[str, Any]:
    """One run on a house whose daphne runs."""
    pipes: dict[str, Any] = {"cwd": ROOT, "env": house.environ, "stdout": subprocess.PIPE, "text": True}
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(rate), str(seconds)], stdin=subprocess.PIPE, **pipes
    )  # fmt: skip
    session, pid = writer.stdout.readline().strip(), house.daphne.pid
    watching = (
        "-m",
        "tests.playground.crowd_of_viewers",
        "--watch",
        str(house.port),
        session,
        str(viewers),
        str(silent),
    )
    crowd = subprocess.Popen([sys.executable, *watching], **pipes)
    before = cpu_seconds(pid)
    row = json.loads(crowd.stdout.readline())
    row["join_cpu_ms"] = round(1e3 * (cpu_seconds(pid) - before) / (viewers + silent), 2)
    began, cpu = resident(pid), cpu_seconds(pid)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    row |= json.loads(crowd.stdout.readline())
    row["cpu_ms"] = round(1e3 * (cpu_seconds(pid) - cpu) / max(1, row["deliveries"]), 4)
    row |= {"mb": round(resident(pid) / 1e6, 1), "grown_mb": round((resident(pid) - began) / 1e6, 1)}
    row["events"] = house.get(f"/api/sessions/{session}")["last_seq"]
    row["complete"] = not row["lost"] and not row["disorder"] and row["least"] == row["events"]
    crowd.wait(120)
    writer.wait(120)
    return row


def broken(row: dict[str, Any]) -> list[str]:
    """The limits that do not hold."""
    limits = {"joined_s": JOINED_S, "p99_ms": P99_MS, "cpu_ms": CPU_MS, "mb": MOST_BYTES / 1e6}
    over = [f"{name} {row[name]} > {most}" for name, most in limits.items() if row[name] > most]
    return over + ([] if row["complete"] else ["not complete and in order"])


def main() -> int:
    if sys.argv[1:2] == ["--watch"]:
        port, session, viewers, silent = sys.argv[2:]
        asyncio.run(watch(int(port), session, int(viewers), int(silent)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--viewers", type=int, default=300)
    parser.add_argument("--rate", type=float, default=20.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--silent", type=int, default=0, help="more viewers, which never read")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    house = House(Path(tempfile.mkdtemp(prefix="ucutlass-crowd-")))
    try:
        house.web()
        row = measure(house, options.viewers, options.rate, options.seconds, options.silent)
    finally:
        house.close()
    row["broken"] = broken(row)
    print(json.dumps(row, indent=1))
    if options.json:
        options.json.write_text(json.dumps(row, indent=1) + "\n")
    return 1 if row["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
