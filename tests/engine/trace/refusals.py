"""How long each hostile text takes to be refused as the engine does it, and what the engine's own memory gains.

    python -m tests.engine.trace.refusals --json refusals.json     # twenty minutes on two quiet cores

Each text of hostile/ is traced as in a session: in a child of its own, which was started beforehand, with the limits of
production. The seconds count from the request to the refusal. Aims (issue 14): the median under 2 s, the worst under
35 s, and all of them together leave less than 50 MiB in this process.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from statistics import median

from engine import atomic_write, sandbox
from engine.devices import SessionRefused
from engine.evaluate.timing import gpu_condition
from engine.trace import trace, warm

FILES = sorted((Path(__file__).parent / "hostile").glob("*.py"))
MEDIAN_S, WORST_S, GROWTH = 2.0, 35.0, 50 << 20
FIRST = 10  # texts before the memory counts: what is imported once


def resident() -> int:
    """Bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def child_waits() -> None:
    """Wait until a child is warm, as on an engine that is not busy."""
    warm()
    for boxes in list(sandbox.pool._waiting.values()):
        for box in boxes:
            box.wait_ready()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.trace.refusals")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    about = gpu_condition.about("python -m tests.engine.trace.refusals --json refusals.json", {})
    rows, before = [], resident()
    for number, path in enumerate(FILES):
        if number == FIRST:
            before = resident()
        text = path.read_text()
        child_waits()
        began = time.monotonic()
        try:
            trace(text)
            code = "accepted"
        except SessionRefused as e:
            code = e.code
        seconds = time.monotonic() - began
        expected = (re.search(r"# alone: (.+)", text) or re.search(r"# expect: (.+)", text))[1]
        rows.append({"text": path.stem, "code": code, "expected": expected, "seconds": round(seconds, 3)})
        print(f"{seconds:7.2f} s  {path.stem:40} {code}", flush=True)
        if args.json:
            atomic_write.write_results(args.json, about | summary(rows, resident() - before))
    result = summary(rows, resident() - before)
    print({k: v for k, v in result.items() if k != "results"})
    good = result["median_s"] < MEDIAN_S and result["worst_s"] < WORST_S and result["growth_bytes"] < GROWTH
    return 0 if good and not result["others"] else 1


def summary(rows: list[dict], growth: int) -> dict:
    """The figures of the texts so far. `others`: those that ended otherwise than their first line expects."""
    times = [r["seconds"] for r in rows]
    others = [r for r in rows if r["code"] not in r["expected"].split(" or ")]
    return {
        "texts": len(rows), "median_s": median(times), "worst_s": max(times), "growth_bytes": growth,
        "load_average": os.getloadavg(), "others": others, "results": rows,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
