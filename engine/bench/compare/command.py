"""`python -m engine compare`."""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.bench.compare import models, proposals, report, work
from engine.bench.compare.arguments import DEFAULT_PROBLEMS
from engine.bench.compare.request import BadRequest, Cell, Request, arm
from engine.bench.compare.results import Results
from engine.bench.run import runner
from engine.devices import SessionRefused, registry
from engine.llm import handler
from engine.llm.settings import Settings

Refused = BadRequest


def run(args: argparse.Namespace) -> bool:
    """Compare. Returns True once every session has ended. Raises Refused."""
    settings = handler.of_environment()
    rehearsed = bool(settings.why_not("implement"))
    request = Request(
        tuple(arm(text) for text in args.strategies.split(",") if text), tuple(args.problems) or DEFAULT_PROBLEMS,
        args.skills, args.seeds, args.cls, args.device, args.trials, args.tokens, args.eps, args.window, args.order,
        rehearsed,
    )  # fmt: skip
    out = Path(args.json) if args.json else None
    about = {}
    if rehearsed and args.proposals:
        about["proposals"] = proposals.checked(Path(args.proposals), request.problems)
    say = functools.partial(print, flush=True)
    if args.jobs < 0:
        raise BadRequest(f"--jobs {args.jobs} is too small; write a whole number, 0 for as many as there are cores")
    try:
        results = compare(request, None if rehearsed else settings, out, args.jobs, say, about)
    except SessionRefused as e:  # of the device: a problem that cannot be opened ends its sessions alone
        raise BadRequest(f"--device {args.device}: {e.reason}") from None
    if out is None:
        print(report.markdown(results.about, list(results.rows.values())))
    else:
        print("\n".join(f"wrote {path}" for path in report.write(out, results.about, list(results.rows.values()))))
    return all(map(results.finished, request.cells()))


def compare(
    request: Request, settings: Settings | None, out: Path | None, jobs: int, say: Callable[[str], None],
    about: dict[str, Any] | None = None,
) -> Results:  # fmt: skip
    """Play every session that the results lack. `settings`: of a real model; None: the rehearsal answers."""
    results = Results(out, about_of(request, settings) | (about or {}))
    units = [u for u in request.units() if not all(map(results.finished, u))]
    began, before, stop = time.monotonic(), results.about.get("seconds", 0.0), threading.Event()
    total, many = sum(1 for _ in request.cells()), sum(map(len, units))

    def put(rows: list[dict[str, Any]]) -> None:
        results.about["seconds"] = round(before + time.monotonic() - began, 1)
        results.put(rows)
        done = len(results.rows)
        for row in rows:
            say(f"{done:5}/{total} {line(row)}")

    def lessons(cell: Cell) -> str:
        """The memory of a session: what another arm learned on the other problems."""
        source = request.arm(cell.arm).memory
        others = (r for r in results.rows.values() if r["arm"] == source and r["problem"] != cell.problem)
        texts = (r.get("lesson", "") for r in others if (r["skill"], r["seed"]) == (cell.skill, cell.seed))
        return "".join(texts) if source else ""

    for one in request.arms if request.device.startswith("modelled") else ():
        if one.writes_kernels:
            why = f"{request.device} predicts programs only, so none of its results has a time"
            say(f"note: {one.name} writes raw kernels; {why}; write {one.strategy}:form=program, or --device cuda")
    say(f"{many} of {total} sessions to play" + (f"; {out} goes on" if many < total else ""))
    store = out.with_name(f"{out.name}.verified.jsonl") if out is not None else None
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            passes = ([u for u in units if not _memory(request, u)], [u for u in units if _memory(request, u)])
            for some in passes:
                _play(request, settings, some, lessons, put, stop, store, jobs, Path(folder))
    except KeyboardInterrupt:
        say("stopped; " + (f"the same command continues from {out}" if out else "nothing was written"))
    finally:
        stop.set()
        results.write()
    if store is not None and all(map(results.finished, request.cells())):
        store.unlink(missing_ok=True)
    return results


def _play(
    request: Request, settings: Settings | None, units: Sequence[list[Cell]], lessons: Callable[[Cell], str],
    put: Callable[[list[dict[str, Any]]], None], stop: threading.Event, store: Path | None, jobs: int, folder: Path,
) -> None:  # fmt: skip
    jobs = jobs or min(4, os.cpu_count() or 1)
    if request.device.startswith("modelled"):
        for name, value in work.NO_COMPILERS.items():
            os.environ.setdefault(name, value)
    if settings is not None or jobs == 1 or not request.device.startswith("modelled"):
        work.here(request, settings or models.rehearsal(folder), units, lessons, put, stop, store)
    elif units:
        own = store or folder / "verified.jsonl"
        work.apart(request, units, lessons, put, stop, own, min(jobs, len(units)))


def _memory(request: Request, unit: Sequence[Cell]) -> bool:
    return bool(request.arm(unit[0].arm).memory)


def about_of(request: Request, settings: Settings | None) -> dict[str, Any]:
    """What the results say of themselves. Raises SessionRefused where there is no such device."""
    predicted = request.device.startswith("modelled")
    machine = {} if predicted else runner.about(registry.get(request.device, local_user=True))
    return {n: machine[n] for n in ("gpu", "driver", "toolchain") if n in machine} | {
        "request": request.settings, "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "model": "rehearsed: rules wrote each reply" if settings is None else settings.model_for("implement"),
        "kind": "predicted" if predicted else "measured",
        "cores": os.cpu_count(),
    }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """A session's end, for a terminal."""
    best = max((t["ratio"] for t in row["trials"] if t["counts"] and t.get("ratio")), default=None)
    skill = "" if row["skill"] is None else f" skill {row['skill']:g}"
    speed = f"{best:6.2f}x PyTorch" if best else "no right result"
    tokens = row["tokens"].get("in", 0) + row["tokens"].get("out", 0)
    ended = "" if row["state"] == "done" else f"; {row['state']}: {row['reason'][:120]}"
    if not best and not ended:
        why = {step: text[:120] for step, text in row.get("words", {}).items()} or {"end": row["reason"][:240]}
        ended = f"; {'; '.join(f'{step}: {text}' for step, text in why.items())}"
    return (
        f"{row['problem']:28} {row['arm']:24}{skill} seed {row['seed']}: {speed}, {row['evaluations']} evaluations, "
        f"{tokens:,} tokens, {row['seconds']['all']:.1f} s{ended}"
    )
