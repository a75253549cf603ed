"""How long tracing and reporting take: `python -m tests.sol.benchmark [SECONDS]`. Milliseconds; not a test.

Every module of the suite is traced in a warm sandbox, as a session does it, and reported on for the H200; "once traced"
is the report alone, from the graph's JSON. With SECONDS no module is begun after so long.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from engine.suite.cases import PROBLEMS, module_set
from engine.trace import trace, warm
from sol.graph import OpGraph
from sol.hardware import load
from sol.report import report

READY = 8.0  # s; a session finds its sandbox warm, and what the warming takes (4 s when idle) is not the question


def main(seconds: float = 1e9) -> None:
    hw, began = load("h200"), time.monotonic()
    whole, alone = {}, {}
    for module in module_set("suite59", ()):
        if time.monotonic() - began > seconds:
            break
        source = (PROBLEMS / f"{module}.py").read_text(encoding="utf-8")
        warm(local_user=True)
        time.sleep(READY)
        start = time.perf_counter()
        graph = trace(source, local_user=True).graph
        report(graph, hw).to_json()
        whole[module] = (time.perf_counter() - start) * 1e3
        text = graph.to_json()
        start = time.perf_counter()
        report(OpGraph.from_json(text), hw).to_json()
        alone[module] = (time.perf_counter() - start) * 1e3
    said = {}
    for name, times in (("trace and report, warm", whole), ("once traced", alone)):
        worst = max(times, key=lambda m: times[m])
        said[name] = {"median": round(statistics.median(times.values()), 1), "worst": round(times[worst], 1),
                      "of": worst}  # fmt: skip
    print(json.dumps({"modules": len(whole), "ms": said}, indent=1))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
