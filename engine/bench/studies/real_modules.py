"""Twelve modules of their own packages from end to end: optimised from Python, right, exported, reloaded, timed.

    pip install torchvision timm transformers diffusers
    python -m engine.bench.studies.real_modules --json real.json                          # on this machine's GPU
    python -m engine.bench.studies.real_modules bert_layer --device modelled:h200 --json real.json    # a prediction

Each module goes the way of `ucutlass.optimize`. On a GPU a row then has `works`: whether the result gives the
original's values when it is called, replayed as a CUDA graph, on a stream of its own, under torch.compile and
torch.export, and after a fresh process has made the module again and put the exported package around it (`reloaded`,
also without a GPU, where there are programs); and `times`: device time of a call in ms, [median, low, high] of ROUNDS
calls with a cold L2, taken in turn: eager, torch.compile with max-autotune, and ours. Its autotuning takes minutes a
module; `--quick` leaves it out. The same command continues a file; without `--quick` it makes the rows again that
lack it. Failures are rows too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import atomic_write, jsonprocess
from engine.bench.studies.host_time import TOLERANCE, works
from engine.bench.studies.packages import MODULES
from engine.evaluate.reference.pytorch_classes import accumulating
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.samples import Timer, interval, paired_ratio

ROUNDS = 25
RELOAD_SECONDS = 600
PYTHON = Path(__file__).resolve().parents[2] / "python"  # where `import ucutlass` is, in a checkout
COMMAND = "python -m engine.bench.studies.real_modules"
OURS, EAGER, COMPILED = "ucutlass", "eager", "compile_max"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"some of {', '.join(MODULES)} (default: all)")
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for a prediction")
    parser.add_argument("--seconds", type=float, default=120.0, help="of searching, for each module")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--quick", action="store_true", help="without torch.compile's max-autotune")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--reload", nargs=2, metavar=("PACKAGE", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    unknown = [name for name in args.modules if name not in MODULES]
    if unknown:
        parser.error(f"there is no module {unknown[0]}; there are {', '.join(MODULES)}")
    if args.reload:
        return reload(args.modules[0], args.device, *map(Path, args.reload))
    if args.json is None:
        parser.error("--json names the file of results")
    rows = json.loads(args.json.read_text())["rows"] if args.json.exists() else {}
    about = gpu_condition.about(" ".join([COMMAND, *(argv or sys.argv[1:])]), gpu_condition.read()) | {
        "seconds": args.seconds
    }
    for name in args.modules or MODULES:
        if name in rows and (args.quick or not lacks_autotune(rows[name])):
            continue
        rows[name] = row_of(name, args)
        print(line(name, rows[name]), flush=True)
        atomic_write.write_results(args.json, about | {"rows": rows})
    return 0 if all("error" not in row for row in rows.values()) else 1


def lacks_autotune(row: dict[str, Any]) -> bool:
    """Whether a row has times, but not those of max-autotune, because it was made by `--quick`."""
    return "times" in row and not row["times"].keys() & {COMPILED, "compile_refused"}


def row_of(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """One module's row; with `error` where a step failed, and `at` then names the step."""
    real = MODULES[name]
    row: dict[str, Any] = {"package": real.package, "about": real.about, "type": str(real.dtype).rpartition(".")[2]}
    step = "make"
    try:
        row["version"] = importlib.metadata.version(real.package)
        module, inputs = real.make()
        home = "cuda" if args.device == "cuda" else "cpu"
        module, inputs = module.to(home), tuple(x.to(home) for x in inputs)
        step = "optimize"
        began = time.perf_counter()
        fast = ucutlass().optimize(
            module, inputs, device=args.device, seconds=args.seconds, trials=args.trials, title=name, verbose=False
        )
        report = fast.report
        row |= {
            "optimize_s": round(time.perf_counter() - began, 1), "kind": report.kind, "class": report.cls,
            "way": report.way, "compiled_ms": report.compiled_ms,
            "ms": report.ms, "pytorch_ms": report.pytorch_ms, "baseline": report.baseline,
            "speedup": report.speedup,
            "bounds_ms": report.bounds_ms, "trials": report.trials, "reason": report.reason,
            "programs": len(report.programs), "stays": dict(Counter(report.pytorch)),
        }  # fmt: skip
        step = "works"
        row["works"] = works(module, fast, list(inputs)) if home == "cuda" else {}
        if report.programs:
            row["works"]["reloaded"] = reloaded(name, module, fast, inputs)
        if home == "cuda":
            step = "times"
            row["times"] = timed(module, fast, inputs, autotune=not args.quick)
    except Exception as e:
        row |= {"error": f"{type(e).__name__}: {e}"[:600], "at": step, "where": traceback.format_exc(limit=-2)[-800:]}
    return row


