"""The whole zoo outside of pytest, many animals side by side, as data: which was caught by what, and how long it took.

python -m tests.engine.integrity.run --json zoo.json              # on a GPU: all of it, about four minutes
python -m tests.engine.integrity.run --device cpu --jobs 1        # the half that needs none
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.evaluate.integrity import verify
from engine.evaluate.timing import gpu_condition
from engine.sandbox import Sandbox, drain
from engine.trace import trace
from tests.engine.integrity import zoo

CPU, CUDA = ("cheats", "honest"), ("cuda_cheats", "cuda_honest")
ON_GPU = 7  # verifiers on the GPU at once: each holds three CUDA contexts


def outcome(animal: zoo.Animal, report) -> dict:
    """One row: expected, seen, and with what is not as expected also the evidence."""
    caught = not report.accepted and not animal.missing(report.codes)
    as_expected = report.accepted != animal.undecided and report.verdict == animal.verdict  # an unseen cheat, too
    ok = caught if animal.expect else as_expected
    return {
        "where": animal.path.parent.name, "name": animal.path.name, "family": animal.family, "ok": ok,
        "verdict": report.verdict, "class": report.cls, "expect": sorted(animal.expect) or [animal.verdict],
        "codes": sorted(report.codes),
        "told": [] if ok else [f"{f.code}: {f.sentence}" for f in report.findings][:8],
    }  # fmt: skip


class Run:
    """Rows as they come, from several threads."""

    def __init__(self, out: Path | None, seconds: float):
        self.out, self.until, self.began = out, time.monotonic() + seconds, time.monotonic()
        self.lock, self.rows, self.graphs = threading.Lock(), [], {}
        gpu = gpu_condition.read() or {}
        self.about = gpu_condition.about("python -m tests.engine.integrity.run --json zoo.json", gpu)
        self.about["sandbox"] = Sandbox.strength(gpu=bool(gpu))

    def trace(self, modules: set[str]) -> None:
        with ThreadPoolExecutor(len(modules)) as pool:
            jobs = {m: pool.submit(trace, zoo.module(m), local_user=True) for m in modules}
            self.graphs = {m: job.result().graph for m, job in jobs.items()}

    def say(self, row: dict) -> None:
        with self.lock:
            self.rows.append(row)
            if self.out:
                ordered = sorted(self.rows, key=lambda r: (r["where"], r["name"]))
                bad = sum(not r["ok"] for r in ordered)
                document = {
                    **self.about,
                    "counts": {"animals": len(ordered), "not as expected": bad},
                    "results": ordered,
                }
                self.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            document = "" if row["ok"] else "  " + " | ".join(row["told"])[:700]
            mark = "ok " if row["ok"] else "BAD"
            print(
                f"{mark} {row['where']:12} {row['name']:30} {row['verdict']:13} {row['seconds']:5.1f} s{document}",
                flush=True,
            )

    def work(self, animals: list[zoo.Animal], device: str, shared: verify.Shared | None = None) -> None:
        """One after the other, a verifier a module."""
        v, name = None, None
        try:
            for a in animals:
                if time.monotonic() > self.until:
                    return
                if a.module != name:
                    if v is not None:
                        v.close()
                    v, name = self._verifier(a.module, device, shared), a.module
                began = time.monotonic()
                try:
                    row = outcome(a, v.verify(a.text, a.kind, a.cls))
                except Exception as e:  # a mistake of ours: told, and the others go on
                    row = {"where": a.path.parent.name, "name": a.path.name, "ok": False, "verdict": "engine error"}
                    row["told"] = [f"{type(e).__name__}: {e}"[:500]]
                self.say({**row, "seconds": round(time.monotonic() - began, 2)})
        finally:
            if v is not None:
                v.close()

    def _verifier(self, module: str, device: str, shared: verify.Shared | None) -> verify.Verifier:
        return verify.Verifier(
            zoo.module(module), device, graph=self.graphs[module], local_user=True, shared=shared, call_seconds=20
        ).start()


def shares(animals: list[zoo.Animal], n: int) -> list[list[zoo.Animal]]:
    """In n lists of about one length, module by module, so that few verifiers are started."""
    ordered = sorted(animals, key=lambda a: (a.module, a.path.name))
    lists: list[list[zoo.Animal]] = [[] for _ in range(n)]
    for i, a in enumerate(ordered):
        lists[i * n // len(ordered)].append(a)
    return [one for one in lists if one]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.integrity.run", description="Run the whole zoo.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=int, default=3, help="children on the CPU at once (default 3)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no animal after so long")
    parser.add_argument("--only", default="", metavar="WORD", help="files whose name has this word")
    parser.add_argument("--json", metavar="OUT", help="the rows, written as they come")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not Path("/dev/nvidiactl").exists():
        print("error: there is no NVIDIA GPU here; --device cpu runs the half that needs none", file=sys.stderr)
        return 2
    cpu, cuda = ([a for f in folders for a in zoo.animals(f) if args.only in a.path.name] for folders in (CPU, CUDA))
    cuda = cuda if args.device == "cuda" else []
    hangs = [a for a in cuda if "time_limit" in a.expect]  # hold the GPU for a while: last, by themselves
    cuda = [a for a in cuda if a not in hangs]
    run = Run(Path(args.json) if args.json else None, args.seconds)
    print(f"{len(cpu) + len(cuda) + len(hangs)} animals; sandbox: {run.about['sandbox']}", flush=True)
    run.trace({a.module for a in (*cpu, *cuda, *hangs)})
    boxes = [verify.Shared(local_user=True) for _ in range(args.jobs)]
    with ThreadPoolExecutor(ON_GPU + args.jobs) as pool:
        jobs = [pool.submit(run.work, part, "cuda") for part in (shares(cuda, ON_GPU) if cuda else [])]
        parts = shares(cpu, args.jobs) if cpu else []
        jobs += [pool.submit(run.work, part, "cpu", box) for part, box in zip(parts, boxes, strict=False)]
        for job in jobs:
            job.result()
        for part in [hangs] if hangs else []:
            pool.submit(run.work, part, "cuda").result()
    for box in boxes:
        box.close()
    drain()
    bad, whole = [r for r in run.rows if not r["ok"]], len(cpu) + len(cuda) + len(hangs)
    summary = f"{len(run.rows)} of {whole}, {len(bad)} not as expected, {time.monotonic() - run.began:.0f} s"
    print(summary, flush=True)
    return 0 if not bad and len(run.rows) == whole else 1


if __name__ == "__main__":
    sys.exit(main())
