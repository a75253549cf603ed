"""`python -m sol`: the report of a traced graph, the list of GPUs, replay of recorded sessions, sweeps."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from sol import budget
from sol import replay as replays
from sol.figures import charts
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
    sessions = replays.load(args.sessions)
    runs = [budget.replay(s, args.eps, args.window) for s in sessions]
    total = budget.policy(sessions, args.eps, args.window)
    grid, front = budget.sweep(sessions)
    if args.json or args.figure:
        chosen = replays.best(grid, args.keep)
        chart = charts.policies(grid, front, chosen, args.keep)
        if args.figure:
            title = f"{chart.title}: {len(sessions)} recorded sessions, {sum(r.trials_total for r in runs):,} trials."
            if chosen:
                title += (
                    f" Stopping within {chosen.eps:.0%} of the limit or after {chosen.window} trials without a better "
                    f"one saves {chosen.trials_saved:.0%} of the trials and keeps {chosen.speedup_kept:.1%} of the "
                    "speedup."
                )
            print(json.dumps({"from": args.sessions, "title": title, "rows": chart.rows, "figure": chart.figure}))
            return 0
        result = {"sessions": [asdict(r) for r in runs], "policy": asdict(total), "grid": [asdict(p) for p in grid],
                "front": [asdict(p) for p in front], "best": asdict(chosen) if chosen else None,
                "figure": asdict(chart)}  # fmt: skip
        print(json.dumps(result))
        return 0
    print(f"{replays.sessions_table(runs)}\n\n{replays.policies_table([total])}\n")
    print(f"No policy of the grid beats these:\n{replays.policies_table(front)}")
    chosen = replays.best(grid, args.keep)
    if chosen:
        print(
            f"\nSaves most while keeping {args.keep:.0%} of the speedup: --eps {chosen.eps:g} --window {chosen.window} "
            f"({chosen.trials_saved:.0%} of {sum(r.trials_total for r in runs):,} trials saved, "
            f"{chosen.speedup_kept:.1%} kept, {chosen.efficiency:.2f}x efficiency)"
        )
    else:
        print(f"\nNo policy of the grid keeps {args.keep:.0%} of the speedup; give a lower --keep")
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


def _number(kind: type, least: float, most: float = float("inf")):
    """A type for argparse: a number of this kind from `least` to `most`."""

    def read(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            span = f"from {least:g}" + (f" to {most:g}" if most < float("inf") else " up")
            raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' if kind is int else ''}number {span}")
        return value

    return read


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
    again = commands.add_parser("replay", help="the cost of recorded sessions under other stop rules")
    known = "recordings (.jsonl), folders of them, or the results of a bench (.json)"
    again.add_argument("sessions", nargs="+", metavar="SESSIONS", help=known)
    again.add_argument(
        "--eps", type=_number(float, 0), default=0.25, help="stop within this share of the limit (default 0.25)"
    )
    again.add_argument(
        "--window", type=_number(int, 0), default=12, help="stop after this many trials without a better one; 0: never"
    )
    again.add_argument(
        "--keep", type=_number(float, 0, 1), default=0.96, help="share of the speedup that a policy must keep"
    )
    shape = again.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="everything as JSON")
    shape.add_argument("--figure", action="store_true", help="the figure of the policies as the page draws it (JSON)")
    again.set_defaults(run=_replay)
    known = commands.add_parser("sweep", help="how well the model ranks configurations that a GPU ran")
    known.add_argument("sweep", metavar="SWEEP.json", help="problems with their measured configurations")
    known.add_argument("--gpu", default="h200", help="what they ran on")
    known.add_argument(
        "--top", type=_number(int, 1), default=sweeps.TOP, help="how many of the model's first choices count"
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
