"""Sessions of each strategy that a model leads, with the rehearsal at full skill as the model, on eight problems.

    python -m engine.bench.studies.rehearsed --json rehearsed.json                        # on one GPU, five minutes
    python -m engine.bench.studies.rehearsed --device modelled:h200 --json rehearsed.json # predicted, without a GPU
    python -m engine.bench.studies.rehearsed --again playground/recordings/rehearsed_*.jsonl --recordings again/

Aim: each session ends with a right program that is faster than PyTorch in its class, and its log has every phase of its
strategy. No model wrote a reply: this shows that the strategies work, and nothing about language models.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.bench.run import runner as bench
from engine.devices import SessionRefused, registry
from engine.llm import handler, settings
from engine.llm.ledger import ledger
from engine.session import events, recording
from engine.session.runner import run
from engine.session.spec import MAX_TRIALS, BadSpec, SessionSpec, of_started
from engine.suite.cases import PROBLEMS

TRIALS = 6
CLS = "f16"
SKILL, SEED = 1.0, 0
# Name -> (strategy, its options, the roles that must have been asked).
ARMS: dict[str, tuple[str, dict[str, Any], frozenset[str]]] = {
    "flat": ("flat", {"attempts": TRIALS}, frozenset({"implement"})),
    "best_of": ("best_of", {"n": TRIALS}, frozenset({"implement"})),
    "chain": ("chain", {"attempts": TRIALS}, frozenset({"implement"})),
    "mucutlass": (
        "mucutlass", {"iterations": 2, "attempts": 3}, frozenset({"analyze", "nominate", "implement", "summarize"})
    ),
    "mucutlass_in_prompt": (
        "mucutlass", {"steering": "in_prompt", "iterations": 2, "attempts": 3}, frozenset({"implement"})
    ),
    "two_stage": ("two_stage", {"rounds": 1, "screened": 1}, frozenset({"plan", "generate", "test", "tune"})),
    "optiml": ("optiml", {"evaluations": TRIALS}, frozenset({"propose", "generate", "judge", "edit"})),
    "cutegen": ("cutegen", {"form": "program", "depths": TRIALS}, frozenset({"generate", "optimise"})),
}  # fmt: skip


def _elementwise(arguments: str, expression: str, *shapes: str) -> str:
    inputs = ", ".join(f"torch.randn({shape})" for shape in shapes)
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {arguments}):\n        return {expression}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )


def problems() -> dict[str, str]:
    """Name -> module: two products, two convolutions, a normalisation, an attention block, two activations."""
    names = (
        "matmul_residual",
        "linear_mish_mish",
        "conv2d_relu_hardswish",
        "conv2d_mish_mish",
        "attention_projections",
    )
    texts = {name: (PROBLEMS / f"{name}.py").read_text(encoding="utf-8") for name in names}
    return texts | {
        "rms_norm": _elementwise(
            "x, w", "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w", "16384, 2048", "2048"
        ),
        "silu_and_mul": _elementwise("gate, up", "F.silu(gate) * up", "8192, 4096", "8192, 4096"),
        "mish_written_out": _elementwise("x", "x * torch.tanh(F.softplus(x))", "8192, 4096"),
    }


def row_of(arm: str, problem: str, log: list[events.Event], seconds: float) -> dict[str, Any]:
    """What one session came to. `faults`: the missed aims, in words."""
    end = _end(log)
    right = [e for e in log if isinstance(e, events.TrialJudged) and e.verdict in ("clean", "minor")]
    best = max(right, key=lambda e: e.speedup, default=None)
    account = ledger(log)
    failed = Counter(f"{e.step}: {e.reason[:300]}" for e in log if isinstance(e, events.TrialFailed))
    missing = sorted(ARMS[arm][2] - account.roles.keys())
    faults = [*(f"was not asked: {role}" for role in missing), *_ended_badly(end)]
    if best is None:
        faults.append("no right program")
    elif best.speedup <= 1.0:
        faults.append(f"its best right program has {best.speedup:.2f} times the speed of {best.baseline}")
    return {
        "arm": arm, "problem": problem, "state": end.state if end else "", "reason": end.reason if end else "",
        "trials": end.trials if end else 0, "right": len(right), "failed": dict(failed),
        "ms": best.ms if best else None, "speedup": best.speedup if best else None,
        "baseline": best.baseline if best else "", "kind": best.kind if best else "",
        "turns": {role: one.turns for role, one in sorted(account.roles.items())},
        "tokens": dict(account.total.tokens), "spent": end.spent if end else {}, "seconds": round(seconds, 1),
        "faults": faults,
    }  # fmt: skip


def _end(log: list[events.Event]) -> events.SessionEnded | None:
    return next((e for e in log if isinstance(e, events.SessionEnded)), None)


def _ended_badly(end: events.SessionEnded | None) -> list[str]:
    if end is not None and end.state == "done":
        return []
    return [f"{end.state} {end.code}: {end.reason}" if end else "it did not end"]


@contextmanager
def rehearsal(folder: str, skill: float = SKILL, seed: int = SEED) -> Iterator[settings.Settings]:
    """Settings whose endpoint is a rehearsal in this process."""
    from engine.llm.rehearse import MODEL
    from engine.llm.rehearse.player import Player
    from engine.llm.rehearse.server import Rehearsal

    server = Rehearsal(("127.0.0.1", 0), Player(skill, seed))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield settings.load(
            {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "UCUTLASS_MODEL": MODEL, "UCUTLASS_VAR": folder}
        )
    finally:
        server.shutdown()
        server.server_close()


def play(
    arm: str, problem: str, device: str, models: settings.Settings, folder: Path | None, trials: int = TRIALS
) -> dict[str, Any]:
    """One session of so many trials at most. `folder`: where its recording is written."""
    strategy, options, _ = ARMS[arm]
    spec = SessionSpec(
        title=f"{problem}, {arm}, rehearsed", source=problems()[problem], strategy=strategy, options=options,
        device=device, classes=(CLS,), trials=trials, eps=0.0, window=trials,
    )  # fmt: skip
    began = time.monotonic()
    log = _log(spec, device, models, folder / f"{arm}-{problem}.jsonl" if folder else None)
    return row_of(arm, problem, log, time.monotonic() - began)


def play_again(path: Path, device: str, models: settings.Settings, folder: Path) -> dict[str, Any]:
    """The session of a recording once more, on this device, recorded in `folder` under the same name. Its owner's
    commands are not given again. Raises RecordingError, BadSpec, OSError."""
    try:
        old = recording.read(path)
    except recording.RecordingError as e:
        raise recording.RecordingError(f"{path.name}: {e}") from None
    started = old.rows[0].event
    fields = of_started(started, old.blobs[started.source]) | {"device": device}
    began = time.monotonic()
    log = _log(SessionSpec(**fields), device, models, folder / path.name)
    end = _end(log)
    return {
        "arm": started.strategy, "problem": path.stem, "state": end.state if end else "",
        "reason": end.reason if end else "", "seconds": round(time.monotonic() - began, 1), "faults": _ended_badly(end),
    }  # fmt: skip


def _log(asked: SessionSpec, device: str, models: settings.Settings, path: Path | None) -> list[events.Event]:
    """The events of a session, and its recording at `path`."""
    session = run(asked, device=device, local_user=True, teaches=False, memory="", handlers=handler.handlers(models))
    if path is None:
        return [emitted.event for emitted in session]
    log = []
    with recording.Writer(path) as writer:
        for seq, emitted in enumerate(session, 1):
            writer.add(seq, emitted.t, emitted.event, emitted.blobs)
            log.append(emitted.event)
    return log


def line(row: dict[str, Any]) -> str:
    mark = "BAD" if row["faults"] else "ok "
    if "speedup" not in row:
        return f"{mark} {row['problem']}, {row['arm']}: {row['reason']}; {row['seconds']:.0f} s"
    speed = "no right program" if row["speedup"] is None else f"{row['speedup']:6.2f}x {row['baseline']}"
    turns = ", ".join(f"{role} {many}" for role, many in row["turns"].items())
    return (
        f"{mark} {row['arm']:20} {row['problem']:24} {speed}; {row['right']} of {row['trials']} trials right; "
        f"{turns}; {row['seconds']:.0f} s {'; '.join([*row['faults'], *row['failed']])}"
    )


def add_skill(parser: argparse.ArgumentParser) -> None:
    """The arguments of a rehearsal."""
    parser.add_argument(
        "--skill", type=float, default=SKILL, help=f"of the rehearsal (default {SKILL:g}): below 1 it makes mistakes"
    )
    parser.add_argument("--seed", type=int, default=SEED, help=f"of its mistakes (default {SEED})")


def check_skill(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End the process, with the reason, if the skill is none."""
    if not 0 <= args.skill <= 1:
        parser.error(f"--skill {args.skill:g} is no share; write a number from 0 to 1")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.rehearsed", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for predictions")
    parser.add_argument("--only", default="", metavar="NAME,..", help=f"of {', '.join([*ARMS, *problems()])}")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="sessions side by side (default 8)")
    parser.add_argument(
        "--trials", type=int, default=TRIALS, metavar="N", help=f"of a session at most (default {TRIALS}), for tuners"
    )
    parser.add_argument("--recordings", type=Path, metavar="DIR", help="write each session's log there")
    parser.add_argument(
        "--again", type=Path, nargs="+", default=[], metavar="FILE",
        help="instead of the study's, the sessions of these recordings on this device, with --recordings DIR",
    )  # fmt: skip
    add_skill(parser)
    parser.add_argument("--json", type=Path, metavar="OUT", help="the rows, written as they come")
    args = parser.parse_args(argv)
    chosen = set(filter(None, args.only.split(",")))
    if unknown := chosen - {*ARMS, *problems()}:
        parser.error(f"{', '.join(sorted(unknown))} is neither an arm nor a problem of this study")
    if args.at_once < 1 or not 1 <= args.trials <= MAX_TRIALS:
        parser.error(f"--at-once is a whole number from 1, --trials one from 1 to {MAX_TRIALS}")
    check_skill(parser, args)
    if args.json and not args.json.parent.is_dir():
        parser.error(f"cannot write {args.json}: name a file in a folder that exists")
    if args.again and not args.recordings:
        parser.error("--again needs --recordings DIR, where the new recordings are written")
    if args.again and args.recordings.resolve() in {path.resolve().parent for path in args.again}:
        parser.error("--recordings is the folder of the recordings themselves: name another one")
    arms = [a for a in ARMS if a in chosen] or list(ARMS)
    names = [p for p in problems() if p in chosen] or list(problems())
    try:
        evaluator = registry.get(args.device, local_user=True)
    except SessionRefused as e:
        print(f"error: {e.reason}", file=sys.stderr)
        return 2
    results = bench.about(evaluator) | {
        "command": " ".join(["python -m engine.bench.studies.rehearsed", *(sys.argv[1:] if argv is None else argv)]),
        "model": "rehearsed: rules wrote each reply", "skill": args.skill, "seed": args.seed, "class": CLS,
        "trials": args.trials, "at_once": args.at_once, "rows": [],
    }  # fmt: skip
    if args.recordings:
        args.recordings.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        rehearsal(folder, args.skill, args.seed) as models,
    ):
        os.environ["UCUTLASS_CACHE"] = f"{folder}/builds"  # each program is built in this run
        with ThreadPoolExecutor(args.at_once) as pool:
            pairs = [] if args.again else itertools.product(arms, names)
            common = args.device, models, args.recordings
            jobs = [pool.submit(play, arm, name, *common, args.trials) for arm, name in pairs]
            jobs += [pool.submit(play_again, path, *common) for path in args.again]
            for job in jobs:
                try:
                    row = job.result()
                except (recording.RecordingError, BadSpec, OSError) as e:
                    parser.error(str(e))
                results["rows"].append(row)
                print(line(row), flush=True)
                if args.json:
                    atomic_write.write_results(args.json, results)
    return 1 if any(row["faults"] for row in results["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