def ucutlass() -> Any:
    """The package, from this checkout."""
    if str(PYTHON) not in sys.path:
        sys.path.insert(0, str(PYTHON))
    return importlib.import_module("ucutlass")


# ---- in a fresh process ----


def reloaded(name: str, module: Any, fast: Any, inputs: tuple[Any, ...]) -> bool | str:
    """Whether a process that knows only the exported package and makes the module again gets the same values. True, or
    what went wrong."""
    import torch

    package = type(fast).__module__.partition(".")[0]
    folder = Path(sys.modules[package].__file__).parent
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "result.pt"
        command = [sys.executable, "-m", COMMAND.split()[-1], name]
        command += ["--device", "cuda" if inputs[0].is_cuda else "cpu", "--reload", str(folder), str(out)]
        env = {**os.environ, "PYTHONPATH": jsonprocess.python_path()}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=RELOAD_SECONDS)
        if done.returncode:
            return done.stderr[-300:]
        theirs = torch.load(out)
    with torch.no_grad(), _quick(inputs):
        ours = module(*inputs).cpu().double()
    return bool((theirs.double() - ours).norm() <= TOLERANCE * ours.norm())


def reload(name: str, home: str, package: Path, out: Path) -> int:
    """The fresh process: the module made again, the package around it, its result written to `out`."""
    import torch

    module, inputs = MODULES[name].make()
    module, inputs = module.to(home), tuple(x.to(home) for x in inputs)
    sys.path.insert(0, str(package.parent))
    fast = importlib.import_module(package.name).optimized(module)
    fast.load_state_dict(module.state_dict())
    with torch.no_grad(), _quick(inputs):
        torch.save(fast(*inputs).cpu(), out)
    return 0


def _quick(inputs: tuple[Any, ...]) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if inputs[0].is_cuda else accumulating()


# ---- times ----


def timed(module: Any, fast: Any, inputs: tuple[Any, ...], autotune: bool = True) -> dict[str, Any]:
    """{way: [median, low, high] in ms}, and {"over_<way>": the ratio of that way's time to ours, the same}. `autotune`:
    with torch.compile's max-autotune."""
    import torch

    with torch.no_grad():
        calls: dict[str, Callable[[], Any]] = {EAGER: lambda: module(*inputs), OURS: lambda: fast(*inputs)}
        refused = ""
        if autotune:
            compiled = torch.compile(module, mode="max-autotune-no-cudagraphs")
            try:
                compiled(*inputs)
                calls[COMPILED] = lambda: compiled(*inputs)
            except Exception as e:
                refused = f"{type(e).__name__}: {e}"[:300]
        timer = Timer()
        for call in calls.values():
            for _ in range(3):
                call()
        samples: dict[str, list[float]] = {way: [] for way in calls}
        for _ in range(ROUNDS):
            for way, call in calls.items():
                samples[way].append(timer.sample(call))
    times: dict[str, Any] = {way: interval(ms) for way, ms in samples.items()}
    for way in calls.keys() - {OURS}:
        times[f"over_{way}"] = paired_ratio(list(zip(samples[way], samples[OURS], strict=True)))
    return times | ({"compile_refused": refused} if refused else {})


def line(name: str, row: dict[str, Any]) -> str:
    """A row in one line for a person."""
    if "error" in row:
        return f"{name}: {row['at']} failed: {row['error']}"
    text = f"{name}: {row['speedup']:.2f}x {row['baseline']} ({row['kind']}), {row['programs']} programs"
    fails = [way for way, result in row.get("works", {}).items() if result is not True]
    return text + (f"; fails: {', '.join(fails)}" if fails else "")


if __name__ == "__main__":
    sys.exit(main())
