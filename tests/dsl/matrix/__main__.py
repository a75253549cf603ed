"""`python -m tests.dsl.matrix`: the whole matrix, or part of it, to a JSON report. Exit status 1: something failed."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from engine.build import toolchain
from tests.dsl.matrix.build import Job, build, jobs
from tests.dsl.matrix.configurations import FAMILIES, configurations


class Report:
    """Rows as they come, written to the file every few seconds and at the end."""

    def __init__(self, path: Path | None):
        self.path, self.rows, self.rejected = path, [], {}
        self.began, self._last, self._lock = time.time(), 0.0, threading.Lock()
        self.names: set[str] = set()  # of every configuration asked for
        self._known: dict[str, dict] = {}
        if path is not None and path.exists():
            with contextlib.suppress(ValueError, KeyError):
                earlier = json.loads(path.read_text())["results"]
                self._known = {r["source"]: r for r in earlier if r["ok"] and "source" in r}

    def without_known(self, todo: list[Job]) -> list[Job]:
        """The builds whose generated text an earlier run has not compiled; the others' rows are by_backend over."""
        left = []
        for job in todo:
            row = self._known.get(job.digest)
            if row is not None and row["backend"] == job.backend:
                self.rows.append(row | {"name": job.configuration.name, "family": job.configuration.family})
            else:
                left.append(job)
        return left

    def add(self, row: dict) -> None:
        with self._lock:
            self.rows.append(row)
            if "refused" not in row:
                reason = "" if row["ok"] else row["message"].strip().partition("\n")[0][:160]
                print(f"{row['name']:20} {row['backend']:8} {row['seconds']:7.1f} s  {reason or 'ok'}", flush=True)
            if time.time() - self._last > 3:
                self.write()

    def counts(self) -> dict:
        built = [r for r in self.rows if "refused" not in r]
        good = [r for r in built if r["ok"]]
        names = self.names | {r["name"] for r in self.rows}
        failed = {r["name"] for r in built if not r["ok"]}
        return {
            "configurations": len(names),
            "compiled": len({r["name"] for r in good} - failed),
            "failed": len(failed),
            "builds": dict(Counter(r["backend"] for r in good)),
            "refused": dict(Counter(f"{r['backend']} {r['refused']}" for r in self.rows if "refused" in r)),
            "by_family": dict(Counter(n.rpartition("_")[0] for n in names)),
            "rejected_by_check": self.rejected,
            "seconds": round(time.time() - self.began, 1),
        }

    def gaps(self) -> list[tuple[str, str, str]]:
        """Each reason for which a family is not generated, once: (family, back end, how many and why)."""
        reasons = [r for r in self.rows if "refused" in r or not r["ok"]]
        many = Counter(
            (r["family"], r["backend"], r.get("why") or r["message"].strip().partition("\n")[0]) for r in reasons
        )
        return [(f, b, f"{n} x {why[:200]}") for (f, b, why), n in sorted(many.items())]

    def write(self) -> None:
        self._last = time.time()
        if self.path is not None:
            rows = sorted(self.rows, key=lambda r: (r["ok"], r["name"], r["backend"]))
            about = {
                "date": datetime.now(UTC).date().isoformat(),
                "toolchain": toolchain.find().versions(),
                "counts": self.counts(),
            }
            self.path.write_text(json.dumps(about | {"results": rows}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dsl.matrix", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once (default 2); one of nvcc takes 4 GB")
    parser.add_argument("--family", default="", help="families, by commas; all otherwise: " + ", ".join(FAMILIES))
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="the first N of each family only")
    parser.add_argument("--backend", choices=("cute", "cpp"), help="only this one")
    parser.add_argument("--generate", action="store_true", help="compile nothing: who takes what, and what nobody does")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the report; an earlier one's good builds stand")
    args = parser.parse_args()
    report = Report(args.json)
    todo = []
    for family in args.family.split(",") if args.family else FAMILIES:
        members, report.rejected[family] = configurations(family)
        members = members[: args.sample or None]
        report.names |= {c.name for c in members}
        todo += jobs(members, report.add, args.backend)
    if args.generate:
        for family, backend, reason in report.gaps():
            print(f"{family:16} {backend:9} {reason}")
        by_backend = Counter((j.configuration.family, j.backend) for j in todo)
        for family in report.rejected:
            many = len(configurations(family)[0])
            print(f"{family:16} {many:4}  cute {by_backend[family, 'cute']:4}  cpp {by_backend[family, 'cpp']:4}")
    else:
        build(report.without_known(todo), args.jobs, report.add)
    report.write()
    counts = report.counts()
    print(json.dumps({k: v for k, v in counts.items() if k != "by_family"}))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
