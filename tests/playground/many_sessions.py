"""Many sessions at once: how long each waits for its first trial, and what the engine holds.

    python -m tests.playground.many_sessions --sessions 32 --json many.json [--kills 5] [--trials 4]
    python -m tests.playground.many_sessions --device cuda --sessions 16 --alone 8 --json crowd.json    # on a GPU

The real app: daphne, one engine, a session from each of as many addresses, submitted at once. On the modelled device
one of them loops in its import, and one is paused. On a GPU they are modules of engine/problems. Before them a few run
alone and are not counted, because on a fresh machine the first use of PyTorch's libraries reads them from the disk, and
afterwards some run alone: together they may take 1.2 times the GPU's seconds of these, and the programs that both tried
must have taken the same time. The file has a row for each session and the limits that do not hold; the exit status is 0
if all do.

Queued ahead of a session's first trial are, on the modelled device, the CPU seconds of all of the engine's processes
between its submission and that trial, divided by the cores, and on a GPU the seconds in which others had its lane.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.evaluate.timing import gpu_condition
from engine.executors import LOADING
from engine.sandbox import tree
from tests.playground.conftest import ROOT, House
from tests.playground.test_end_to_end import MODULE
from tests.playground.test_sessions_survive_kills import ENDS, Rows, descendants, kill

LOOPING = "import torch\nwhile True:\n    pass\n"
FIRST_S, FACTOR = 5.0, 1.2  # a first trial comes within FIRST_S plus FACTOR times the CPU seconds queued ahead of it
MOST_BYTES = 12 << 30
CROWDED = 1.2  # on a GPU: the whole may take this many times the GPU's seconds of the sessions alone
SAME = 0.015  # and a program's time may differ by this from its time alone
# A use of a GPU's lane in the engine's log; the processes that only open the GPU have a place of another name.
USED = rf"(?<!{LOADING})gpu\d+ used by (\S+) for ([\d.]+) s until ([\d.]+)"
OPENED = rf"{LOADING}gpu\d+ used by (\S+) for ([\d.]+) s until ([\d.]+)"
BUILDS = "entries", "shared"  # of a build cache
WARMED = 4  # sessions on a GPU that are not counted
WARM_S = 90.0  # for the workers of an engine with a GPU to import torch and quack, at most
QUIET, QUIET_S = 0.3, 2.0  # an engine whose processes use less than so many cores for so long is warm


def cpu_seconds(pid: int) -> float:
    """That a process used so far; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


