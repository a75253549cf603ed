"""A hall without a network: start a packed folder with its one command, run a room with three seats in it, and print
what was seen as JSON. test_pack.py runs it in a network namespace of its own.

    unshare --user --map-root-user --net python -m tests.playground.learn.hall FOLDER
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from playground import learn

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * 2.0


def get_inputs():
    return [torch.randn(256, 256)]
"""


def loopback() -> None:
    """Switch the namespace's own loopback on: it is down in a new one."""
    with socket.socket() as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


def outside() -> str:
    try:
        socket.create_connection(("1.1.1.1", 443), timeout=3).close()
    except OSError:
        return "unreachable"
    return "reachable"


class Hall:
    def __init__(self, folder: Path):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url, self.printed = f"http://127.0.0.1:{self.port}", folder / "printed.txt"
        command = [sys.executable, "start.py", "--port", str(self.port)]
        environ = os.environ | {"PYTHON": sys.executable, "UCUTLASS_COMPILERS": "none"}
        with self.printed.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environ)

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        asked = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        with urllib.request.urlopen(asked, timeout=30) as reply:
            return json.load(reply)

    def status(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as reply:
                return reply.status
        except urllib.error.HTTPError as e:
            return e.code

    def wait(self, ready, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if value := ready():
                    return value
            if self.process.poll() is not None:
                break
            time.sleep(0.3)
        raise SystemExit(f"not ready:\n{self.printed.read_text()[-2000:]}")


def work(hall: Hall) -> dict[str, Any]:
    hall.wait(lambda: hall.ask("/healthz")["engines"], 300)
    room = hall.ask("/api/rooms", {"title": "Hall", "lessons": ["roofline"], "test": True})
    path = f"/api/rooms/{room['code']}"
    seats = [{"X_Seat_Token": hall.ask(f"{path}/seats", {"name": name})["token"]} for name in ("Ada", "Grace", "Lin")]
    hall.ask(f"{path}/answers", {"step": "before:limit", "answer": 12345}, **seats[0])
    right = learn.lesson("roofline").step("which").question.right.value()
    answers = [hall.ask(f"{path}/answers", {"step": "roofline/which", "answer": answer}, **seat)
               for answer, seat in zip((right, "sum", "shorter"), seats, strict=True)]  # fmt: skip
    hall.ask(f"{path}/answers", {"step": "after:limit", "answer": 12345}, **seats[0])
    session = hall.ask(f"{path}/sessions", {"source": MODULE, "trials": 1, "classes": ["f16"]}, **seats[0])["id"]

    def ended() -> Any:
        row = hall.ask(f"/api/sessions/{session}")
        return row if row["state"] == "ended" else None

    row = hall.wait(ended, 300)
    results = hall.ask(f"{path}/results", X_Teacher_Token=room["teacher_token"])
    figure = next(b for s in learn.lesson("roofline").steps for b in s.blocks if b.get("figure") == "session")
    pages = {page: hall.status(page) for page in ("/learn", "/learn/roofline", "/w/new", "/gallery")}
    return {
        "pages": pages | {"wall": hall.status(room["teacher_url"].removeprefix(hall.url))},
        "recording": hall.status(f"/embed/{figure['recording']['id']}?pane=trials"),
        "right": [answer["right"] for answer in answers],
        "test": {row["skill"]: row for row in results["test"]["skills"]},
        "session": {"state": row["state"], "trials": row["summary"]["trials"]},
    }


def main() -> None:
    loopback()
    seen: dict[str, Any] = {"interfaces": [name for _, name in socket.if_nameindex()], "outside": outside()}
    hall = Hall(Path(sys.argv[1]))
    try:
        seen |= work(hall)
    finally:
        hall.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            hall.process.wait(20)
        hall.process.kill()
    print(json.dumps(seen | {"printed": hall.printed.read_text()[:500]}))


if __name__ == "__main__":
    main()
