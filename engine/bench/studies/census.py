"""What the planner makes of every module in a folder: programs, PyTorch, or a refusal, and each cause. Runs no module.

    python -m engine.bench.studies.census FOLDER --json census.json [--only level3] [--seconds 600]

Each Python file below FOLDER is one problem in the form that a session takes. It goes the way of a session up to its
first trial: traced in the sandbox, reported on, planned for the modelled device. So a folder of whole models costs no
GPU and little memory. The same command continues a file; a problem whose text has changed is planned again, and with
`--again` every one. The file has names, counts and causes, and no line of a problem's text. A model that
engine.bench.studies.written_out could not write into FOLDER counts as refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.devices import Problem, SessionRefused
from engine.evaluate.timing import gpu_condition
from engine.strategies.planner.regions.coverage import shares
from engine.strategies.problem import Prepared
from engine.suite import folder as folders
from engine.suite.folder import natural, problems, unquoted
from engine.trace import trace, warm
from sol.attainable import predict_eager
from sol.bounds import pytorch_class
from sol.graph import OpGraph
from sol.hardware import Hardware, load
from sol.report import report

LEFT_OUT = "left_out.json"  # in a folder: {packages: {name: version}, models: {name: why it has no file}}
OUTCOMES = ("whole", "part", "pytorch", "refused")


def row_of(source: str, hw: Hardware, classes: tuple[str, ...]) -> dict[str, Any]:
    """One problem: its outcome, its causes, and the seconds of each step. `cpu`: of this process; the tracer's own time
    is in `trace_s`, which is wall time."""
    row: dict[str, Any] = {"sha256": hashlib.sha256(source.encode()).hexdigest()}
    began = time.perf_counter()
    try:
        traced = trace(source, local_user=True)
    except SessionRefused as e:
        return row | _refused("trace", e) | {"trace_s": round(time.perf_counter() - began, 2)}
    row |= {"ops": len(traced.graph.ops), "trace_s": round(traced.seconds, 2)}
    began, cpu = time.perf_counter(), time.process_time()
    report(traced.graph, hw, asked=classes).to_json()
    row |= {"report_s": round(time.perf_counter() - began, 3)}
    prepared = Prepared(Problem(source, "module", traced.graph), classes, hw)
    row |= planned(prepared, hw, classes[0])
    return row | {"plan_s": round(time.perf_counter() - began - row["report_s"], 2),
                  "cpu_s": round(time.process_time() - cpu, 2)}  # fmt: skip


def planned(prepared: Prepared, hw: Hardware, cls: str) -> dict[str, Any]:
    """The outcome of planning. `time`: the share of the module's time at its limit that lies in programs; `eager`: the
    same of PyTorch's predicted time; `faster`: of that, the share in programs predicted to beat PyTorch there."""
    graph, parts = prepared.graph, [p for p in prepared.parts if p.cls == cls and p.algebraic is None]
    if prepared.refusal is not None and prepared.covered is None:
        return _refused("plan", prepared.refusal)
    eager = _eager(graph, hw, cls)
    every = sum(eager.values()) or 1.0
    inside, beating, composed = set(), 0.0, sum(eager.values())
    for part in parts:
        ops = {op.name for op in (part.region.graph if part.region else graph).ops}
        theirs, ours = sum(eager.get(name, 0.0) for name in ops), min(s.ms for s in part.structures)
        inside |= ops
        if ours < theirs:
            beating, composed = beating + theirs, composed + ours - theirs
    whole = bool(parts) and all(p.region is None for p in parts)
    return {
        "outcome": "whole" if whole else "part" if parts else "pytorch",
        "programs": len(parts),
        "time": round(shares(graph, inside, hw, cls)["time"], 3),
        "eager": round(sum(eager.get(name, 0.0) for name in inside) / every, 3),
        "faster": round(beating / every, 3),
        "eager_ms": round(every, 4), "composed_ms": round(composed, 4),
        "stays": dict(Counter(u.op for u in prepared.uncovered).most_common()),
        "causes": _causes(prepared, eager, every),
    }  # fmt: skip


def _eager(graph: OpGraph, hw: Hardware, cls: str) -> dict[str, float]:
    """Operation -> PyTorch's predicted ms."""
    ms: dict[str, float] = {}
    for stage in predict_eager(graph, hw, pytorch_class(cls, graph), autocast=True).stages:
        ms[stage.name] = ms.get(stage.name, 0.0) + stage.ms
    return ms


