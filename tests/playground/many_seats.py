"""A class at work: how long each seat waits for a trial, and how late the teacher's wall is.

    python -m tests.playground.many_seats --seats 60 --minutes 5 --json seats.json
    python -m tests.playground.many_seats --seats 60 --minutes 5 --kill --json seats-killed.json

The real app: daphne and one engine on the modelled device, without compilers. All seats come from one address. Each
joins, keeps its page's socket open, goes through the lesson with pauses for thought until every question is right, and
starts one session at a moment of its own, whose pane it follows. A wait is from the start of a session to its first
trial's end, or from the end of one trial to that of the next. In the middle of it somebody at another address starts a
session. The wall's lateness is from the time of an answer, or of a session's first result, in its log to its arrival at
the teacher. Every answer is looked up in the room's log.

With --kill the web process and then the engine get SIGKILL during the lesson and are started again. Pages connect and
send again, as a browser's do. Then the waits have no limit, but no answer may be lost or doubled, and no log may have a
gap.

The file says what else the machine did (load averages) and how many CPU seconds the engine's processes used: the limits
are for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from playground.learn import check, lesson
from tests.playground.conftest import House
from tests.playground.many_sessions import Sampler
from tests.playground.test_end_to_end import MODULE
from tests.playground.test_sessions_survive_kills import ENDS, Rows, kill
from tests.playground.websocket import Closed, WebSocket

LESSON = "roofline"
LONGEST_WAIT = 10.0  # seconds for a trial, and for the session of another address
WALL_P99 = 0.5  # seconds
QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
TRIALS = 3
AGAIN = 0.5  # seconds until a page tries again whose server is away
HERE, ELSEWHERE = {"X-Forwarded-For": "10.0.0.1"}, {"X-Forwarded-For": "10.0.0.2"}
FORWARDED = "X-Forwarded-For: 10.0.0.1\r\n"


def module(number: int) -> dict[str, Any]:
    source = MODULE.replace("(128, 256)", f"({128 * (1 + number % 8)}, 256)")
    return {"source": source, "classes": ["f16"], "trials": TRIALS, "eps": 0.0, "seed": number}


class Page(threading.Thread):
    """A page of the room with its socket, which it opens again where it broke off."""

    def __init__(self, house: House, code: str, token: str):
        super().__init__(daemon=True)
        self.house, self.path, self.token, self.seq = house, f"/ws/w/{code}", token, 0

    def run(self) -> None:
        while True:
            try:
                with WebSocket(self.house.port, self.path, headers=FORWARDED, timeout=120) as socket:
                    socket.send({"token": self.token, "after": self.seq})
                    while True:
                        self.take(socket, socket.receive())
            except (Closed, OSError, ValueError, AssertionError):
                time.sleep(AGAIN)

    def take(self, socket: WebSocket, message: dict[str, Any]) -> None:
        if rows := message.get("events"):
            self.seq = rows[-1]["seq"]
            socket.send({"ack": self.seq})


class Pane(Page):
    """What a step shows of its session: the pane with the trials, which follows the session's log to its end."""

    def __init__(self, house: House, session_id: str):
        super().__init__(house, "", "")
        self.session_id, self.over = session_id, False

    def run(self) -> None:
        while not self.over:
            try:
                self.house.text(f"/embed/{self.session_id}?pane=trials")
                path = f"/ws/s/{self.session_id}?after={self.seq}"
                with WebSocket(self.house.port, path, headers=FORWARDED, timeout=120) as socket:
                    while not self.over:
                        message = socket.receive()
                        self.over = bool(message.get("ended"))
                        self.take(socket, message)
            except (Closed, OSError, ValueError, AssertionError):
                time.sleep(AGAIN)


