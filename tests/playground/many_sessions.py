"""Many sessions at once on the modelled device: how long each waits for its first trial, and what the engine holds.

    python -m tests.playground.many_sessions --sessions 32 --json many.json [--kills 5] [--trials 4] [--device cuda]

The real app: daphne, one engine, a session from each of as many addresses, submitted at once. One of them loops in its
import, one is paused. A sampler reads the CPU time and the memory of the engine's processes. The file has a row for
each session and the limits that must hold; the exit status is 0 if they do.

CPU queued ahead of a session's first trial: the CPU seconds that the engine's processes used between its submission and
that trial, divided by the cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.playground.conftest import ROOT, House
from tests.playground.test_end_to_end import MODULE
from tests.playground.test_sessions_survive_kills import Rows, descendants, kill

LOOPING = "import torch\nwhile True:\n    pass\n"
FIRST_S, FACTOR = 5.0, 1.2  # a first trial comes within FIRST_S plus FACTOR times the CPU seconds queued ahead of it
MOST_BYTES = 12 << 30
ENDS = ("trial.judged", "trial.untimed", "trial.failed")


class Sampler(threading.Thread):
    """(time, CPU seconds, bytes) of the engine's processes, a few times a second. CPU time of ended processes counts
    from their last sample on."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.engine: int | None = None
        self.samples: list[tuple[float, float, int]] = []
        self._cpu: dict[tuple[int, int], float] = {}
        self._end = threading.Event()

    def run(self) -> None:
        tick = os.sysconf("SC_CLK_TCK")
        while not self._end.wait(0.25):
            resident = 0
            for pid in [self.engine, *descendants(self.engine)] if self.engine else []:
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                self._cpu[pid, int(stat[19])] = (int(stat[11]) + int(stat[12])) / tick
                lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
                resident += sum(int(lines.get(k, "0 kB").split()[0]) << 10 for k in ("RssAnon", "RssShmem"))
            self.samples.append((time.time(), sum(self._cpu.values()), resident))

    def stop(self) -> None:
        self._end.set()
        self.join()

    def cpu_between(self, began: float, ended: float) -> float:
        inside = [cpu for t, cpu, _ in self.samples if began - 0.5 <= t <= ended + 0.5]
        return inside[-1] - inside[0] if inside else 0.0


def body(number: int, trials: int, device: str) -> dict:
    """Small modules for a CPU, those of engine/problems for a GPU."""
    if number == 0:
        source = LOOPING
    elif device == "cuda":
        problems = sorted((ROOT / "engine/problems").glob("[a-z]*.py"))
        source = problems[number % len(problems)].read_text()
    else:
        source = MODULE.replace("(128, 256)", f"({128 * (1 + number % 8)}, 256)")
    return {"source": source, "title": "", "classes": ["f16"], "trials": trials, "eps": 0.0, "seed": number}


def play(sessions: int, trials: int, kills: int, limit: float, device: str = "modelled:h200") -> dict:
    """The rows and the totals. `limit`: seconds after which the run is given up."""
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder), UCUTLASS_LEASE_SECONDS="5", UCUTLASS_TRUST_PROXY="1")
        sampler, rows = Sampler(), Rows(house)
        try:
            house.web()
            engine = house.start("manage.py", "engine", "--device", device, name="engine")
            sampler.engine = engine.pid
            sampler.start()
            while not house.get("/healthz")["engines"]:
                time.sleep(0.1)
            if device == "cuda":
                time.sleep(20)  # its workers import torch and quack
            began, replies = time.time(), []
            for number in range(sessions):
                address = {"X-Forwarded-For": f"10.0.0.{number + 1}"}
                replies.append(house.post("/api/sessions", body(number, trials, device), **address))
            paused = replies[1]
            house.post(f"/api/sessions/{paused['id']}/commands", {"kind": "pause"},
                       **{"X-Control-Token": paused["control_token"]})  # fmt: skip
            ids, moments = [r["id"] for r in replies], [12.0 * (k + 1) for k in range(kills)]
            while open_ids := [i for i in ids if rows.log(i)[-1:] == [] or rows.log(i)[-1][1] != "session.ended"]:
                if (
                    set(open_ids) <= {paused["id"], *([replies[0]["id"]] if not kills else [])}
                    or time.time() - began > limit
                ):
                    break
                if moments and time.time() - began > moments[0]:
                    moments.pop(0)
                    kill(engine)
                    engine = house.start("manage.py", "engine", "--device", device, name="engine")
                    sampler.engine = engine.pid
                time.sleep(0.5)
            seconds = time.time() - began
            return {
                "seconds": round(seconds, 1), "kills": kills - len(moments), "cores": os.cpu_count(),
                "most_bytes": max(resident for _, _, resident in sampler.samples),
                "cpu_seconds": round(sampler.cpu_between(began, began + seconds), 1),
                "sessions": [row(number, i, house, rows, sampler) for number, i in enumerate(ids)],
            }  # fmt: skip
        finally:
            sampler.stop()
            for process in house.processes:
                kill(process)


def row(number: int, session_id: str, house: House, rows: Rows, sampler: Sampler) -> dict:
    events = house.get(f"/api/sessions/{session_id}/events?limit=1000")
    events = events["events"] if isinstance(events, dict) else events
    created = house.get(f"/api/sessions/{session_id}")["created"]
    end = events[-1] if events and events[-1]["kind"] == "session.ended" else None
    first = next((e["t"] for e in events if e["kind"] in ENDS), None)
    ahead = sampler.cpu_between(created, first) / (os.cpu_count() or 1) if first else None
    return {
        "number": number, "what": {0: "loops", 1: "paused"}.get(number, "module"),
        "whole": [e["seq"] for e in events] == list(range(1, len(events) + 1)),
        "state": end["data"]["state"] if end else "open", "code": end["data"]["code"] if end else "",
        "first_trial_s": round(first - created, 2) if first else None,
        "cpu_ahead_s": round(ahead, 2) if ahead is not None else None,
        "spent": end["data"].get("spent", {}) if end else {}, "trials": end["data"]["trials"] if end else None,
    }  # fmt: skip


def faults(result: dict, timed: bool) -> list[str]:
    """What does not hold, in words. `timed`: whether first trials must come in time, which nothing else on the machine
    may delay."""
    wrong = []
    for r in result["sessions"]:
        name = f"session {r['number']} ({r['what']})"
        if not r["whole"]:
            wrong.append(f"{name}: its log has a gap")
        if r["what"] == "module" and r["state"] != "done":
            wrong.append(f"{name}: {r['state']} {r['code']}")
        if r["what"] == "module" and timed and r["first_trial_s"] is not None:
            limit = FIRST_S + FACTOR * r["cpu_ahead_s"]
            if r["first_trial_s"] > limit:
                wrong.append(f"{name}: first trial after {r['first_trial_s']} s, allowed {limit:.1f} s")
    if result["most_bytes"] > MOST_BYTES:
        wrong.append(f"the engine's processes held {result['most_bytes'] / 2**30:.1f} GiB")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.playground.many_sessions")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--kills", type=int, default=0, help="kill -9 of the engine, every 12 s")
    parser.add_argument("--limit", type=float, default=1500.0, help="seconds")
    parser.add_argument("--device", default="modelled:h200")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = play(args.sessions, args.trials, args.kills, args.limit, args.device)
    result["faults"] = faults(result, timed=not args.kills)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    for r in result["sessions"]:
        print({k: v for k, v in r.items() if k != "whole"})
    print({k: v for k, v in result.items() if k != "sessions"})
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
