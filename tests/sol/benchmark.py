"""How long tracing and reporting take: `python -m tests.sol.benchmark [SECONDS] > times.json`. Not a test.

Every module of the suite is traced in a warm sandbox, as a session does it, and reported on for the H200; "once traced"
is the report alone, from the graph's JSON, and beside its wall time stands that of the processor. What takes more than
its limit is run again, up to five (the report alone: 25) times in all, and the median counts: the machine may be busy
with something else. With SECONDS no module is begun after so long.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version

from engine.sandbox import pool
from engine.suite.cases import PROBLEMS, module_set
from engine.trace import PRELOAD, trace, warm
from sol.graph import OpGraph
from sol.hardware import Hardware, load
from sol.report import report

LIMIT, LIMIT_TRACED = 1500.0, 60.0  # ms
RUNS, RUNS_TRACED, MOST_TRACED = 5, 7, 25


def ready() -> None:
    """A session finds its sandbox warm; what the warming takes (4 s on an idle machine) is not the question."""
    warm(local_user=True)
    pool._waiting[False, "", True, PRELOAD][0].wait_ready(60.0, None)


def whole(source: str, hw: Hardware) -> tuple[float, str]:
    """(ms of tracing and reporting, the graph as JSON)."""
    ready()
    start = time.perf_counter()
    graph = trace(source, local_user=True).graph
    report(graph, hw).to_json()
    return (time.perf_counter() - start) * 1e3, graph.to_json()


def alone(text: str, hw: Hardware) -> tuple[float, float]:
    """(ms on the clock, ms of the processor)."""
    start, cpu = time.perf_counter(), time.process_time()
    report(OpGraph.from_json(text), hw).to_json()
    return (time.perf_counter() - start) * 1e3, (time.process_time() - cpu) * 1e3


def timed(module: str, hw: Hardware) -> dict:
    source = (PROBLEMS / f"{module}.py").read_text(encoding="utf-8")
    first, text = whole(source, hw)
    runs = [first]
    while statistics.median(runs) > LIMIT and len(runs) < RUNS:
        runs.append(whole(source, hw)[0])
    again = [alone(text, hw) for _ in range(RUNS_TRACED)]
    while statistics.median(wall for wall, _ in again) > LIMIT_TRACED and len(again) < MOST_TRACED:
        again.append(alone(text, hw))
    return {
        "trace_and_report": round(statistics.median(runs), 1), "runs": len(runs),
        "once_traced": round(statistics.median(wall for wall, _ in again), 2),
        "once_traced_cpu": round(statistics.median(cpu for _, cpu in again), 2), "ops": len(json.loads(text)["ops"]),
    }  # fmt: skip


def main(seconds: float = 1e9) -> None:
    hw, began = load("h200"), time.monotonic()
    rows: dict[str, dict] = {}
    for module in module_set("suite59", ()):
        if time.monotonic() - began > seconds:
            break
        rows[module] = timed(module, hw)
        print(f"{module:45} {rows[module]}", file=sys.stderr, flush=True)
    totals = {}
    for key, limit in (("trace_and_report", LIMIT), ("once_traced", LIMIT_TRACED)):
        values = {m: row[key] for m, row in rows.items()}
        worst = max(values, key=lambda m: values[m])
        totals[key] = {"median": round(statistics.median(values.values()), 1), "worst": values[worst], "of": worst,
                     "limit": limit}  # fmt: skip
    document = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()), "device": f"CPU, {os.cpu_count()} cores", "gpu": None,
        "driver": None, "toolchain": f"Python {platform.python_version()}, torch {version('torch')}",
        "command": "python -m tests.sol.benchmark", "load_average": round(os.getloadavg()[1], 1), "unit": "ms",
        "total": totals, "times": rows,
    }  # fmt: skip
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