class Wall(Page):
    """The teacher's page: how many seconds late each answer came, and when each seat's gap was first shown."""

    def __init__(self, house: House, room: dict[str, str]):
        super().__init__(house, room["code"], room["teacher_token"])
        self.late: list[float] = []
        self.gaps: dict[str, float] = {}

    def take(self, socket: WebSocket, message: dict[str, Any]) -> None:
        now = time.time()
        self.late += [now - row["t"] for row in message.get("events", []) if row["kind"] == "seat.answered"]
        for number, row in message.get("sessions", {}).items():
            if row["gap"] is not None:
                self.gaps.setdefault(number, now)
        super().take(socket, message)


class Student(threading.Thread):
    """A seat. `minutes`: how long the lesson takes it."""

    def __init__(self, house: House, room: dict[str, str], number: int, minutes: float):
        super().__init__(daemon=True)
        self.house, self.room, self.number, self.minutes = house, room, number, minutes
        self.random = random.Random(number)
        self.session = self.fault = ""
        self.seat = 0  # the number that the room gave, in the order of joining
        self.attempts: list[str] = []
        self.finished, self.slowest = False, 0.0

    def run(self) -> None:
        try:
            self.work()
        except Exception as e:  # the class goes on; the row of this seat says it
            self.fault = f"{type(e).__name__}: {e}"

    def post(self, path: str, body: Any) -> Any:
        began = time.monotonic()
        while True:  # as the page does, until the server has it
            try:
                reply = self.house.post(f"/api/rooms/{self.room['code']}/{path}", body, **self.headers)
                break
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                time.sleep(AGAIN)
        self.slowest = max(self.slowest, time.monotonic() - began)
        if "error" in reply:
            raise RuntimeError(f"{path}: {reply['error']}")
        return reply

    def work(self) -> None:
        self.headers = dict(HERE)
        time.sleep(self.random.uniform(0, 10))  # they do not all type equally fast
        joined = self.post("seats", {"name": f"student {self.number}"})
        self.seat, self.headers["X-Seat-Token"] = joined["seat"], joined["token"]
        with contextlib.suppress(OSError):
            self.house.text(f"/w/{self.room['code']}")
        Page(self.house, self.room["code"], self.headers["X-Seat-Token"]).start()
        steps = lesson(LESSON).steps
        run_at = self.random.randrange(len(steps))
        for place, step in enumerate(steps):
            self.post("steps", {"step": f"{LESSON}/{step.id}"})
            time.sleep(self.random.uniform(0.5, 1.5) * 60 * self.minutes / len(steps))
            if place == run_at:
                self.session = self.post("sessions", module(self.number))["id"]
                Pane(self.house, self.session).start()
            if step.question is not None:
                self.answer(step)
        self.finished = True

    def answer(self, step: Any) -> None:
        """Wrong ones first, as students do, until one is right."""
        texts = [o.code for o in step.question.options] or ["1", check(step, "1", show=True).answer]
        self.random.shuffle(texts)
        tries = [[text] for text in texts] if step.question.kind == "multi" else texts
        if step.question.kind == "multi":
            tries.append(step.question.right.value())
        for text in tries:
            attempt = f"{self.number} {step.id} {text}"[:40]
            self.attempts.append(attempt)
            if self.post("answers", {"step": f"{LESSON}/{step.id}", "answer": text, "attempt": attempt})["right"]:
                return
            time.sleep(self.random.uniform(1, 3))
        raise RuntimeError(f"no answer to {step.id} is right")


def waited(house: House, session_id: str) -> dict[str, Any]:
    """Seconds of a session from its start to its first event and its first trial's end, and its longest wait for a
    trial; None if there was none. `whole`: its log has no gap."""
    created = house.get(f"/api/sessions/{session_id}")["created"]
    log = house.get(f"/api/sessions/{session_id}/events?limit=1000")["events"]
    ends = [e["t"] for e in log if e["kind"] in ENDS]
    waits = [after - before for before, after in itertools.pairwise([created, *ends])]
    judged = next((e["t"] for e in log if e["kind"] == "trial.judged"), None)
    return {
        "started_s": round(log[0]["t"] - created, 2) if log else None,
        "first_trial_s": round(waits[0], 2) if waits else None,
        "longest_wait_s": round(max(waits), 2) if waits else None,
        "whole": [e["seq"] for e in log] == list(range(1, len(log) + 1)) and bool(log),
        "first_time": judged, "state": log[-1]["data"].get("state", "open") if log else "queued",
    }  # fmt: skip


