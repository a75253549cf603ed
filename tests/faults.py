"""Break everything at random for some minutes, and look whether a session lost anything.

    python -m tests.faults --minutes 10 [--seed 7]

The real app (`manage.py up` on the modelled device, SQLite) in a folder of its own, on a small tmpfs where this machine
lets us mount one. Sessions are submitted all the time; meanwhile, one after the other and each at a random moment: the
engine, the web process or a confined process is killed with signal 9, the engine is frozen, the clock of all processes
jumps, the disk fills up, the database is locked, an owner stops a session. At the end nothing breaks any more, and
every session must end.

The seed of the moments is printed first; the same seed draws the same faults. Exits with 1 if a log has a gap, a trial
twice or an end too few or too many, if a session is stuck, or if one failed, was given up or was refused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.sandbox import tree
from tests.playground.conftest import ROOT, House
from tests.playground.test_sessions_survive_kills import ENDS, Rows, asked

DISK = 64 << 20  # bytes of the tmpfs
AT_ONCE = 5  # sessions that have not ended
BETWEEN = (1.0, 5.0)  # seconds between two faults
JUMPS = (3600.0, -3600.0, 90.0, -90.0, 0.0)  # of the clock, against the machine's
CALM = 240.0  # seconds in which every session must end once nothing breaks any more
DEVICE = "modelled:h200"


class Disk:
    """The folder of the app. `own`: it is a small file system of its own, which can be filled."""

    def __init__(self, folder: str):
        self.path = Path(folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", folder], capture_output=True)
        self.own = mounted.returncode == 0

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        filler = self.path / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as f:
                while True:
                    f.write(bytes(1 << 16))
            yield
        finally:
            filler.unlink(missing_ok=True)

    def close(self) -> None:
        if self.own:
            subprocess.run(["umount", "-l", str(self.path)], capture_output=True)


class Faults:
    """The app, what breaks it, and what its owners see."""

    def __init__(self, folder: Path, disk: Disk, rng: random.Random):
        self.rng, self.disk = rng, disk
        self.clock = folder / "clock"
        self.clock.write_text("0")
        path = os.pathsep.join([str(ROOT / "tests/jumping_clock"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        settings = {"LEASE_SECONDS": "3", "QUEUE_PER_ADDRESS": "99", "CACHE": str(folder / "cache")}
        environ = {f"UCUTLASS_{name}": value for name, value in settings.items()}
        self.house = House(disk.path, **environ, TESTS_CLOCK=str(self.clock), PYTHONPATH=path)
        self.rows = Rows(self.house)
        log = (folder / "up.log").open("ab")
        command = [sys.executable, "manage.py", "up", "--port", str(self.house.port), "--device", DEVICE]
        self.up = subprocess.Popen(command, cwd=ROOT, env=self.house.environ, stdout=log, stderr=log)
        self.house.processes.append(self.up)
        self.seen: Counter[str] = Counter()  # faults that happened
        self.stopped: set[str] = set()
        self.sessions: list[dict[str, str]] = []
        self.refused: list[str] = []

    # ---- what breaks ----

    def children(self, words: set[str]) -> list[int]:
        """The processes of the app whose command line has one of these words."""
        pids = []
        for pid in tree.descendants(self.up.pid):
            with contextlib.suppress(OSError):
                if words & set(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")):
                    pids.append(pid)
        return pids

    def child(self, word: str) -> int | None:
        return next(iter(self.children({word})), None)

    def signal(self, word: str, number: int) -> int | None:
        pid = self.child(word)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def kill_engine(self) -> None:
        self.signal("engine", signal.SIGKILL)

    def kill_web(self) -> None:
        self.signal("daphne", signal.SIGKILL)

    def kill_worker(self) -> None:
        """A process of a sandbox, or the one that forks them."""
        pids = self.children({"engine.sandbox.child", "engine.sandbox.forkserver.server"})
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(pids), signal.SIGKILL)

    def freeze_engine(self) -> None:
        pid = self.signal("engine", signal.SIGSTOP)
        time.sleep(self.rng.uniform(1, 8))
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def jump(self) -> None:
        self.clock.write_text(str(self.rng.choice(JUMPS)))

    def lock(self) -> None:
        with contextlib.closing(sqlite3.connect(self.rows.path, timeout=30, isolation_level=None)) as connection:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("begin exclusive")
                time.sleep(self.rng.uniform(0.5, 8))
                connection.execute("rollback")

    def fill(self) -> None:
        with self.disk.full():
            time.sleep(self.rng.uniform(0.5, 5))

    def stop(self) -> None:
        """An owner stops a session. What is not answered was perhaps done all the same."""
        if self.sessions:
            session = self.rng.choice(self.sessions[-AT_ONCE:])
            self.stopped.add(session["id"])
            with contextlib.suppress(OSError, ValueError):
                self.house.command(session, "stop")

    @property
    def kinds(self) -> list[Callable[[], None]]:
        always = [
            self.kill_engine,
            self.kill_web,
            self.kill_worker,
            self.freeze_engine,
            self.jump,
            self.lock,
            self.stop,
        ]
        return always + [self.fill] * self.disk.own

    # ---- what goes on meanwhile ----

    def submit(self) -> None:
        """One more session, unless enough of them run. An app that is away or says 503 is asked again later."""
        with contextlib.suppress(sqlite3.OperationalError):
            if (self.rows.reached()[1] or 0) >= AT_ONCE:
                return
            body = asked(self.rng.randrange(1000))
            try:
                answer = self.house.post("/api/sessions", body)
            except (OSError, ValueError):  # ValueError: a killed process answered half of it
                return
            if "id" in answer:
                self.sessions.append(answer)
            elif not self.is_excused(answer):
                self.refused.append(json.dumps(answer)[:300])

    @staticmethod
    def is_excused(answer: dict) -> bool:
        """Whether the app says that it cannot store anything now (503)."""
        return "try again" in json.dumps(answer).lower()

    def ready(self) -> None:
        """Wait until the page answers and an engine serves it."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError):
                if self.house.get("/healthz")["engines"]:
                    return
            time.sleep(0.2)
        raise SystemExit("the app does not start")

    def run(self, seconds: float) -> None:
        self.ready()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            until = time.monotonic() + self.rng.uniform(*BETWEEN)
            while time.monotonic() < until:
                self.submit()
                time.sleep(0.3)
            fault = self.rng.choice(self.kinds)
            self.seen[fault.__name__] += 1
            fault()
            if self.up.poll() is not None:
                raise SystemExit(f"`manage.py up` ended with {self.up.returncode}")

    def calm(self) -> None:
        """Nothing breaks any more; wait until every session has ended."""
        self.clock.write_text("0")
        end = time.monotonic() + CALM
        while time.monotonic() < end:
            with contextlib.suppress(sqlite3.OperationalError):
                if not self.rows.reached()[1]:
                    return
            time.sleep(0.5)

    # ---- what is left ----

    def wrong(self) -> Iterator[str]:
        """What does not hold, in words."""
        yield from (f"refused: {words}" for words in self.refused)
        for session in self.sessions:
            log = self.rows.log(session["id"])
            yield from (f"session {session['id']}: {words}" for words in faults_of(log, session["id"] in self.stopped))

    def close(self) -> None:
        self.up.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.up.wait(20)
        self.house.close()