class Sampler(threading.Thread):
    """(time, CPU seconds, bytes) of the engine's processes, a few times a second. CPU time of ended processes counts
    from their last sample on. Pages that processes share since a fork count once where the sum is over MOST_BYTES: to
    find them takes milliseconds for each process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.engine: int | None = None
        self.samples: list[tuple[float, float, int]] = []
        self._cpu: dict[tuple[int, int], float] = {}
        self._end = threading.Event()

    def run(self) -> None:
        tick = os.sysconf("SC_CLK_TCK")
        while not self._end.wait(0.25):
            pids = [self.engine, *descendants(self.engine)] if self.engine else []
            for pid in pids:
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._cpu[pid, int(stat[19])] = (int(stat[11]) + int(stat[12])) / tick
            resident, _ = tree.usage(pids)
            if resident > MOST_BYTES:
                resident -= tree.shared(pids)
            self.samples.append((time.time(), sum(self._cpu.values()), resident))

    def stop(self) -> None:
        self._end.set()
        self.join()

    def cpu_between(self, began: float, ended: float) -> float:
        inside = [cpu for t, cpu, _ in self.samples if began - 0.5 <= t <= ended + 0.5]
        return inside[-1] - inside[0] if inside else 0.0


def body(number: int, trials: int, device: str, without: frozenset[str] = frozenset()) -> dict:
    """Small modules for a CPU, those of engine/problems for a GPU, but for some."""
    if device == "cuda":
        problems = [p for p in sorted((ROOT / "engine/problems").glob("[a-z]*.py")) if p.stem not in without]
        source = problems[(number * 7) % len(problems)].read_text()  # of every kind, not the first ones of the alphabet
    elif number == 0:
        source = LOOPING
    else:
        source = MODULE.replace("(128, 256)", f"({128 * (1 + number % 8)}, 256)")
    return {"source": source, "title": "", "classes": ["f16"], "trials": trials, "eps": 0.0, "seed": number}


class Play:
    """An app in a fresh folder with one engine. `limit`: seconds after which a run is given up."""

    def __init__(
        self, folder: str, trials: int, device: str, limit: float, compilers: str = "",
        without: frozenset[str] = frozenset(),
    ):  # fmt: skip
        self.trials, self.device, self.limit, self.without = trials, device, limit, without
        self.folder = folder
        self.house = House(
            Path(folder), UCUTLASS_LEASE_SECONDS="5", UCUTLASS_TRUST_PROXY="1", UCUTLASS_COMPILERS=compilers
        )
        self.rows, self.sampler = Rows(self.house), Sampler()

    def __enter__(self) -> Play:
        self.house.web()
        self.fresh_engine("first")
        self.sampler.start()
        return self

    def fresh_engine(self, cache: str, builds: str = "") -> None:
        """An engine that knows nothing: on a GPU, with a memory and builds of its own, or those of the cache `builds`.
        Returns when it serves."""
        if self.device == "cuda":
            self.house.environ["UCUTLASS_CACHE"] = f"{self.folder}/{cache}"
            for part in BUILDS if builds else ():
                shutil.copytree(Path(self.folder, builds, part), Path(self.folder, cache, part))
        self.start_engine()
        while not self.house.get("/healthz")["engines"]:
            if self.engine.poll() is not None:
                raise RuntimeError(f"the engine ended; see its log:\n{self.engine_log[-2000:]}")
            time.sleep(0.1)
        if self.device == "cuda":
            self.wait_until_warm()

    def next_engine(self, cache: str, builds: str = "") -> None:
        """Another fresh engine in place of this one."""
        kill(self.engine)
        self.fresh_engine(cache, builds)

    def wait_until_warm(self) -> None:
        """Until what the engine prepared for the first sessions was imported."""
        end, before = time.time() + WARM_S, 0.0
        while time.time() < end:
            now = sum(map(cpu_seconds, [self.engine.pid, *descendants(self.engine.pid)]))
            if before and now - before < QUIET * QUIET_S:
                return
            before = now
            time.sleep(QUIET_S)

    def __exit__(self, *_: object) -> None:
        self.sampler.stop()
        for process in self.house.processes:
            kill(process)

    def start_engine(self) -> None:
        self.engine = self.house.start("-m", "tests.playground.logged_engine", "--device", self.device, name="engine")
        self.sampler.engine = self.engine.pid

    def submit(self, number: int) -> dict:
        address = {"X-Forwarded-For": f"10.0.0.{number + 1}"}
        return self.house.post("/api/sessions", body(number, self.trials, self.device, self.without), **address)

    def ended(self, session_id: str) -> bool:
        log = self.rows.log(session_id)
        return bool(log) and log[-1][1] == "session.ended"

    def wait(self, ids: list[str], kills: int = 0, except_for: set[str] = frozenset()) -> int:
        """Until all but `except_for` have ended. Kills the engine every 12 s; returns how often."""
        began, done = time.time(), 0
        while {i for i in ids if not self.ended(i)} - except_for and time.time() - began < self.limit:
            if done < kills and time.time() - began > 12.0 * (done + 1):
                done += 1
                kill(self.engine)
                self.start_engine()
            time.sleep(0.5)
        return done

    @property
    def engine_log(self) -> str:
        return (self.house.var / "engine.log").read_text(errors="replace")

    @property
    def lanes(self) -> list[tuple[float, float, str]]:
        """(from, to, session) of every use of a GPU's lane, from the engine's log."""
        return self.uses(USED)

    def uses(self, pattern: str) -> list[tuple[float, float, str]]:
        """(from, to, session) of every use of a place."""
        uses = re.findall(pattern, self.engine_log)
        return [(float(until) - float(seconds), float(until), session) for session, seconds, until in uses]

    def ahead(self, session_id: str, began: float, ended: float) -> float:
        """Seconds queued ahead of a session between two times."""
        if self.device != "cuda":
            return self.sampler.cpu_between(began, ended) / (os.cpu_count() or 1)
        others = [(f, t) for f, t, session in self.lanes if session != session_id]
        return sum(max(0.0, min(t, ended) - max(f, began)) for f, t in others)

    def row(self, number: int, session_id: str) -> dict:
        events = self.house.get(f"/api/sessions/{session_id}/events?limit=1000")
        events = events["events"] if isinstance(events, dict) else events
        created = self.house.get(f"/api/sessions/{session_id}")["created"]
        end = events[-1] if events and events[-1]["kind"] == "session.ended" else None
        first = next((e["t"] for e in events if e["kind"] in ENDS), None)
        of_cpu = {0: "loops", 1: "paused"} if self.device != "cuda" else {}
        texts = {e["data"]["trial"]: e["data"]["program"] for e in events if e["kind"] == "trial.proposed"}
        steps = [(round(e["t"] - created, 2), e["data"].get("step") or e["kind"]) for e in events]
        measured = [e["data"] for e in events if e["kind"] == "trial.measured"]
        times = {texts[m["trial"]]: {"ms": m["time"]["ms"], "ratio": m["ratio"]} for m in measured}
        return {
            "number": number, "what": of_cpu.get(number, "module"),
            "whole": [e["seq"] for e in events] == list(range(1, len(events) + 1)),
            "state": end["data"]["state"] if end else "open", "code": end["data"]["code"] if end else "",
            "reason": end["data"]["reason"] if end else "",
            "first_trial_s": round(first - created, 2) if first else None,
            "ahead_s": round(self.ahead(session_id, created, first), 2) if first else None,
            "gpu_s": round(sum(t - f for f, t, session in self.lanes if session == session_id), 2),
            "spent": end["data"].get("spent", {}) if end else {}, "trials": end["data"]["trials"] if end else None,
            "unsteady": sum("unsteady" in (m["time"].get("device") or {}) for m in measured), "times": times,
            "steps": [step for step in steps if first is None or step[0] <= first - created],
            "ended": end["t"] if end else None,
        }  # fmt: skip


def play(
    sessions: int, trials: int, kills: int, limit: float, device: str = "modelled:h200", compilers: str = "",
    alone: int = 0, write: Callable[[dict], None] = lambda result: None, without: frozenset[str] = frozenset(),
) -> dict:  # fmt: skip
    """The rows and the totals. `alone`: how many sessions run alone afterwards; `write` gets the results before that,
    too."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Play(folder, trials, device, limit, compilers, without) as app,
    ):
        if alone:
            for number in range(WARMED):
                app.wait([app.submit(number)["id"]])
            app.next_engine("crowd")
        began = time.time()
        replies = [app.submit(number) for number in range(sessions)]
        ids, except_for = [r["id"] for r in replies], set()
        if device != "cuda":
            paused = replies[1]
            app.house.command(paused, "pause")
            except_for = {paused["id"], *([ids[0]] if not kills else [])}
        kills = app.wait(ids, kills, except_for)
        rows = [app.row(number, i) for number, i in enumerate(ids)]
        seconds = max((r["ended"] for r in rows if r["ended"]), default=time.time()) - began  # read twice a second only
        result = {
            "seconds": round(seconds, 1), "lane_s": round(sum(r["gpu_s"] for r in rows), 1), "kills": kills,
            "cores": os.cpu_count(),
            "most_bytes": max(resident for _, _, resident in app.sampler.samples),
            "cpu_seconds": round(app.sampler.cpu_between(began, began + seconds), 1),
            "sessions": rows, "alone": [],
            **{
                name: [(round(f - began, 3), round(t - began, 3), ids.index(i)) for f, t, i in uses if i in ids]
                for name, uses in {"lane": app.lanes, "opens": app.uses(OPENED)}.items()
            },
            "engine_log": [line for line in app.engine_log.splitlines() if " used by " not in line][-60:],
        }  # fmt: skip
        write(result)
        for row in one_by_one(app, alone):
            result["alone"].append(row)
            write(result)
        return result