def _causes(prepared: Prepared, eager: dict[str, float], every: float) -> list[dict[str, Any]]:
    """Why operations stay PyTorch, the costliest first: {op, why, count, share of PyTorch's predicted time}."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for u in prepared.uncovered:
        why = unquoted(u.why or u.reason)[:200]
        own = rows.setdefault((u.op, why), {"op": u.op, "why": why, "count": 0, "share": 0.0})
        own["count"] += 1
        own["share"] += eager.get(u.name, 0.0) / every
    ranked = sorted(rows.values(), key=lambda r: -r["share"])
    return [row | {"share": round(row["share"], 3)} for row in ranked[:8]]


def _refused(step: str, e: SessionRefused) -> dict[str, Any]:
    reason = unquoted(e.reason)[:300]
    return {"outcome": "refused", "step": step, "code": e.code, "line": e.line, "reason": reason}


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """By folder and in all: how many of each outcome, how many have programs for more than half of PyTorch's predicted
    time, and the operations that keep the most time in PyTorch."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows.items():
        groups.setdefault(name.rpartition("/")[0], []).append(row)
    if len(groups) > 1:
        groups["all"] = list(rows.values())
    return {group: _counts(own) for group, own in groups.items()}


def _counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    accepted = [row for row in rows if row["outcome"] != "refused"]
    lacking: Counter[str] = Counter()
    for row in accepted:
        for cause in row["causes"]:
            lacking[cause["op"]] += cause["share"]
    return {
        "problems": len(rows), **{o: sum(row["outcome"] == o for row in rows) for o in OUTCOMES},
        "more_than_half": sum(row["eager"] > 0.5 for row in accepted),
        "mean_eager": round(sum(row["eager"] for row in accepted) / max(1, len(accepted)), 3),
        "lacking": {op: round(share, 2) for op, share in lacking.most_common(12) if share >= 0.01},
    }  # fmt: skip


def line(name: str, row: dict[str, Any]) -> str:
    """A row for a terminal."""
    if row["outcome"] == "refused":
        return f"{name:52} refused ({row['step']}, {row['code']}): {row['reason'][:110]}"
    causes = ", ".join(f"{c['op']} {c['share']:.0%}" for c in row["causes"][:4])
    seconds = f"{row['trace_s']:5.1f} + {row['plan_s']:5.1f} s"
    return f"{name:52} {row['outcome']:7} {row['programs']:3} {row['eager']:5.0%}  {seconds}  {causes}"


def run(folder: Path, out: Path | None, chosen: Iterable[str], args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Plan every problem that the file lacks; write after each."""
    rows: dict[str, dict[str, Any]] = {}
    if out is not None and out.exists():
        rows = json.loads(out.read_text(encoding="utf-8"))["problems"]
    hw, until, paths = load(args.hardware), time.monotonic() + args.seconds, problems(folder)
    command = "python -m engine.bench.studies.census FOLDER --json census.json"
    about = gpu_condition.about(command, None) | {
        "kind": "predicted", "hardware": args.hardware, "classes": args.classes, "cores": os.cpu_count(),
    }  # fmt: skip
    if (folder / LEFT_OUT).exists():
        left = json.loads((folder / LEFT_OUT).read_text(encoding="utf-8"))
        about["packages"] = left["packages"]
        for name, reason in left["models"].items():
            rows[name] = {"outcome": "refused", "step": "write", "code": "left_out", "line": None, "reason": reason}
    for name in chosen:
        source = paths[name].read_text(encoding="utf-8")
        digest = hashlib.sha256(source.encode()).hexdigest()
        if not args.again and rows.get(name, {}).get("sha256") == digest:
            continue
        if time.monotonic() >= until:
            print(f"stopped after {args.seconds:.0f} s; the same command continues")
            break
        warm(local_user=True)
        rows[name] = row_of(source, hw, tuple(args.classes))
        print(line(name, rows[name]), flush=True)
        if out is not None:
            ordered = {n: rows[n] for n in sorted(rows, key=natural)}
            atomic_write.write_results(out, about | {"summary": summary(ordered), "problems": ordered})
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.census", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="modules, one a file, in any folders below")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the rows, written after each problem")
    parser.add_argument("--only", default="", metavar="A,B", help="problems whose name has one of these words")
    parser.add_argument("--hardware", default="h200", help="whose figures price the work (default h200)")
    parser.add_argument("--classes", nargs="+", default=["tf32"], help="precision classes (default tf32)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no problem after so long")
    parser.add_argument("--again", action="store_true", help="plan the problems of the file again")
    args = parser.parse_args(argv)
    words = [w for w in args.only.split(",") if w]
    chosen = folders.chosen(list(problems(args.folder)), tuple(words))
    if not chosen:
        print(f"error: no Python file below {args.folder} has such a name", file=sys.stderr)
        return 2
    rows = run(args.folder, args.json, chosen, args)
    print(json.dumps(summary({n: rows[n] for n in chosen if n in rows}), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
