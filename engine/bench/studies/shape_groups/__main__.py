"""The command: see the package."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.run import runner as bench
from engine.bench.studies import rehearsed, shape_groups
from engine.bench.studies.shape_groups import copies, rivals, rows
from engine.bench.studies.shape_groups.saved import Saved
from engine.bench.studies.shape_groups.study import CANDIDATES, Row, Study
from engine.devices import SessionRefused, registry
from engine.llm import settings
from engine.suite.shape_groups import DTYPES, GROUPS, Shape, ShapeGroup
from sol.hardware import load

TRIALS = 24
VERSION = 2  # of what a session's result holds: sessions of another one are played again
PUBLISHED = (  # arXiv 2601.12698: over SGLang's kernels, on its hardware; Astra's beside it
    {"problem": "silu_and_mul", "two_stage": 3.55, "astra": 2.89, "before_us": 199.15},
    {"problem": "add_rms_norm", "two_stage": 1.09, "astra": 1.06, "before_us": 163.76},
    {"problem": "merge_attention_states", "two_stage": 2.03, "astra": 1.95, "before_us": 45.83},
)


@contextmanager
def _models(own_model: bool, skill: float, seed: int, folder: str) -> Iterator[settings.Settings]:
    if own_model:
        yield settings.load(dict(os.environ))
        return
    with rehearsed.rehearsal(folder, skill, seed) as models:
        yield models


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.shape_groups", description=shape_groups.__doc__.partition("\n")[0]
    )
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for predictions")
    parser.add_argument("--form", choices=("program", "kernel"), help="of the templates; default: kernel on a GPU")
    parser.add_argument("--only", default="", metavar="NAME,..", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--classes", default="f16", metavar="CLS,..", help=f"of {', '.join(DTYPES)}")
    parser.add_argument(
        "--shapes", type=int, default=0, metavar="N", help="N shapes of each kind, small to large; 0: all"
    )
    parser.add_argument(
        "--direct", type=int, default=0, metavar="N", help="rewrite directly at N of these of each kind; 0: at all"
    )
    parser.add_argument(
        "--candidates", type=int, default=CANDIDATES, metavar="N",
        help=f"configurations that may become the general one (default {CANDIDATES})",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N", help=f"of each session (default {TRIALS})")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="sessions side by side (default 2)")
    rehearsed.add_skill(parser)
    parser.add_argument("--own-model", action="store_true", help="ask the model of the environment, no rehearsal")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the rows, written as they come")
    args = parser.parse_args(argv)
    if args.json and not args.json.parent.is_dir():
        parser.error(f"cannot write {args.json}: name a file in a folder that exists")
    if min(args.trials, args.at_once, args.candidates) < 1 or min(args.shapes, args.direct) < 0:
        parser.error("--trials, --at-once and --candidates are whole numbers from 1, --shapes and --direct from 0")
    rehearsed.check_skill(parser, args)
    names, classes = _listed(parser, args.only, GROUPS), _listed(parser, args.classes, DTYPES)
    try:
        evaluator = registry.get(args.device, local_user=True)
    except SessionRefused as e:
        print(f"error: {e.reason}", file=sys.stderr)
        return 2
    measured = evaluator.kind == "measured"
    form = args.form or ("kernel" if measured else "program")
    results = bench.about(evaluator) | {
        "command": f"python -m engine.bench.studies.shape_groups {' '.join(argv or sys.argv[1:])}",
        "model": "of the environment" if args.own_model else "rehearsed: rules wrote each reply",
        "skill": args.skill, "seed": args.seed, "form": form, "trials": args.trials, "published": PUBLISHED, "rows": [],
        "version": VERSION,
        "sessions": {}, "copies": {}, "rivals": {},
    }  # fmt: skip
    results |= _earlier(args.json, results)

    def write() -> None:
        if args.json:
            atomic_write.write_results(args.json, results)

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        _models(args.own_model, args.skill, args.seed, folder) as models,
    ):
        hardware = load(evaluator.hardware)
        time_ = copies.measured if measured else functools.partial(copies.predicted, hardware=hardware)
        study = Study(
            args.device, form, args.trials, args.at_once, args.seed, models, hardware, measured,
            Saved(results["sessions"], write), copies.Copies(time_, Saved(results["copies"], write)), args.candidates,
            rivals.Rivals(rivals.measured if measured and form == "kernel" else None, Saved(results["rivals"], write)),
        )  # fmt: skip
        for name in names:
            for cls in classes:
                at = len(results["rows"])

                def put(row: dict[str, Any], at: int = at) -> None:
                    results["rows"][at:] = [row]
                    write()

                group = spread(GROUPS[name], args.shapes)
                few = spread(group, args.direct)
                row = Row(study, group, cls, put, {*few.tuned, *few.unseen}).run(lambda line: print(line, flush=True))
                print("\n".join(rows.lines(row)), flush=True)
    return 0


def _earlier(path: Path | None, results: dict[str, Any]) -> dict[str, Any]:
    """The sessions and copies of an earlier run with the same request, which this one goes on with."""
    if path is None or not path.exists():
        return {}
    earlier = json.loads(path.read_text(encoding="utf-8"))
    same = ("gpu", "driver", "model", "skill", "seed", "form", "trials", "version")
    if any(earlier.get(k) != results.get(k) for k in same):
        return {}
    return {name: earlier.get(name, {}) for name in ("sessions", "copies", "rivals")}


def _listed(parser: argparse.ArgumentParser, text: str, known: Sequence[str]) -> list[str]:
    chosen = [name for name in text.split(",") if name] or list(known)
    if unknown := set(chosen) - set(known):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return [name for name in known if name in chosen]


def spread(group: ShapeGroup, many: int) -> ShapeGroup:
    """A group with so many shapes of each kind, from its first to its last; the middle one alone of 1, all of 0."""

    def some(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if not 0 < many < len(shapes):
            return shapes
        last = len(shapes) - 1
        return tuple(shapes[last // 2 if many == 1 else i * last // (many - 1)] for i in range(many))

    return ShapeGroup(group.name, some(group.tuned), some(group.unseen))


if __name__ == "__main__":
    sys.exit(main())
