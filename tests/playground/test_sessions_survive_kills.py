"""`kill -9` at random moments: sessions of `planner` and `sweep` lose nothing and double nothing.

The real app on the modelled device: sessions of small modules and programs, half of each strategy, are worked on by an
engine that is killed with all its processes, again and again, and started anew until every session has ended. Each log
is then compared, event by event, with the one of the same session played undisturbed in this process.

`make test` kills the engine under 4 sessions, without compilers; under 50 of them, with them, in some minutes:

    KILLED_SESSIONS=50 .venv/bin/python -m pytest -s tests/playground/test_sessions_survive_kills.py

KILL_SEED=n draws other moments.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.session import events
from engine.session.runner import run
from tests.playground.conftest import House
from tests.playground.test_end_to_end import MODULE

SESSIONS = int(os.environ.get("KILLED_SESSIONS", "4"))
COMPILERS = "none" if SESSIONS < 10 else ""  # importing CuTe DSL takes each engine 9 s
SEED = int(os.environ.get("KILL_SEED", "0"))
DEVICE = "modelled:h200"
KINDS = 10  # different sessions; what they do undisturbed is played once
EVENTS = (3, 70)  # new events of all sessions between a start and a kill
LIMIT = 1800.0  # seconds
ENDS = ("trial.judged", "trial.untimed", "trial.failed")
ANEW = ("progress", "resumed")  # a line for a person, and that an engine took the session up
OF_THE_LIFE = ("seconds", "cached", "scope", "spent")  # what depends on the engine that happened to do it: scope says
# whether the same meaning was checked in an earlier trial of this very process
PROGRAM = """\
program small(x: f16[{rows}, 256], w: f16[256, 256], b: f32[256]) -> f16[{rows}, 256] {{
  y = gemm(x, w.T) {{ epilogue relu(acc + b[n]) }}
  return y
}}
"""


def asked(number: int) -> dict:
    """The body of a session's request. Every second one is a sweep."""
    number %= KINDS
    rows = 128 * (1 + number // 4)
    module = {"source": MODULE.replace("(128, 256)", f"({rows}, 256)"), "source_kind": "module"}
    program = {"source": PROGRAM.format(rows=rows), "source_kind": "program"}
    what = module if number // 2 % 2 == 0 else program
    how = {"strategy": "sweep", "options": {"order": "shuffled"}} if number % 2 else {"strategy": "planner"}
    return {**what, **how, "title": "", "classes": ["f16"], "trials": 4, "eps": 0.0, "window": 400, "seed": number}


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setenv("UCUTLASS_COMPILERS", COMPILERS)  # for the sessions that this process plays
    built = House(tmp_path, UCUTLASS_LEASE_SECONDS="2", UCUTLASS_QUEUE_PER_ADDRESS="99", UCUTLASS_COMPILERS=COMPILERS)
    yield built
    for process in built.processes:
        kill(process)
    built.close()


def kill(process) -> None:
    """SIGKILL to a process and all that it started."""
    for pid in [process.pid, *descendants(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(60)


def descendants(pid: int) -> list[int]:
    pids = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                pids += [child, *descendants(child)]
    return pids


class Rows:
    """The house's database, read beside the processes that write it."""

    def __init__(self, house: House):
        self.path = house.var / "playground.sqlite3"

    def _all(self, query: str, *values) -> list[tuple]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection:
            return connection.execute(query, values).fetchall()

    def reached(self) -> tuple[int, int]:
        """(events in all logs, sessions that have not ended)."""
        ((last, waiting),) = self._all("select sum(last_seq), sum(state != 'ended') from playground_session")
        return last, waiting

    def log(self, session_id: str) -> list[tuple[int, str, dict]]:
        rows = self._all("select seq, kind, data from playground_sessionevent where session_id = ?", session_id)
        return sorted((seq, kind, json.loads(data)) for seq, kind, data in rows)

    def spec(self, session_id: str) -> dict:
        return json.loads(self._all("select spec from playground_session where id = ?", session_id)[0][0])


def work_under_kills(house: House, rows: Rows, rng: random.Random) -> int:
    """Start and kill engines until every session has ended; how often one was killed."""
    kills, until = 0, time.monotonic() + LIMIT
    while rows.reached()[1]:
        engine = house.start("manage.py", "engine", "--device", DEVICE, name="engine")
        moment = rows.reached()[0] + rng.randint(*EVENTS)
        while (reached := rows.reached())[1] and reached[0] < moment:
            log = house.var / "engine.log"
            assert engine.poll() is None and time.monotonic() < until, log.read_text(errors="replace")[-2000:]
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 0.2) * bool(reached[1]))
        kills += bool(rows.reached()[1])
        kill(engine)
    return kills


def undisturbed(spec: dict) -> list[tuple[str, dict]]:
    """The story of a session that nobody killed."""
    emitted = run({**spec, "device": DEVICE})
    return story((e.event.KIND, json.loads(json.dumps(events.encode(e.event)))) for e in emitted)


def story(rows) -> list[tuple[str, dict]]:
    """A log without what each life says anew, and without seconds."""
    return [(kind, {k: v for k, v in data.items() if k not in OF_THE_LIFE}) for kind, data in rows if kind not in ANEW]


def whole(log: list[tuple[int, str, dict]]) -> None:
    """No gap, nothing lost, nothing twice."""
    assert [seq for seq, _, _ in log] == list(range(1, len(log) + 1))
    kinds = Counter(kind for _, kind, _ in log)
    assert kinds["session.started"] == kinds["session.ended"] == 1 and log[-1][1] == "session.ended"
    assert log[-1][2]["state"] == "done", log[-1][2]
    trials = [data["trial"] for _, kind, data in log if kind == "trial.proposed"]
    assert trials == list(range(1, len(trials) + 1)) and trials
    assert sorted(data["trial"] for _, kind, data in log if kind in ENDS) == trials
    steps = Counter((kind, data["trial"]) for _, kind, data in log if kind.startswith("trial."))
    assert max(steps.values()) == 1, steps
    paths = [data["path"] for _, kind, data in log if kind == "trial.proposed"]
    assert len(set(paths)) == len(paths) and "" not in paths
    advanced = [data["path"] for _, kind, data in log if kind == "script.advanced"]
    assert advanced == [str(n) for n in range(len(advanced))]


def test_sessions_whose_engines_are_killed_are_those_of_an_engine_that_was_not(house):
    house.web()
    rows, began = Rows(house), time.monotonic()
    sessions = [house.submit(**asked(number))["id"] for number in range(SESSIONS)]
    kills = work_under_kills(house, rows, random.Random(SEED))
    resumed = 0
    alone = {}
    for number, session_id in enumerate(sessions):
        log = rows.log(session_id)
        whole(log)
        resumed += sum(kind == "resumed" for _, kind, _ in log)
        if number % KINDS not in alone:
            alone[number % KINDS] = undisturbed(rows.spec(session_id))
        right = alone[number % KINDS]
        assert story((kind, data) for _, kind, data in log) == right, f"session {number}"
        assert log[-1][2]["best"] == right[-1][1]["best"]
    seconds = time.monotonic() - began
    print(f"{SESSIONS} sessions, {kills} kills, {resumed} resumed, {seconds:.0f} s")
    assert kills and resumed
