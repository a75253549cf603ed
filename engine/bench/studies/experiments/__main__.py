"""`python -m engine.bench.studies.experiments`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.compare import arguments, command, metrics, proposals
from engine.bench.compare.request import BadRequest, Request
from engine.bench.compare.results import beside_its_report
from engine.bench.studies import experiments
from engine.bench.studies.experiments import recorded, report
from engine.bench.studies.experiments.arms import EXPERIMENTS, TRIALS, Experiment
from engine.devices import SessionRefused
from engine.llm import handler
from engine.llm.settings import Settings

CLS = "f16"
ANOTHER_MODEL = "It cannot show what another model would do, nor what the same one does on other problems."


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.experiments", description=experiments.__doc__.partition("\n")[0]
    )
    names = ["recorded", *(e.name for e in EXPERIMENTS)]
    parser.add_argument("--propose", type=Path, metavar="FILE", help="write the distribution of proposals, and end")
    parser.add_argument("--proposals", type=Path, metavar="FILE", help="the committed distribution of the runs")
    parser.add_argument("--only", default="", metavar="NAME,..", help=f"of {', '.join(names)}")
    parser.add_argument("--problems", default="", metavar="P,..", help="default: those of `engine compare`")
    parser.add_argument(
        "--skills", type=arguments.numbers(float), metavar="X,..", help="default: of each; rehearsed only"
    )
    parser.add_argument("--seeds", type=arguments.numbers(int), metavar="N,..", help="default: of each experiment")
    parser.add_argument("--device", default="modelled:h200", help="cuda, or modelled:h200 for predictions (default)")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="processes")
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="summary; others in it stay, and OUT-NAME.json goes on"
    )
    args = parser.parse_args(argv)
    problems = tuple(filter(None, args.problems.split(","))) or arguments.DEFAULT_PROBLEMS
    chosen = set(filter(None, args.only.split(","))) or set(names)
    if unknown := chosen - set(names):
        parser.error(f"{', '.join(sorted(unknown))} is no experiment; they are {', '.join(names)}")
    if args.propose:
        print(f"{args.propose}: SHA-256 {proposals.write(args.propose, problems, CLS)}")
        return 0
    settings = handler.of_environment()
    model = None if settings.why_not("implement") else settings
    if args.json is None or (chosen - {"recorded"} and model is None and args.proposals is None):
        parser.error("--json OUT is needed, and --proposals FILE for experiments with the rehearsal")
    if not args.json.parent.is_dir():
        parser.error(f"cannot write {args.json}: name a file in a folder that exists")
    try:
        beside_its_report(args.json)
    except BadRequest as e:
        parser.error(str(e))
    try:
        return _run(args, problems, chosen, model)
    except SessionRefused as e:
        print(f"error: --device {args.device}: {e.reason}", file=sys.stderr)
        return 2
    except (BadRequest, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace, problems: tuple[str, ...], chosen: set[str], model: Settings | None) -> int:
    """`model`: of the environment; None: the rehearsal answers."""
    results = _earlier(args.json)
    results["about"] = {"date": time.strftime("%Y-%m-%d", time.gmtime())}
    if "recorded" in chosen:
        results["recorded"] = recorded.all_of_it()
        _write(args.json, results)
    some = [e for e in EXPERIMENTS if e.name in chosen]
    drawn = proposals.checked(args.proposals, problems) if some and model is None else {}
    done = True
    for one in some:
        entry, ended = _play(one, args, problems, drawn, model)
        results.setdefault("rehearsed" if model is None else "led", {})[one.name] = entry
        done = done and ended
        _write(args.json, results)
    print(f"wrote {args.json} and {args.json.with_suffix('.md')}")
    return 0 if done else 1


def _earlier(path: Path) -> dict[str, Any]:
    """The results of other experiments in the file, which stay in it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"about": {}, "rehearsed": {}}
    except ValueError as e:
        raise BadRequest(f"{path} holds no results of experiments: {e}") from None


def _play(
    one: Experiment, args: argparse.Namespace, problems: tuple[str, ...], drawn: dict[str, str], model: Settings | None
) -> tuple[dict[str, Any], bool]:
    """An experiment's entry in the results, and whether all of its sessions ended."""
    entry: dict[str, Any] = {
        "title": one.title, "shows": one.shows, "shows_not": one.shows_not if model is None else ANOTHER_MODEL,
        "absent": one.absent(), "proposals": drawn,
    }  # fmt: skip
    if model is not None:
        predicted = args.device.startswith("modelled")
        entry |= {"model": model.model_for("implement"), "kind": "predicted" if predicted else "measured"}
    if len(one.present()) < 2:
        print(f"{one.name}: left out, because {'; '.join(one.absent().values())}", flush=True)
        return entry, True
    request = Request(
        one.present(), problems, args.skills or one.skills, args.seeds or one.seeds, CLS, args.device, trials=TRIALS,
        rehearsed=model is None,
    )  # fmt: skip
    out = args.json.with_name(f"{args.json.stem}-{one.name}{'' if model is None else '-led'}.json")
    print(f"{one.name}: {one.title} ({'rehearsed' if model is None else entry['model']})", flush=True)
    about = {"proposals": drawn} if drawn else {}
    played = command.compare(request, model, out, args.jobs, lambda text: print(text, flush=True), about)
    rows = list(played.rows.values())
    by_arm = metrics.groups(rows, lambda r: r["arm"])
    entry |= {
        "request": request.settings, "rows": out.name, "sessions": len(rows),
        "arms": {arm: metrics.summary(by_arm[arm]) for arm in (a.name for a in one.present()) if arm in by_arm},
        "areas": metrics.areas(metrics.against_the_best(rows), metrics.NEAR), "areas_2": metrics.areas(rows, 2.0),
    }  # fmt: skip
    sessions = [s for row in rows if (s := recorded.of_row(row)) is not None]
    if any(t.spent.get("tokens") for s in sessions for t in s.trials):
        entry["policies"] = recorded.of_sessions(sessions, "tokens")
    return entry, all(map(played.finished, request.cells()))


def _write(path: Path, results: dict[str, Any]) -> None:
    atomic_write.write_results(path, results)
    atomic_write.write_text(path.with_suffix(".md"), report.markdown(results) + "\n")


if __name__ == "__main__":
    sys.exit(main())