def share(values: list[float], q: float) -> float | None:
    """The value below which a share `q` of them lies."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 3) if ordered else None


class Killer(threading.Thread):
    """Kills the web process after two fifths of the lesson and the engine after three, and starts them again."""

    def __init__(self, house: House, engine: subprocess.Popen, sampler: Sampler, seconds: float):
        super().__init__(daemon=True)
        self.house, self.engine, self.sampler, self.seconds = house, engine, sampler, seconds
        self.killed: list[str] = []

    def run(self) -> None:
        time.sleep(0.4 * self.seconds)
        self.house.daphne.send_signal(signal.SIGKILL)
        self.house.daphne.wait(30)
        self.house.web()
        self.killed.append("web process")
        time.sleep(0.2 * self.seconds)
        kill(self.engine)
        self.sampler.engine = start_engine(self.house).pid
        self.killed.append("engine")


def start_engine(house: House) -> subprocess.Popen:
    return house.start("-m", "tests.playground.logged_engine", "--device", "modelled:h200", name="engine")


def play(seats: int, minutes: float, limit: float, kills: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        house = House(Path(folder), UCUTLASS_TRUST_PROXY="1", UCUTLASS_LEASE_SECONDS="15")
        load = [os.getloadavg()]
        try:
            house.web()
            engine = start_engine(house)
            while not house.get("/healthz")["engines"]:
                assert engine.poll() is None, house.lines()
                time.sleep(0.2)
            room = house.post("/api/rooms", {"title": "a class", "lessons": [LESSON], "seats": seats}, **HERE)
            wall, began = Wall(house, room), time.time()
            wall.start()
            students = [Student(house, room, n, minutes) for n in range(seats)]
            for student in students:
                student.start()
            sampler = Sampler()
            sampler.engine = engine.pid
            sampler.start()
            killer = Killer(house, engine, sampler, 60 * minutes)
            if kills:
                killer.start()
            time.sleep(30 * minutes)
            load.append(os.getloadavg())
            other = house.post("/api/sessions", module(seats), **ELSEWHERE)["id"]
            for student in students:
                student.join(max(1.0, began + limit - time.time()))
            rows = Rows(house)
            while rows.reached()[1] and time.time() < began + limit:
                time.sleep(0.5)
            time.sleep(2)
            load.append(os.getloadavg())
            result = result_of(house, wall, students, other, time.time() - began, load)
            sampler.stop()
            result |= {"engine_cpu_s": round(sampler.samples[-1][1], 1)}
            return result | {"killed": killer.killed} | compared(logged(house, room), students)
        finally:
            for process in house.processes:
                kill(process)


def logged(house: House, room: dict[str, str]) -> Counter[str]:
    """The attempts of all answers in the room's log, with how often each is there."""
    attempts: Counter[str] = Counter()
    after = 0
    while True:
        path = f"http://127.0.0.1:{house.port}/api/rooms/{room['code']}/events?limit=2000&after={after}"
        asked = urllib.request.Request(path, headers={"X-Teacher-Token": room["teacher_token"]})
        with urllib.request.urlopen(asked, timeout=60) as reply:
            page = json.load(reply)
        attempts.update(e["data"]["attempt"] for e in page["events"] if e["kind"] == "seat.answered")
        if page["reached"] == after or not page["events"]:
            return attempts
        after = page["reached"]


def compared(log: Counter[str], students: list[Student]) -> dict[str, int]:
    sent = {attempt for student in students for attempt in student.attempts}
    return {"answers_lost": len(sent - log.keys()), "answers_doubled": sum(n > 1 for n in log.values())}