def one_by_one(app: Play, sessions: int) -> Iterator[dict]:
    """The same sessions again, each with the machine to itself, by an engine that knows nothing of the others: what one
    teaches is forgotten, because sessions that start together do not learn from each other. It finds their
    builds, which take a CPU's time and none of the GPU's."""
    if sessions:
        app.next_engine("alone", builds="crowd" if app.device == "cuda" else "")
    for number in range(sessions):
        for taught in Path(app.folder, "alone", "memory").glob("*.jsonl"):
            taught.unlink()
        alone = app.submit(number)["id"]
        app.wait([alone])
        yield app.row(number, alone)


def differences(result: dict) -> list[tuple[float, str]]:
    """How much the time beside PyTorch of a program that was tried in both runs differs, with its session."""
    apart = []
    for crowd, alone in zip(result["sessions"], result["alone"], strict=False):
        for text in crowd["times"].keys() & alone["times"].keys():
            a, b = crowd["times"][text]["ms"], alone["times"][text]["ms"]
            apart.append((abs(a - b) / b, f"session {crowd['number']}: {a:.4f} ms, alone {b:.4f} ms"))
    return sorted(apart)


def faults(result: dict, timed: bool) -> list[str]:
    """What does not hold, in words. `timed`: whether first trials must come in time, which nothing else on the machine
    may delay."""
    wrong = []
    for r in result["sessions"]:
        name = f"session {r['number']} ({r['what']})"
        if not r["whole"]:
            wrong.append(f"{name}: its log has a gap")
        if r["what"] == "module" and r["state"] != "done":
            wrong.append(f"{name}: {r['state']} {r['code']} {r['reason']}")
        if r["what"] == "module" and timed and r["first_trial_s"] is not None:
            limit = FIRST_S + FACTOR * r["ahead_s"]
            if r["first_trial_s"] > limit:
                wrong.append(f"{name}: first trial after {r['first_trial_s']} s, allowed {limit:.1f} s")
    if result["alone"]:
        # Those that did not run alone count with the GPU's seconds that they used among the others.
        rest = result["sessions"][len(result["alone"]) :]
        allowed = CROWDED * sum(r["gpu_s"] for r in [*result["alone"], *rest])
        if result["seconds"] > allowed:
            wrong.append(f"all sessions took {result['seconds']:.0f} s, allowed {allowed:.0f} s")
        wrong += [f"{words}, {d:.1%} apart" for d, words in differences(result) if d > SAME]
    elif result["most_bytes"] > MOST_BYTES:
        wrong.append(f"the engine's processes held {result['most_bytes'] / 2**30:.1f} GiB")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.playground.many_sessions")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0, help="kill -9 of the engine, every 12 s")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds")
    parser.add_argument("--device", default="modelled:h200")
    parser.add_argument("--alone", type=int, default=0, help="on a GPU: so many of them again, each alone")
    parser.add_argument("--without", default="", metavar="NAME,..", help="on a GPU: modules that are too large for it")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    typed = f"--device {args.device} --sessions {args.sessions} --trials {args.trials} --alone {args.alone}"
    typed += f" --without {args.without}" if args.without else ""
    about = gpu_condition.about(f"python -m tests.playground.many_sessions {typed}", gpu_condition.read())

    def write(result: dict) -> None:
        result["faults"] = faults(result, timed=not args.kills)
        if args.json:
            args.json.write_text(json.dumps(about | result, indent=1) + "\n")

    result = play(
        args.sessions, args.trials, args.kills, args.limit, args.device, alone=args.alone, write=write,
        without=frozenset(filter(None, args.without.split(","))),
    )  # fmt: skip
    write(result)
    for r in [*result["sessions"], *result["alone"]]:
        print({k: v for k, v in r.items() if k not in ("whole", "times", "steps")})
    print({k: v for k, v in result.items() if k not in ("sessions", "alone", "engine_log")})
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
