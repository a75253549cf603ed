"""Check that the same kernel takes the same time twice, and that two clocks agree: ten kernels of 20 us to 20 ms.

    python -m engine.bench.studies.steady --json steady.json             # two to three minutes on one GPU
    python -m engine.bench.studies.steady --load 8 --json crowded.json   # while eight sessions use the same GPU

Each kernel is a raw candidate in its sandbox, timed beside eager PyTorch as by `python -m engine measure`, twice in a
row. Aims: the two ratios differ by less than 1.05%, or their intervals overlap; from 50 us the time by the clock
outside of its process is within 5% of CUPTI's record of such batches in it; no trick is found in an honest kernel.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from engine import atomic_write
from engine.evaluate.timing.outside.plan import free_bytes_wanted
from engine.executors import Share
from engine.executors.local import local

SPREAD, AGREE, LONG_MS = 0.0105, 0.05, 0.05
LANE = "gpu0"
AT_ONCE = 4  # cases whose processes wait with a CUDA context: three processes per case, 2 to 3 GB of host memory each
CUPTI_BATCHES = 7
CALL_SECONDS = 60.0


@dataclass(frozen=True)
class Case:
    """A module of one expression, and a kernel with the same expression."""

    name: str
    cls: str
    arguments: str
    expression: str
    inputs: str

    @property
    def module(self) -> str:
        head = "import torch, torch.nn as nn, torch.nn.functional as F\nclass Model(nn.Module):\n"
        body = f"    def forward(self, {self.arguments}):\n        return {self.expression}\n"
        return f"{head}{body}def get_inputs(): return [{self.inputs}]\n"

    @property
    def kernel(self) -> str:
        head = "import torch\nimport torch.nn.functional as F\n"
        return f"{head}def kernel({self.arguments}):\n    return {self.expression}\n"


def _gate(name: str, rows: int, columns: int) -> Case:
    return Case(name, "f32", "x, y", "x * torch.sigmoid(x) + y", ", ".join([f"torch.randn({rows}, {columns})"] * 2))


def _product(name: str, cls: str, n: int) -> Case:
    dtype = {"f16": ", dtype=torch.float16", "f32": ""}[cls]
    return Case(name, cls, "a, b", "a @ b", ", ".join([f"torch.randn({n}, {n}{dtype})"] * 2))


CASES = (
    _gate("gate_4M", 2048, 2048),
    _gate("gate_8M", 4096, 2048),
    _gate("gate_32M", 8192, 4096),
    Case("softmax_8M", "f32", "x", "torch.softmax(x, dim=-1)", "torch.randn(8192, 1024)"),
    Case("layernorm_32M", "f32", "x", "F.layer_norm(x, (2048,))", "torch.randn(16384, 2048)"),
    _product("product_f16_2048", "f16", 2048),
    _product("product_f16_8192", "f16", 8192),
    _product("product_f32_2048", "f32", 2048),
    _product("product_f32_4096", "f32", 4096),
    _product("product_f32_8192", "f32", 8192),
)


@dataclass
class Ready:
    """A case after all slow work: its verifier, its candidate's process, its values on the GPU."""

    case: Case
    verifier: Any
    process: Any
    run: Any

    def close(self) -> None:
        for one in (self.run, self.process, self.verifier):
            with suppress(Exception):
                one.close()


@dataclass
class Seen:
    """The results of two timings of one case and of CUPTI. Times in ms."""

    name: str
    ms: list[float]
    baseline_ms: list[float]
    ratio: list[float]
    interval: list[tuple[float, float]]
    pairs: list[int]
    cupti_ms: float
    call_ms: float
    calls: int = 1  # of a batch
    seconds: float = 0.0  # of everything
    device: dict[str, Any] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def spread(self) -> float:
        return abs(self.ratio[0] - self.ratio[1]) / min(self.ratio)

    @property
    def overlap(self) -> bool:
        return max(low for low, _ in self.interval) <= min(high for _, high in self.interval)

    @property
    def over_cupti(self) -> float:
        return median(self.ms) / self.cupti_ms if self.cupti_ms else float("inf")

    @property
    def faults(self) -> list[str]:
        """The missed aims, in words."""
        misses = [f"found: {f}" for f in self.findings]
        if self.spread >= SPREAD and not self.overlap:
            misses.append(f"ratios differ by {self.spread:.1%}, and their intervals do not overlap")
        if self.cupti_ms >= LONG_MS and abs(self.over_cupti - 1) > AGREE:
            misses.append(f"the outside clock says {self.over_cupti:.3f} times what CUPTI says")
        return misses

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self), "spread": self.spread, "overlap": self.overlap, "over_cupti": self.over_cupti,
            "faults": self.faults,
        }  # fmt: skip


def prepare(case: Case) -> Ready:
    """Trace the module, start verifier and candidate."""
    from engine.evaluate.integrity import measuring, verify
    from engine.trace import trace

    v = verify.Verifier(case.module, "cuda", local_user=True, graph=trace(case.module, local_user=True).graph).start()
    process = v.candidate("python")
    return Ready(case, v, process, measuring.Run(v.examiner, process, case.cls))


