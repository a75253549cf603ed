"""Raw kernels through sessions on the GPU of this machine, as an owner pastes them: right ones are timed, tricks named.

    python -m tests.gpu.kernels_in_sessions --json kernels.json      # with $OUT set, the file lies there; two minutes
    python -m tests.gpu.kernels_in_sessions --device modelled:h200   # the same without a GPU: nothing gets a time

Two sessions, one of an elementwise module (4096 x 8192 on a GPU) and one of a softmax. Each row of the file is one
kernel: what was expected, how its trial ended, its time and ratio, its evidence; the logs are in it too. The exit
status is 0 when every kernel ended as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.evaluate.timing import gpu_condition
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.integrity import zoo

COUNTS = ("clean", "minor")
LIBRARY = "import torch\n\ndef kernel(x, y):\n    return x * torch.sigmoid(x) + y\n"
WRONG = "import torch\n\ndef kernel(x, y):\n    return x * torch.sigmoid(x) + 1.001 * y\n"


@dataclass(frozen=True)
class Kernel:
    """One kernel and what is expected of it on a GPU. `verdicts`: one of them; "failed": its trial fails. `codes`:
    names of evidence that must be there."""

    name: str
    text: str
    language: str
    cls: str
    verdicts: tuple[str, ...] = COUNTS
    codes: frozenset[str] = field(default_factory=frozenset)


def _animal(path: str, cls: str = "f32") -> Kernel:
    (animal,) = [a for a in zoo.animals(path.partition("/")[0]) if a.path.name == path.partition("/")[2]]
    gaming = ("gaming",) if animal.expect else COUNTS
    return Kernel(path, animal.text, animal.kind, cls, gaming, animal.expect)


def sessions(measured: bool) -> list[tuple[str, str, list[Kernel]]]:
    """(name, module, kernels); without a GPU the modules stay as small as the zoo has them."""
    gate, softmax = zoo.module("gate"), zoo.module("softmax")
    if measured:
        gate, softmax = gate.replace("48, 130", "4096, 8192"), softmax.replace("64, 200", "8192, 2048")
    return [
        ("gate", gate, [
            _animal("cuda_honest/gate.cu"), _animal("cuda_honest/gate_cute.py", "tf32"),
            Kernel("library", LIBRARY, "python", "f32", ("library only",)),
            Kernel("wrong", WRONG, "python", "f32", ("failed",), frozenset({"wrong_result"})),
        ]),
        ("softmax", softmax, [
            _animal("cuda_honest/softmax.cu"), _animal("cuda_cheats/side_stream.cu"), _animal("cuda_cheats/no_op.cu"),
            _animal("cuda_cheats/stale_memory.py"),
        ]),
    ]  # fmt: skip


def play(module: str, kernels: list[Kernel], device: str) -> tuple[list[events.Event], list[float]]:
    """The events of a session to which the owner hands all kernels at once, and when each came, in seconds."""
    tries = [
        ("try", {"program": k.text, "form": "kernel", "language": k.language, "cls": k.cls}) for k in kernels
    ]  # fmt: skip
    words = iter([tries])
    spec = SessionSpec(
        title="raw kernels", source=module, source_kind="module", device=device, classes=("tf32",), trials=2
    )
    log, times, began = [], [], time.monotonic()
    for emitted in run(spec, control=lambda: next(words, []), local_user=True, teaches=False):
        log.append(emitted.event)
        times.append(round(time.monotonic() - began, 2))
    return log, times


def row(k: Kernel, log: list[events.Event], times: list[float], trial: int, measured: bool) -> dict[str, Any]:
    """How one kernel's trial went, and whether that was expected."""
    steps = [(e, t) for e, t in zip(log, times, strict=True) if getattr(e, "trial", None) == trial]
    end = steps[-1][0]
    seen = {line["name"] for line in end.evidence}
    verdict = end.verdict if not isinstance(end, events.TrialFailed) else "failed"
    best = next((e.best for e in log if isinstance(e, events.SessionEnded)), {})
    faults = []
    if measured and (verdict not in k.verdicts or not k.codes <= seen):
        faults.append(f"expected {' or '.join(k.verdicts)} with {sorted(k.codes)}, seen {verdict} with {sorted(seen)}")
    timed = isinstance(end, events.TrialJudged)
    if timed != (measured and verdict in (*COUNTS, "library only")) and verdict != "gaming":
        faults.append("it has a time" if timed else "it has no time")
    if timed and verdict not in COUNTS and (end.best or trial in best.values()):
        faults.append("it is the best")
    result = {
        "kernel": k.name, "language": k.language, "class": k.cls, "verdict": verdict, "end": end.KIND,
        "text": end.reason if isinstance(end, events.TrialFailed) else end.text, "evidence": end.evidence,
        "steps": [e.KIND for e, _ in steps], "seconds": round(steps[-1][1] - steps[0][1], 2), "faults": faults,
    }  # fmt: skip
    time_ = next((e for e, _ in steps if isinstance(e, events.TrialMeasured)), None)
    if time_ is not None:
        result |= {
            "ms": time_.time.ms, "low": time_.time.low, "high": time_.time.high, "call_ms": time_.time.call_ms,
            "baseline": time_.baseline, "baseline_ms": time_.baseline_ms, "ratio": time_.ratio,
            "ratio_low": time_.ratio_low, "ratio_high": time_.ratio_high, "best": timed and end.best,
        }  # fmt: skip
    return result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.kernels_in_sessions", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, or modelled:h200 for a rehearsal without times")
    parser.add_argument("--json", default="kernels.json", metavar="FILE", help="where the rows go, below $OUT if set")
    args = parser.parse_args(argv)
    measured = args.device == "cuda"
    document = gpu_condition.about(
        "python -m tests.gpu.kernels_in_sessions", gpu_condition.read() if measured else None
    )
    document |= {"device": args.device, "sessions": []}
    path = Path(os.environ.get("OUT", "."), args.json)
    faults = 0
    for name, module, kernels in sessions(measured):
        log, times = play(module, kernels, args.device)
        own = [e.trial for e in log if isinstance(e, events.TrialProposed) and e.by == "owner"]
        rows = [row(k, log, times, n, measured) for k, n in zip(kernels, own, strict=False)]
        missing = [k.name for k in kernels[len(own) :]]
        end = events.encode(log[-1])
        wrong = [f"{end['state']}: {end['reason']}"] if end["state"] != "done" else []
        wrong += [f"{name} was never tried" for name in missing]
        faults += len(wrong) + sum(len(r["faults"]) for r in rows)
        whole = [{"kind": e.KIND, "t": t, "data": events.encode(e)} for e, t in zip(log, times, strict=True)]
        document["sessions"].append({"session": name, "end": end, "faults": wrong, "kernels": rows, "log": whole})
        path.write_text(json.dumps(document | {"faults": faults}, indent=1) + "\n", encoding="utf-8")
        for r in rows:
            ms = f"{r['ms']:.4g} ms, {r['ratio']:.3f} of {r['baseline']}" if "ms" in r else "no time"
            print(f"{'BAD' if r['faults'] else 'ok '} {r['kernel']:28} {r['verdict']:13} {ms:34} {r['seconds']:6.1f} s")
            print(f"      {'; '.join(r['faults']) or r['text']}"[:300], flush=True)
        for fault in wrong:
            print(f"BAD {name}: {fault}", flush=True)
    print(f"{faults} faults; {path}", flush=True)
    return 0 if not faults else 1


if __name__ == "__main__":
    sys.exit(main())