def result_of(
    house: House, wall: Wall, students: list[Student], other: str, seconds: float, load: list
) -> dict[str, Any]:
    seats = []
    for s in students:
        row = waited(house, s.session) if s.session else {}
        shown, judged = wall.gaps.get(str(s.seat)), row.pop("first_time", None)
        seats.append({
            "seat": s.number, "finished": s.finished, "fault": s.fault, "answers": len(s.attempts),
            "slowest_reply_s": round(s.slowest, 2), **row,
            "gap_late_s": round(shown - judged, 3) if shown and judged else None,
        })  # fmt: skip
    gaps = [row["gap_late_s"] for row in seats if row["gap_late_s"] is not None]
    elsewhere = waited(house, other)
    elsewhere.pop("first_time")
    answers = sum(len(s.attempts) for s in students)
    return {
        "seconds": round(seconds, 1), "cores": os.cpu_count(),
        "load_averages": [[round(x, 1) for x in one] for one in load],
        "answers_sent": answers, "answers_on_the_wall": len(wall.late), "gaps_on_the_wall": len(gaps),
        "wall_late_s": {q: share(wall.late + gaps, at) for q, at in QUANTILES.items()},
        "answers_late_s": {q: share(wall.late, at) for q, at in QUANTILES.items()},
        "gaps_late_s": {q: share(gaps, at) for q, at in QUANTILES.items()},
        "first_trial_s": {
            "p50": share([r["first_trial_s"] for r in seats if r.get("first_trial_s")], 0.5),
            "max": share([r["first_trial_s"] for r in seats if r.get("first_trial_s")], 1.0),
        },
        "longest_wait_s": share([r["longest_wait_s"] for r in seats if r.get("longest_wait_s")], 1.0),
        "another_address": elsewhere, "seats": seats,
    }  # fmt: skip


def faults(result: dict[str, Any]) -> list[str]:
    """What does not hold, in words."""
    wrong = [f"seat {r['seat']}: {r['fault'] or 'did not finish'}" for r in result["seats"] if not r["finished"]]
    wrong += [f"seat {r['seat']}: its session's log has a gap" for r in result["seats"] if not r.get("whole")]
    if result["answers_lost"] or result["answers_doubled"]:
        wrong.append(f"{result['answers_lost']} answers are lost, {result['answers_doubled']} are there twice")
    if result["killed"]:
        return wrong
    for r in result["seats"]:
        if r.get("longest_wait_s") is None or r["longest_wait_s"] > LONGEST_WAIT:
            wrong.append(f"seat {r['seat']}: waited {r.get('longest_wait_s')} s for a trial")
    started = result["another_address"]["started_s"]
    if started is None or started > LONGEST_WAIT:
        wrong.append(f"another address: its session started after {started} s")
    if result["answers_sent"] != result["answers_on_the_wall"]:
        wrong.append(f"{result['answers_sent']} answers were sent, {result['answers_on_the_wall']} came to the wall")
    if result["gaps_on_the_wall"] < sum(bool(r.get("first_trial_s")) for r in result["seats"]):
        wrong.append(f"only {result['gaps_on_the_wall']} sessions of seats came to the wall with a result")
    if (result["wall_late_s"]["p99"] or 99) > WALL_P99:
        wrong.append(f"the wall is {result['wall_late_s']['p99']} s late (p99)")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.playground.many_seats")
    parser.add_argument("--seats", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=5.0, help="that the lesson takes a student")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds")
    parser.add_argument("--kill", action="store_true", help="the web process and the engine during the lesson")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = play(args.seats, args.minutes, args.limit, args.kill)
    about = {
        "what": "a room of seats behind one address, modelled device: predictions, no GPU",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": None,
        "driver": None,
        "toolchain": None,
        "command": f"python -m tests.playground.many_seats --seats {args.seats} --minutes {args.minutes:g}"
        + " --kill" * args.kill,
    }
    result = about | result | {"faults": faults(result)}
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "seats"}, indent=1))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