def look(ready: Ready, evaluator: Any = None) -> Seen:
    """Load the kernel, time it twice in a row beside eager PyTorch, then let CUPTI record some batches. With the GPU's
    lane, so that no session uses the GPU meanwhile. `evaluator`: of the same GPU as the sessions', which make room as
    they do for any raw kernel."""
    began = time.monotonic()
    if evaluator is not None:
        evaluator.clear_for(free_bytes_wanted(ready.verifier.graph))
    ready.run.prepare(ready.case.kernel, "python")
    two = [ready.run.time("eager") for _ in range(2)]
    last = two[-1]
    ready.run.sides.open("eager", last.calls, last.mode)
    records = [ready.process.ask("clock_record", CALL_SECONDS)["us"] for _ in range(CUPTI_BATCHES)]
    return Seen(
        ready.case.name, [t.ms for t in two], [t.baseline_ms for t in two], [t.ratio for t in two],
        [(t.ratio_low, t.ratio_high) for t in two], [len(t.sample) for t in two],
        median(records) / last.calls / 1e3, last.call_ms, last.calls, time.monotonic() - began,
        last.device, [f.sentence for f in last.findings],
    )  # fmt: skip


def line(seen: Seen) -> str:
    low, high = seen.interval[0]
    return (
        f"{'BAD' if seen.faults else 'ok '} {seen.name:18} {seen.ms[0]:9.4f} ms  ratio {seen.ratio[0]:.4f} and "
        f"{seen.ratio[1]:.4f} ({low:.4f} to {high:.4f}), spread {seen.spread:.2%}; outside/CUPTI {seen.over_cupti:.4f} "
        f"of {seen.cupti_ms:.4f} ms; call {seen.call_ms:.4f}, {seen.calls} a batch, "
        f"pairs {seen.pairs} {'; '.join(seen.faults)}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine.bench.studies.steady", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", default="", metavar="NAME,..", help=f"of {', '.join(c.name for c in CASES)}")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further cases after this time")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="sessions that use the GPU meanwhile")
    parser.add_argument("--json", metavar="OUT", help="the numbers, written as they come")
    return parser


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    wanted = tuple(filter(None, args.only.split(",")))
    cases = [c for c in CASES if not wanted or c.name in wanted]
    if not Path("/dev/nvidiactl").exists():
        print("error: there is no NVIDIA GPU here, and times are only taken on one", file=sys.stderr)
        return 2
    from engine.devices import registry
    from engine.evaluate.timing import gpu_condition

    results = gpu_condition.about("python -m engine.bench.studies.steady --json steady.json", gpu_condition.read())
    results |= {"aims": {"spread": SPREAD, "over_cupti": AGREE, "from_ms": LONG_MS}, "results": []}
    results["load"] = args.load
    load = Load(args.load)
    evaluator = registry.get("cuda", local_user=True) if args.load else None
    began, good = time.monotonic(), True
    for at in range(0, len(cases), AT_ONCE):
        if time.monotonic() - began > args.seconds:
            break
        for name, seen in _batch(cases[at : at + AT_ONCE], evaluator):
            good &= isinstance(seen, Seen) and not seen.faults
            results["results"].append(seen.to_json() if isinstance(seen, Seen) else {"name": name, "error": seen})
            print(line(seen) if isinstance(seen, Seen) else f"BAD {name}: {seen}", flush=True)
            if args.json:
                atomic_write.write_results(Path(args.json), results)
    load.end()
    results["trials_meanwhile"] = load.trials
    if args.json:
        atomic_write.write_results(Path(args.json), results)
    print(f"{len(results['results'])} of {len(cases)} in {time.monotonic() - began:.0f} s", flush=True)
    return 0 if good and len(results["results"]) == len(cases) else 1


class Load:
    """Sessions of the planner on modules of engine/problems, one after the other in each of `many` threads."""

    def __init__(self, many: int):
        self.trials, self._end = 0, threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n, many), daemon=True) for n in range(many)]
        for thread in self._threads:
            thread.start()

    def _work(self, first: int, step: int) -> None:
        from engine.session import events
        from engine.session.runner import run
        from engine.session.spec import SessionSpec
        from engine.suite.cases import PROBLEMS

        texts = [path.read_text(encoding="utf-8") for path in sorted(PROBLEMS.glob("[a-z]*.py"))]
        for number in itertools.count(first, step):
            if self._end.is_set():
                return
            spec = SessionSpec(title="load", source=texts[number % len(texts)], source_kind="module", classes=("f16",))
            for emitted in run(spec, device="cuda", control=self._control, local_user=True, teaches=False, memory=""):
                self.trials += isinstance(emitted.event, events.TrialJudged)

    def _control(self) -> list[tuple[str, dict]]:
        return [("stop", {})] if self._end.is_set() else []

    def end(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)


def _batch(cases: list[Case], evaluator: Any) -> list[tuple[str, Seen | str]]:
    """Do all slow work in parallel, then one timing after the other, with the GPU to itself."""
    results: list[tuple[str, Seen | str]] = []
    ready: list[Ready] = []
    with ThreadPoolExecutor(len(cases)) as pool:  # alive until all is timed: a confined child ends with its thread
        for case, job in [(c, pool.submit(prepare, c)) for c in cases]:
            try:
                ready.append(job.result())
            except Exception as e:
                results.append((case.name, f"{type(e).__name__}: {e}"[:500]))
        lane = local()
        for one in ready:
            try:
                with lane.hold(lane.turn(LANE, Share(session="steady"))):
                    results.append((one.case.name, look(one, evaluator)))
            except Exception as e:
                results.append((one.case.name, f"{type(e).__name__}: {e}"[:500]))
            one.close()
    return results


if __name__ == "__main__":
    sys.exit(main())
