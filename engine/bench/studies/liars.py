"""What kernels that lie about their time gain: nothing, because the clock is outside of their processes.

    python -m engine.bench.studies.liars --json liars.json     # about two minutes on one GPU

One product of matrices, honest and with eleven lies, each of which replaces another clock, hides its work somewhere
else or stores results. Each is timed as by `python -m engine measure`, without the checks that would refuse it first,
and with what it left in the process that would have checked it. A lie gains what the honest kernel takes longer; it
counts only if nothing was found against it. Aim: none gains a millisecond (issue 14).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.evaluate.integrity.findings import CHEAT, WRONG
from engine.evaluate.integrity.process.own_builds import FOLDERS

N = 8192
MODULE = f"""
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs(): return [torch.randn({N}, {N}), torch.randn({N}, {N})]
"""
HEAD = "import gc, sys, threading, time\nimport torch\n\n\ndef kernel(a, b):\n    return a @ b\n\n\n"
RUNNER = "engine.evaluate.timing.outside.runner"
LIES = {
    "python clocks run slowly": """
for name in ("perf_counter", "monotonic", "time"):
    real = getattr(time, name)
    setattr(time, name, lambda real=real: real() * 0.01)
""",
    "events tell a hundredth": """
real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: real(self, other) * 0.01
""",
    "the engine's event function is replaced by a library": """
import ctypes
for name in ("cudaEventElapsedTime", "cudaEventElapsedTime_v2"):
    try:
        function = getattr(ctypes.CDLL("libcudart.so"), name)
        ctypes.memset(ctypes.cast(function, ctypes.c_void_p).value, 0xC3, 1)
    except (AttributeError, OSError):
        pass
""",
    "done before the device is": f"""
import {RUNNER} as runner
runner.Runner._sync = lambda self: None
torch.cuda.synchronize = lambda *a: None
""",
    "half of the calls": f"""
import {RUNNER} as runner
real = runner.Runner.open
def opened(self, call, calls, mode="graph"):
    told = real(self, call, calls, mode)
    half = real(self, call, max(1, calls // 2), mode)
    told["results"] = (half["results"] + told["results"])[:calls]
    return told
runner.Runner.open = opened
""",
    "no call after the first batches": f"""
import {RUNNER} as runner
class Tired:
    def __init__(self, run): self.run, self.left = run, 4
    def __call__(self):
        self.left -= 1
        if self.left > 0: self.run()
real = runner.Runner.open
def opened(self, call, calls, mode="graph"):
    told = real(self, call, calls, mode)
    self._run = Tired(self._run)
    return told
runner.Runner.open = opened
""",
    "a thread writes the page": """
def early():
    while True:
        for page in [o for o in gc.get_objects() if type(o).__name__ == "Page"]:
            if page[page.READY] and page[page.DONE] != page[page.ARM]:
                page[page.DONE] = page[page.ARM]
        time.sleep(0.0001)
threading.Thread(target=early, daemon=True).start()
""",
    "a thread begins before go": f"""
import {RUNNER} as runner
real = runner.Runner.open
def opened(self, call, calls, mode="graph"):
    told, run, page = real(self, call, calls, mode), self._run, self.page
    def ahead():
        seen = 0
        while page is not None:
            if page[page.ARM] != seen:
                seen = page[page.ARM]
                run()
            time.sleep(0)
    threading.Thread(target=ahead, daemon=True).start()
    self._run = lambda: None
    return told
runner.Runner.open = opened
""",
    "slow while it looks how long a batch is": f"""
import {RUNNER} as runner
real = runner.Runner.open
count = [0]
def opened(self, call, calls, mode="graph"):
    told, run = real(self, call, calls, mode), self._run
    def slow():
        count[0] += 1
        if count[0] < 4: time.sleep(0.5)
        run()
    self._run = slow
    return told
runner.Runner.open = opened
""",
    "results by the content of the inputs": """
SEEN = {}
def kernel(a, b):
    if torch.cuda.is_current_stream_capturing():
        return a @ b
    key = float(a.flatten()[::4097].sum()), float(b.flatten()[::4097].sum())
    if key not in SEEN:
        SEEN[key] = a @ b
    return SEEN[key]
""",
    "half of the product where it finds what it built when it was checked": f"""
import os
MARK = os.path.expanduser("~/{FOLDERS[2]}/mark")
TIMED = os.path.exists(MARK)
os.makedirs(os.path.dirname(MARK), exist_ok=True)
open(MARK, "w").close()
def kernel(a, b):
    return a[:, :{N // 2}] @ b[:{N // 2}] if TIMED else a @ b
""",
}
SLACK_MS = 0.02


def look(verifier: Any, lie: str) -> dict[str, Any]:
    """{ms, call_ms, mode, findings, refused} of one text."""
    from engine.devices import TrialError
    from engine.evaluate.integrity.examination import OPEN_SECONDS
    from engine.evaluate.integrity.measuring import measure
    from engine.evaluate.integrity.process.candidate import CandidateEnded
    from engine.evaluate.integrity.process.judge import JudgeLost

    try:
        with verifier.candidate("python") as checked:  # not in rounds: those would refuse some of them
            checked.open(HEAD + lie, OPEN_SECONDS["python"])
            builds = checked.builds()
        t = measure(verifier.examiner, HEAD + lie, "python", "f32", "eager", builds=builds)
    except (CandidateEnded, JudgeLost, TrialError) as e:
        return {"ms": None, "findings": [f"{getattr(e, 'code', 'lost')}: {e}"[:300]], "refused": True}
    refused = any(f.severity in (CHEAT, WRONG) for f in t.findings)
    return {
        "ms": t.ms, "call_ms": t.call_ms, "baseline_ms": t.baseline_ms, "ratio": t.ratio, "mode": t.mode,
        "calls": t.calls, "looked_at": t.looked_at, "findings": [f.sentence for f in t.findings], "refused": refused,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.liars", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--json", metavar="OUT", help="the numbers, written as they come")
    args = parser.parse_args(argv)
    if not Path("/dev/nvidiactl").exists():
        print("error: there is no NVIDIA GPU here, and times are only taken on one", file=sys.stderr)
        return 2
    from engine.evaluate.integrity.verify import Verifier
    from engine.evaluate.timing import gpu_condition

    results = gpu_condition.about("python -m engine.bench.studies.liars --json liars.json", gpu_condition.read())
    results |= {"module": MODULE, "results": []}
    gains = []
    with Verifier(MODULE, "cuda", local_user=True) as verifier:
        honest = look(verifier, "")
        results["honest"] = honest
        print(f"honest {honest}", flush=True)
        for name, lie in LIES.items():
            row = {"lie": name, **look(verifier, lie)}
            row["gain_ms"] = 0.0 if row["refused"] else honest["ms"] - row["ms"]
            gains.append(row["gain_ms"])
            results["results"].append(row)
            print(f"{row['gain_ms']:8.4f} ms gained: {row}", flush=True)
            if args.json:
                atomic_write.write_results(Path(args.json), results)
    return 0 if max(gains) < SLACK_MS * honest["ms"] else 1


if __name__ == "__main__":
    sys.exit(main())
