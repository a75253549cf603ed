"""Measure the memory and the seconds that validating the largest modules takes: sessions of a few trials on each.

    python -m engine.bench.studies.room --json room.json                       # on one GPU, about eight minutes
    python -m engine.bench.studies.room --only conv2d_pointwise --json room.json
    python -m engine.bench.studies.room --device modelled:h200 --only linear_silu_f16   # the command without a GPU

The memory is what all processes of the GPU hold, sampled while the session runs, less what they held before; it is set
beside the module's own: its inputs, parameters and results. Aim: each session has a right trial, no trial waits for the
same lack of memory twice, and the peak is at most two and a half times the module's own memory and two contexts.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.devices import NO_ROOM, SessionRefused
from engine.devices.gpus import CONTEXT
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from engine.suite.cases import PROBLEMS
from sol.graph import OpGraph

# The suite's modules whose tensors take 8.6 to 14.3 GB.
MODULES = (
    "conv2d_pointwise", "conv1d_strided_dilated", "conv_transpose2d_clamp", "conv_transpose2d_mish_hardtanh",
    "conv2d_few_channels", "matrix_vector",
)  # fmt: skip
CLS, TRIALS = "tf32", 3
AIM = 2.5  # times the module's own memory
PAUSE = 0.02  # seconds between two samples
STEPS = ("baseline", "compiled", "validated", "measured")


class Held:
    """The most bytes that a GPU's processes hold, beyond those of the start, while this is open. `free`: returns the
    bytes that nobody holds."""

    def __init__(self, free: Callable[[], int | None]):
        self._free, self._end = free, threading.Event()
        self.start = self.least = free()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    @property
    def most(self) -> int | None:
        return None if self.start is None or self.least is None else self.start - self.least

    def _sample(self) -> None:
        while self.start is not None and not self._end.wait(PAUSE):
            now = self._free()
            self.least = min(self.least, now) if now is not None else self.least

    def __enter__(self) -> Held:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def look(name: str, device: str, free: Callable[[], int | None], trials: int = TRIALS) -> dict[str, Any]:
    """One session: its trials with the seconds of each step, its peak, and the aims that it missed, in words."""
    own, rows, seconds, last, reason = 0, [], {}, time.monotonic(), ""
    spec = SessionSpec(
        title=name, source=(PROBLEMS / f"{name}.py").read_text(encoding="utf-8"), source_kind="module", device=device,
        classes=(CLS,), trials=trials,
    )  # fmt: skip
    with Held(free) as peak:
        for emitted in run(spec, local_user=True, teaches=False):
            e, now = emitted.event, time.monotonic()
            if isinstance(e, events.Traced):
                own = own_bytes(OpGraph.from_json(emitted.blobs[e.graph]))
            step = e.KIND.removeprefix("trial.")
            if step in STEPS:
                seconds[step] = round(now - last, 2)
            if isinstance(e, events.ENDS):
                code = getattr(e, "code", "")
                rows.append({"trial": e.trial, "seconds": seconds, "code": code, "text": getattr(e, "reason", e.KIND)})
                seconds = {}
            if isinstance(e, events.SessionEnded):
                reason = f"{e.state}: {e.reason}"
            last = now
    return about({"module": name, "own_bytes": own, "peak_bytes": peak.most, "trials": rows, "end": reason[:200]})


def own_bytes(graph: OpGraph) -> int:
    """Of a module's inputs, parameters, buffers and results."""
    return sum(t.bytes for t in graph.tensors.values() if t.kind != "intermediate" or t.name in graph.outputs)


def about(row: dict[str, Any]) -> dict[str, Any]:
    """A row with `times`, the peak in units of the module's own memory, and its `faults`."""
    short = [t for t in row["trials"] if t["code"] in NO_ROOM]
    faults = [f"trial {t['trial']}: {t['text']}"[:200] for t in short]
    if not [t for t in row["trials"] if not t["code"]]:
        faults.append(f"no trial has a verdict; {row['end']}")
    waited = [sum(t["seconds"].values()) for t in short]
    if sum(w > 5.0 for w in waited) > 1:
        faults.append(f"the same lack of memory took {', '.join(f'{w:.0f} s' for w in waited)}")
    times = None
    if row["peak_bytes"] is not None and row["own_bytes"]:
        times = round(max(0, row["peak_bytes"] - 2 * CONTEXT) / row["own_bytes"], 2)
        if times > AIM:
            faults.append(f"{times} times its own memory, the aim is {AIM}")
    return {**row, "times": times, "faults": faults}


def line(row: dict[str, Any]) -> str:
    steps = "; ".join(
        f"trial {t['trial']} " + ", ".join(f"{name} {s:.1f} s" for name, s in t["seconds"].items())
        for t in row["trials"]
    )
    peak = f"{row['peak_bytes'] / 1e9:.1f} GB" if row["peak_bytes"] is not None else "not measured"
    return (
        f"{'BAD' if row['faults'] else 'ok '} {row['module']:30} own {row['own_bytes'] / 1e9:.1f} GB, peak {peak} "
        f"({row['times']} times); {steps}  {'; '.join(row['faults'])}"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.studies.room", description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda; modelled:h200 tries the command itself without a GPU")
    parser.add_argument("--only", default="", metavar="NAME,..", help="modules of engine/problems")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"of each session (default {TRIALS})")
    parser.add_argument("--json", metavar="OUT", help="the numbers, written as they come")
    args = parser.parse_args(argv)
    from engine.evaluate.timing import gpu_condition

    measured = args.device == "cuda"
    results = gpu_condition.about(
        "python -m engine.bench.studies.room --json room.json", gpu_condition.read() if measured else None
    )
    results |= {"device": args.device, "aim": AIM, "class": CLS, "results": []}
    free = gpu_condition.free_bytes if measured else (lambda: None)
    try:
        for name in tuple(filter(None, args.only.split(","))) or MODULES:
            results["results"].append(look(name, args.device, free, args.trials))
            print(line(results["results"][-1]), flush=True)
            if args.json:
                atomic_write.write_results(Path(args.json), results)
    except SessionRefused as e:
        print(f"error: {e.reason}", file=sys.stderr)
        return 2
    return 1 if any(row["faults"] for row in results["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())
