"""The arguments of `python -m engine`, command by command. Imports nothing heavy, so that `--help` is quick."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from engine.bench.compare import arguments as compare
from engine.evaluate.integrity.arguments import add as raw
from engine.record import command as record
from engine.session import spec_arguments
from sol import replay

CLASSES = "tf32, f16, bf16 or fp8; repeatable"
FILE = "a module, a .ucutlass program, an example's name, a .jsonl recording (its module or program), or -"
Run = Callable[[argparse.Namespace], int]


def parser(run: Mapping[str, Run]) -> argparse.ArgumentParser:
    """`run`: the function of each command, by its name; the parsed arguments hold it as `run`."""
    parser = argparse.ArgumentParser(prog="python -m engine", description="Make a PyTorch module fast.")
    parser.add_argument("--verbose", action="store_true", help="log messages, on standard error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("optimize", help="search for the fastest program of a module")
    one.add_argument("file", metavar="FILE", help=FILE)
    spec_arguments.add(one)
    one.add_argument("--json", metavar="OUT", help="write the result as JSON; - for standard output")
    one.add_argument("--record", metavar="OUT.jsonl", help="write the session as a recording")
    one.set_defaults(run=run["optimize"])

    one = commands.add_parser("trace", help="print a module's op graph as JSON")
    one.add_argument("file", metavar="FILE")
    one.set_defaults(run=run["trace"])

    one = commands.add_parser("report", help="print a module's speed-of-light report")
    one.add_argument("file", metavar="FILE")
    one.add_argument("--gpu", default="h200", help="a name from `python -m sol gpus`, or a .toml of your own")
    one.add_argument("--class", dest="classes", action="append", metavar="CLASS")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--html", action="store_true", help="an HTML section")
    one.set_defaults(run=run["report"])

    one = commands.add_parser("ceilings", help="what this machine's device reaches; measured once, then stored")
    one.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU where there is one")
    one.add_argument("--again", action="store_true", help="measure again")
    one.set_defaults(run=run["ceilings"])

    one = commands.add_parser("problems", help="list the examples")
    one.set_defaults(run=run["problems"])

    raw(commands, run["raw"])

    one = commands.add_parser("replay", help="what recorded sessions would have cost under other stop rules")
    replay.arguments(one, "recordings (.jsonl), folders of them, or the results of a bench (.json)")
    what = "price table (as UCUTLASS_PRICES) for the turns that were recorded without a price"
    one.add_argument("--prices", metavar="FILE", help=what)
    one.set_defaults(run=run["replay"])

    one = commands.add_parser("rehearse", help="a server that plays a language model by rule")
    one.add_argument("--port", type=int, default=8900, metavar="N", help="port on this machine (default 8900)")
    one.add_argument(
        "--skill", type=float, default=1.0, metavar="X", help="share of replies without a mistake, 0 to 1 (default 1)"
    )
    one.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default 0)")
    one.add_argument("--pace", type=float, default=0.0, metavar="S", help="seconds between two streamed pieces")
    one.set_defaults(run=run["rehearse"])

    one = commands.add_parser("export", help="a module with its programs as a package for pip, with a check")
    one.add_argument("file", metavar="FILE", help="a .ucutlass program, a .jsonl recording, a module or its name")
    what = "a new folder, a zip, a KernelBench ModelNew (.py) or a notebook (.ipynb)"
    one.add_argument("--out", required=True, metavar="DIR|X.zip|X.py|X.ipynb", help=what)
    one.add_argument("--module", metavar="MODULE", help="of a program: the PyTorch module that it must equal")
    one.add_argument("--trial", type=int, metavar="N", help="of a recording (default: its best)")
    one.add_argument("--alone", action="store_true", help="only that trial's program, without the rest of its module")
    one.add_argument("--class", dest="classes", action="append", metavar="CLASS", help="of a module; repeatable")
    one.set_defaults(run=run["export"])

    record.add(commands, run["reproduce"])

    one = commands.add_parser("mcp", help="an MCP server over stdio for a coding agent, on a running playground")
    one.add_argument("--url", default="http://127.0.0.1:8000", help="of the playground (default %(default)s)")
    one.add_argument("--token-file", metavar="FILE", help="with the owner token (default: UCUTLASS_TOKEN is it)")
    one.set_defaults(run=run["mcp"])

    one = commands.add_parser("watch", help="follow a session or a workshop's room of a running playground")
    one.add_argument("url", metavar="URL", help="of a session (/s/ID) or a room (/w/CODE)")
    one.add_argument("--token-file", metavar="FILE", help="with a room's teacher token (default: UCUTLASS_TOKEN is it)")
    one.set_defaults(run=run["watch"])

    one = commands.add_parser("submit", help="start a session on a running playground and follow it to its end")
    one.add_argument("file", metavar="FILE", help=FILE)
    one.add_argument("--to", required=True, metavar="URL", help="of the playground")
    one.add_argument("--token-file", metavar="FILE", help="with an owner token (default: UCUTLASS_TOKEN is it)")
    spec_arguments.add(one)
    one.set_defaults(run=run["submit"])

    one = commands.add_parser("lessons", help="check the lessons, or pack them for a hall without a network")
    one.add_argument("rest", nargs=argparse.REMAINDER, metavar="check | pack --out FOLDER [--wheels]")
    one.set_defaults(run=run["lessons"])

    one = commands.add_parser("suite", help="run every program of the 59 problems against its module")
    one.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for a prediction (default cuda)")
    one.add_argument("--only", default="", metavar="ID,..", help="suite ids (L1/55), modules or programs")
    one.add_argument("--seconds", type=float, default=1e9, help="start no problem after that; run again to continue")
    one.add_argument("--every", action="store_true", help="convolutions by both back ends, not by cute alone")
    one.add_argument("--backend", action="append", choices=("cute", "cpp"), help="only this back end; repeatable")
    one.add_argument("--generate", action="store_true", help="run nothing: the back ends of each program")
    one.add_argument("--seed", type=int, default=0, help="of the modules' own inputs (default 0)")
    one.add_argument("--json", metavar="OUT", help="results, raw; continues an earlier file")
    one.set_defaults(run=run["suite"])

    one = commands.add_parser("compare", help="strategies under equal budgets, in one report")
    compare.add(one)
    one.set_defaults(run=run["compare"])

    one = commands.add_parser("bench", help="a session on each problem of a set, resumably")
    what = "suite59, outside, heldout, or a folder of modules (one a file); merge: results files as one"
    one.add_argument("set", metavar="SET|FOLDER|merge", help=what)
    one.add_argument("files", nargs="*", metavar="FILE", help="of merge: results of shards")
    one.add_argument("--only", default="", metavar="ID,..", help="ids (L1/55) or modules; of a folder, parts of names")
    what = "of this machine, each with a process of its own (default 1)"
    one.add_argument("--gpus", default="1", metavar="all|N", help=what)
    one.add_argument("--at-once", type=int, default=1, metavar="N", help="sessions at a time on each GPU (default 1)")
    what = "a session's search starts no trial after S seconds, or 2 S if none was right (default: no limit)"
    one.add_argument("--session-seconds", dest="search_seconds", type=float, metavar="S", help=what)
    what = "torch.compile's baselines to time, such as compile,compile_tf32 (default with --compile: all of them)"
    one.add_argument("--compile-ways", default="", metavar="WAY,..", help=what)
    what = "for one of them to be compiled (default 90 with --compile-ways)"
    one.add_argument("--compile-seconds", type=float, metavar="S", help=what)
    one.add_argument("--shard", metavar="I/N", help="one of N parts that take about equally long, one for each machine")
    one.add_argument("--seconds", type=float, default=1e9, help="stop after this time; run again to continue")
    one.add_argument("--json", metavar="OUT", help="results; continues an earlier file")
    spec_arguments.add(one)
    one.set_defaults(run=run["bench"])
    return parser
