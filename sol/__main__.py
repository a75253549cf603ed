"""`python -m sol`: the report of a traced graph, the list of GPUs, replay of benches, sweeps."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from sol import replay as replays
from sol.graph import OpGraph
from sol.hardware import HardwareError, available, load
from sol.model import sweep as sweeps
from sol.report import report


def _gpus(_: argparse.Namespace) -> int:
    names = available()
    width = max(map(len, names))
    for name in names:
        hw = load(name)
        peaks = "  ".join(f"{c} {hw.peak(c) / 1e12:.4g}" for c in hw.classes())
        print(f"{name:{width}}  {hw.title}, {hw.bandwidth / 1e12:.3g} TB/s, TFLOP/s: {peaks}")
    return 0


def _times(items: list[str] | None) -> dict[str, float]:
    """`tf32=0.36` -> {"tf32": 0.36}. Raises ValueError with an example."""
    out = {}
    for item in items or ():
        cls, _, ms = item.partition("=")
        try:
            out[cls] = float(ms)
        except ValueError:
            out[cls] = 0.0
        if not 0 < out[cls] < float("inf"):
            raise ValueError(f"{item!r} is not a time: write a class and milliseconds, for example tf32=0.36")
    return out


def _report(args: argparse.Namespace) -> int:
    text = sys.stdin.read() if args.graph == "-" else Path(args.graph).read_text(encoding="utf-8")
    result = report(OpGraph.from_json(text), load(args.gpu), args.cls, _times(args.measured), _times(args.best))
    for flag, times in (("--measured", _times(args.measured)), ("--best", _times(args.best))):
        if stray := [cls for cls in times if cls not in result.classes]:
            has = ", ".join(result.classes)
            raise ValueError(f"{flag} {stray[0]}: the report has the classes {has}; add `--class {stray[0]}`")
    print(result.to_json() if args.json else result.to_html() if args.html else result.to_markdown())
    return 0


def _replay(args: argparse.Namespace) -> int:
    omissions: list[replays.Omission] = []
    print(replays.show(args, replays.load(args.sessions, omissions=omissions), omissions))
    return 0


def _sweep(args: argparse.Namespace) -> int:
    text = Path(args.sweep).read_text(encoding="utf-8")
    if args.json:
        judged = sweeps.judge(text, load(args.gpu), top=args.top)
        rows = [
            {"id": j.id, "held_out": j.held_out, "regret": j.regret, "error": j.error, "bias": j.bias,
             "runs": [asdict(r) for r in j.runs]}
            for j in judged
        ]  # fmt: skip
        print(json.dumps({"total": asdict(sweeps.total(judged)), "problems": rows}))
    else:
        print(sweeps.document(text, load(args.gpu), top=args.top), end="")
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sol", description="Speed-of-light bounds and reports.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("report", help="the report of an op graph, as `engine trace` writes it")
    one.add_argument("graph", metavar="GRAPH.json", help="a graph as JSON, or - for standard input")
    one.add_argument("--gpu", default="h200", help="a name from `python -m sol gpus`, or a path to a TOML of your own")
    one.add_argument("--class", dest="cls", action="append", help="a precision class; may be repeated")
    one.add_argument("--measured", action="append", metavar="CLASS=MS", help="PyTorch's time, if you measured it")
    one.add_argument("--best", action="append", metavar="CLASS=MS", help="your best program's time")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--html", action="store_true", help="an HTML section")
    one.set_defaults(run=_report)
    commands.add_parser("gpus", help="the GPUs with figures").set_defaults(run=_gpus)
    again = commands.add_parser("replay", help="the cost of a bench's searches under other stop rules")
    replays.arguments(again, "the results of a bench (.json); `python -m engine replay` reads recordings too")
    again.set_defaults(run=_replay)
    known = commands.add_parser("sweep", help="how well the model ranks configurations that a GPU ran")
    known.add_argument("sweep", metavar="SWEEP.json", help="problems with their measured configurations")
    known.add_argument("--gpu", default="h200", help="what they ran on")
    known.add_argument(
        "--top", type=replays.number(int, 1), default=sweeps.TOP, help="how many of the model's first choices count"
    )
    known.add_argument("--json", action="store_true", help="every prediction as JSON")
    known.set_defaults(run=_sweep)
    args = parser.parse_args(argv)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader closed the pipe; Python must not flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as e:
        print(f"error: cannot read {e.filename}: {e.strerror}", file=sys.stderr)
    except (HardwareError, ValueError) as e:
        print(f"error: {e}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