def faults_of(log: list[tuple[int, str, dict]], stopped: bool) -> Iterator[str]:
    """What is wrong with the log of one session."""
    if not log:
        yield "it has no log" if not stopped else "it was stopped, and has no end"
        return
    if [seq for seq, _, _ in log] != list(range(1, len(log) + 1)):
        yield "its log has a gap"
    kinds = Counter(kind for _, kind, _ in log)
    end = log[-1]
    if kinds["session.ended"] != 1 or end[1] != "session.ended":
        yield f"it is stuck after {end[1]} ({kinds['session.ended']} ends)"
        return
    if end[2]["state"] not in (("done", "stopped") if stopped else ("done",)):
        yield f"it {end[2]['state']}: {end[2].get('code')} {end[2]['reason'][:200]}"
    trials = [data["trial"] for _, kind, data in log if kind == "trial.proposed"]
    if trials != list(range(1, len(trials) + 1)):
        yield f"its trials are {trials}"
    ended = Counter(data["trial"] for _, kind, data in log if kind in ENDS)
    if any(n > 1 for n in ended.values()) or (end[2]["state"] == "done" and set(ended) != set(trials)):
        yield f"its trials ended {dict(ended)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        (place := Path(folder, "var")).mkdir()
        disk = Disk(str(place))
        faults = Faults(Path(folder), disk, random.Random(args.seed))
        try:
            faults.run(60 * args.minutes)
            faults.calm()
            wrong = list(faults.wrong())
            if wrong:
                print(Path(folder, "up.log").read_text(errors="replace")[-6000:])
        finally:
            faults.close()
            disk.close()
    left_out = "" if disk.own else "; the disk was not filled, since no tmpfs can be mounted here"
    print(f"{len(faults.sessions)} sessions, {dict(faults.seen)}{left_out}")
    print("\n".join(wrong) or "nothing was lost, doubled or stuck")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
