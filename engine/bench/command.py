"""`python -m engine bench`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from engine.bench.report import coverage
from engine.bench.report.table import table
from engine.bench.run import processes, runner, shards
from engine.bench.run.request import Request
from engine.devices import SessionRefused, registry
from engine.evaluate.reference.baseline_cache import NAMES
from engine.session.script.compiled import Compiling
from engine.session.spec import BadSpec
from engine.session.spec_arguments import spec_of
from engine.suite import folder as folders
from engine.suite.cases import BESIDE, PROBLEMS, module_set, set_of

OF_THE_PROBLEM = ("title", "source", "source_kind")
SETS = ("suite59", *BESIDE)
COMPILE_SECONDS = 90.0  # for one of torch.compile's baselines, so that no module delays a bench for long


class Refused(Exception):
    """The command cannot run: one sentence with the reason and the way out."""


def run(args: argparse.Namespace) -> bool:
    """Run a bench. Returns True if every problem has a right program in each class. Raises Refused."""
    if args.set == "merge":
        return _merge(args)
    if args.files:
        raise Refused(f"bench {args.set} takes no files; `bench merge {' '.join(args.files)} --json OUT` joins results")
    try:
        modules, folder = _modules(args)
        if args.shard:
            modules = shards.deal(modules, shards.parse(args.shard))
        compiling = _compiling(args)
        args.compile = args.compile or bool(compiling.ways) or None
        fields = spec_of(args, "any", "any", "module", "cuda").to_dict()
        request = Request(
            modules, {n: v for n, v in fields.items() if n not in OF_THE_PROBLEM}, args.seconds, folder,
            args.search_seconds, compiling,
        )  # fmt: skip
    except ValueError as e:
        raise Refused(str(e)) from None
    try:
        device = request.settings["device"]
        gpus = registry.gpu_names(device, args.gpus)
        evaluators = []
        if len(gpus) == 1:
            runner.trace_early(args.at_once)
            evaluators = registry.several(device, args.at_once, local_user=True)
    except SessionRefused as e:
        raise Refused(f"{e.reason}; `--device modelled:h200` predicts the times of an H200 without a GPU") from None
    out = Path(args.json) if args.json else None
    try:
        if len(gpus) > 1:
            results = processes.run(request, gpus, out, _say, args.at_once)
        else:
            results = runner.run(request, evaluators, out, _say, args.at_once)
    except (shards.BadResults, BadSpec, processes.ProcessLost) as e:
        raise Refused(str(e)) from None
    except KeyboardInterrupt:
        print("stopped; " + (f"the same command continues from {args.json}" if args.json else "nothing was written"))
        return False
    chosen = {m: results.problems[m] for m in modules if m in results.problems}
    _show(chosen, tuple(fields["classes"]), results.about)
    return len(chosen) == len(modules) and all(_right(row, fields["classes"]) for row in chosen.values())


def _say(text: str) -> None:
    print(text, flush=True)


def _modules(args: argparse.Namespace) -> tuple[dict[str, str], Path]:
    """({module: id}, their folder) of a set or of a folder of modules. Raises ValueError."""
    only = tuple(filter(None, args.only.split(",")))
    if args.at_once < 1:
        raise ValueError(f"--at-once takes a whole number from 1, not {args.at_once}")
    if args.set in SETS:
        return module_set(args.set, only), PROBLEMS
    if not Path(args.set).is_dir():
        raise ValueError(f"there is no folder {args.set}; name a folder of modules, or one of {', '.join(SETS)}, merge")
    return folders.module_set(Path(args.set), only), Path(args.set)


def _compiling(args: argparse.Namespace) -> Compiling:
    """Which of torch.compile's times are taken. Raises ValueError."""
    ways = tuple(filter(None, args.compile_ways.split(",")))
    known = [name for name in NAMES if name.startswith("compile")]
    if unknown := [way for way in ways if way not in known]:
        raise ValueError(f"--compile-ways has no {', '.join(unknown)}; write some of {', '.join(known)}")
    return Compiling(ways, args.compile_seconds or (COMPILE_SECONDS if ways else None))


def _right(row: dict[str, Any], classes: list[str]) -> bool:
    """Return True if every class with trials in the session has a right one."""
    tried = {t["class"] for t in row["trials"]}
    return bool(tried) and all(any(t["ok"] for t in row["trials"] if t["class"] == cls) for cls in tried)


def _show(problems: dict[str, dict], classes: tuple[str, ...], about: dict[str, Any]) -> None:
    if about.get("kind") == "predicted":
        print(f"\nEvery time is a prediction for {about['hardware']}, none is measured.")
    tried = {t["class"] for row in problems.values() for t in row["trials"]}
    shown = tuple(dict.fromkeys([*(c for c in classes if c in tried), *sorted(tried)]))
    print(table(problems, shown))
    if set_of(row["id"] for row in problems.values()) != "suite59":
        print("\n".join(text for cls in shown for text in coverage.words(problems, cls)))


def _merge(args: argparse.Namespace) -> bool:
    if not args.files or not args.json:
        raise Refused("bench merge takes the files to join and where to: bench merge a.json b.json --json OUT")
    try:
        merged = shards.merge([Path(f) for f in args.files])
        Path(args.json).write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    except shards.BadResults as e:
        raise Refused(str(e)) from None
    except OSError as e:
        raise Refused(f"cannot write {args.json}: {e.strerror}; name a file in a folder that exists") from None
    tried = {t["class"] for row in merged["problems"].values() for t in row["trials"]}
    _show(merged["problems"], tuple(args.classes or sorted(tried, reverse=True)), merged["about"])
    return True
