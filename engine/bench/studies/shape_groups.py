"""Tune one configuration over a group of shapes, and report it at each shape and at shapes that it has not seen.

    python -m engine.bench.studies.shape_groups --json out.json                         # raw CUDA templates, on a GPU
    python -m engine.bench.studies.shape_groups --device modelled:h200 --json out.json  # programs, predicted

For each problem of engine.suite.shape_groups: a session of `two_stage` at every shape (one configuration per shape),
the fastest configurations of the tuned shapes at each of them (from which the general one is chosen, see shape_folds),
the general one at the unseen shapes, and beside it direct rewriting: `chain` with as many trials, at every shape. In
kernel form each session starts from the problem's naive CUDA source. Each session is written as it ends, and the same
command goes on with the others after a stop. The rehearsal plays the model unless --own-model
asks the model of the environment; no model wrote a rehearsed template, and a prediction is no measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from engine import atomic_write
from engine.bench.run import runner as bench
from engine.bench.studies import rehearsed, shape_folds
from engine.devices import SessionRefused, registry
from engine.llm import handler, settings
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.strategies.problem import Prepared
from engine.suite.shape_groups import DTYPES, GROUPS, Shape, ShapeGroup
from sol.hardware import Hardware, load

TRIALS = 24
MOST_CANDIDATES = 8  # configurations that may become the general one
SEED = 0
PUBLISHED = (  # arXiv 2601.12698: over SGLang's kernels, on its hardware; Astra's beside it
    {"problem": "silu_and_mul", "two_stage": 3.55, "astra": 2.89, "before_us": 199.15},
    {"problem": "add_rms_norm", "two_stage": 1.09, "astra": 1.06, "before_us": 163.76},
    {"problem": "merge_attention_states", "two_stage": 2.03, "astra": 1.95, "before_us": 45.83},
)


class Sessions:
    """The sessions that ended, by name; `write` stores them after each. From several threads."""

    def __init__(self, ended: dict[str, dict[str, Any]] | None = None, write: Callable[[], None] = lambda: None):
        self.ended, self._write, self._lock = {} if ended is None else ended, write, Lock()

    def once(self, name: str, play: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.ended:
            session = play()
            with self._lock:
                self.ended[name] = session
                self._write()
        return self.ended[name]


@dataclass(frozen=True)
class Study:
    """`form`: program | kernel; `trials`: of each session; `at_once`: sessions side by side."""

    device: str
    form: str
    trials: int
    at_once: int
    seed: int
    models: settings.Settings
    hardware: Hardware
    compiled: bool = False
    sessions: Sessions = field(default_factory=lambda: Sessions())

    def session(self, group: ShapeGroup, shape: Shape, cls: str, strategy: str, **options: Any) -> dict[str, Any]:
        """One session, played now or before; in kernel form the naive source is the owner's first trial."""
        name = f"{group.name} {cls} {_words(shape)} {strategy} {events.blob_name(json.dumps(options))[:8]}"
        return self.sessions.once(name, lambda: self._play(group, shape, cls, strategy, options))

    def _play(
        self, group: ShapeGroup, shape: Shape, cls: str, strategy: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        spec = SessionSpec(
            title=f"{group.name} {_words(shape)}, {strategy}", source=group.module(shape, cls), strategy=strategy,
            options={"form": self.form, **options}, device=self.device, classes=(cls,), trials=self.trials, eps=0.0,
            window=self.trials, seed=self.seed, compile=self.compiled,
        )  # fmt: skip
        own = [("try", {"program": group.naive(), "form": "kernel", "language": "cuda", "cls": cls,
                        "change": "the naive source"})] if self.form == "kernel" else []  # fmt: skip
        began = time.monotonic()
        log = [
            emitted.event
            for emitted in run(
                spec, device=self.device, local_user=True, teaches=False, memory="", control=_once(own),
                handlers=handler.handlers(self.models),
            )
        ]  # fmt: skip
        return {**shape_folds.session_of(log, self.hardware), "seconds": round(time.monotonic() - began, 1)}

    def tuned(self, group: ShapeGroup, shape: Shape, cls: str) -> dict[str, Any]:
        options = {"rounds": 1, "evaluations": self.trials}
        return self.session(group, shape, cls, "two_stage", **options)

    def preset(
        self, group: ShapeGroup, shape: Shape, cls: str, template: dict[str, Any] | None, listed: Sequence[dict]
    ) -> dict[str, Any]:
        """The configurations of another session. A program's text holds its shape, so each session writes its own."""
        shared = template if self.form == "kernel" else None
        text = json.dumps({"template": shared, "configurations": list(listed)})
        return self.session(group, shape, cls, "two_stage", rounds=1, preset=text)

    def direct(self, group: ShapeGroup, shape: Shape, cls: str) -> dict[str, Any]:
        return self.session(group, shape, cls, "chain", attempts=self.trials)

    def over(self, shapes: Sequence[Shape], one: Callable[[Shape], dict[str, Any]]) -> dict[Shape, dict[str, Any]]:
        with ThreadPoolExecutor(self.at_once) as pool:
            return dict(zip(shapes, pool.map(one, shapes), strict=True))


def group_row(study: Study, group: ShapeGroup, cls: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Every arm of one problem in one class."""
    row: dict[str, Any] = {"problem": group.name, "cls": cls, "general": None, "shapes": [], "why": ""}
    row["why"] = why_not(study, group, cls)
    if row["why"]:
        return row
    every = [*group.tuned, *group.unseen]
    own = study.over(every, lambda shape: study.tuned(group, shape, cls))
    say(f"{group.name} {cls}: one configuration per shape is tuned")
    template = next((own[s]["template"] for s in group.tuned if own[s]["template"]), None)
    listed = shape_folds.candidates([own[s] for s in group.tuned], MOST_CANDIDATES)
    sessions = {}
    if listed:
        sessions = study.over(group.tuned, lambda shape: study.preset(group, shape, cls, template, listed))
    chosen = shape_folds.general([sessions[s] for s in group.tuned]) if sessions else None
    if chosen is None:
        row["why"] = "no configuration has a time at every tuned shape"
    else:
        row["general"] = {"settings": chosen[0], "over_own_best": chosen[1], "of": len(listed), "template": template}
        sessions |= study.over(group.unseen, lambda shape: study.preset(group, shape, cls, template, [chosen[0]]))
    say(f"{group.name} {cls}: the general configuration is at every shape")
    direct = study.over(every, lambda shape: study.direct(group, shape, cls))
    for shape in every:
        row["shapes"].append({
            "shape": list(shape), "tuned": shape in group.tuned, "own": own[shape], "direct": direct[shape],
            "general": None if chosen is None else _at(sessions[shape], chosen[0]),
        })  # fmt: skip
    row["summary"] = summary(row)
    return row


def why_not(study: Study, group: ShapeGroup, cls: str) -> str:
    """Why this problem is left out; "" if it runs. As a program it must be one of the language."""
    if study.form == "kernel":
        return ""
    from engine.devices import Problem
    from engine.trace import trace

    source = group.module(group.tuned[0], cls)
    prepared = Prepared(Problem(source, "module", trace(source, local_user=True).graph), (cls,), study.hardware)
    return "" if prepared.parts else f"no program of the language: {prepared.refusal.reason}"


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Geometric means by arm over tuned and over unseen shapes: share of the measured bandwidth, speedup over PyTorch
    and over torch.compile, and the least share."""
    means: dict[str, Any] = {}
    for where in ("tuned", "unseen"):
        shapes = [s for s in row["shapes"] if s["tuned"] == (where == "tuned")]
        for arm in ("general", "own", "direct"):
            best = [s[arm] if arm == "general" else s[arm]["best"] for s in shapes]
            right = [b for b in best if b]
            compiled = [b["compiled"] for b in right if b["compiled"]]
            means[f"{arm}_{where}"] = {
                "right": len(right), "of": len(best), "bandwidth": shape_folds.mean(b["bandwidth"] for b in right),
                "least_bandwidth": min((b["bandwidth"] for b in right), default=None),
                "speedup": shape_folds.mean(b["speedup"] for b in right), "compiled": shape_folds.mean(compiled),
            }  # fmt: skip
    return means


def _at(session: dict[str, Any], chosen: dict[str, int | str]) -> dict[str, Any] | None:
    """A configuration's times in a session."""
    key = shape_folds.key_of(chosen)
    return next((r for r in session["configurations"] if shape_folds.key_of(r["settings"]) == key), None)


def lines(row: dict[str, Any]) -> Iterator[str]:
    if row["why"]:
        yield f"{row['problem']} {row['cls']}: {row['why']}"
    for name, m in row.get("summary", {}).items():
        if m["right"]:
            compiled = f", {m['compiled']:.2f}x torch.compile" if m["compiled"] else ""
            words = f"{m['bandwidth']:.0%} of the measured bandwidth (least {m['least_bandwidth']:.0%})"
            yield (
                f"{row['problem']} {row['cls']} {name:15} {words}, {m['speedup']:.2f}x PyTorch{compiled}; "
                f"right at {m['right']} of {m['of']} shapes"
            )
        else:
            yield f"{row['problem']} {row['cls']} {name:15} nothing with a time at {m['of']} shapes"


def _words(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _once(commands: list) -> Callable[[], list]:
    """The owner's commands, once."""
    waiting = list(commands)

    def control() -> list:
        now = list(waiting)
        waiting.clear()
        return now

    return control


@contextmanager
def _models(own_model: bool, skill: float, seed: int, folder: str) -> Iterator[settings.Settings]:
    if own_model:
        yield settings.load(dict(os.environ))
        return
    with rehearsed.rehearsal(folder, skill, seed) as models:
        yield models


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.shape_groups", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for predictions")
    parser.add_argument("--form", choices=("program", "kernel"), help="of the templates; default: kernel on a GPU")
    parser.add_argument("--only", default="", metavar="NAME,..", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--classes", default="f16", metavar="CLS,..", help=f"of {', '.join(DTYPES)}")
    parser.add_argument("--shapes", type=int, default=0, metavar="N", help="the first N shapes of each kind; 0: all")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N", help=f"of each session (default {TRIALS})")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="sessions side by side (default 2)")
    parser.add_argument("--skill", type=float, default=1.0, help="of the rehearsal (default 1)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--own-model", action="store_true", help="ask the model of the environment, no rehearsal")
    parser.add_argument("--json", type=Path, metavar="OUT", help="the rows, written as they come")
    args = parser.parse_args(argv)
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
        "sessions": {},
    }  # fmt: skip
    results["sessions"] = _earlier(args.json, results)

    def write() -> None:
        if args.json:
            atomic_write.write_results(args.json, results)

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        _models(args.own_model, args.skill, args.seed, folder) as models,
    ):
        study = Study(
            args.device, form, args.trials, args.at_once, args.seed, models, load(evaluator.hardware), measured,
            Sessions(results["sessions"], write),
        )  # fmt: skip
        for name in names:
            for cls in classes:
                row = group_row(study, _first(GROUPS[name], args.shapes), cls, lambda line: print(line, flush=True))
                results["rows"].append(row)
                print("\n".join(lines(row)), flush=True)
                write()
    return 0


def _earlier(path: Path | None, results: dict[str, Any]) -> dict[str, Any]:
    """The sessions of an earlier run with the same request, which this one goes on with."""
    if path is None or not path.exists():
        return {}
    earlier = json.loads(path.read_text(encoding="utf-8"))
    same = ("gpu", "driver", "model", "skill", "seed", "form", "trials")
    return earlier.get("sessions", {}) if all(earlier.get(k) == results.get(k) for k in same) else {}


def _listed(parser: argparse.ArgumentParser, text: str, known: Sequence[str]) -> list[str]:
    chosen = [name for name in text.split(",") if name] or list(known)
    if unknown := set(chosen) - set(known):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(known)}")
    return [name for name in known if name in chosen]


def _first(group: ShapeGroup, many: int) -> ShapeGroup:
    return ShapeGroup(group.name, group.tuned[:many], group.unseen[:many]) if many else group


if __name__ == "__main__":
    sys.exit(main())
