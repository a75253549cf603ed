"""The process that owns the GPU for `engine.bench.studies.guarded`: one module at a time, JSON lines over pipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from dsl.check.program import check
from engine import jsonprocess
from engine.build.cute_worker import import_generated
from engine.evaluate.correctness.inputs import FAR
from engine.suite.problem import Instance, compare

SEED = 7
HOLD_CYCLES = 3_000_000  # 1.5 ms: a pipeline with its rescue is queued before the first event
WARM_UP, ROUNDS = 2, 7

CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {  # by the names of engine.bench.studies.guarded.SETS
    "own": lambda x: x,
    "large": lambda x: x * FAR,
    "tiny": lambda x: x / FAR,
    "row": lambda x: torch.cat([x[:-1], x[-1:] * FAR]),
    "spread": lambda x: x * FAR ** -torch.rand_like(x),
}


class Child:
    """`measure` is a request by its name."""

    def __init__(self):
        from engine.evaluate.timing.samples import Timer

        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.timer = Timer(HOLD_CYCLES)

    def measure(self, request: dict) -> dict:
        """{sets: set -> numbers, ms: kind -> ms, rescue_ms}: `kinds` of the request is kind -> [text, module's path,
        what its `load` takes].

        A CUDA error ends the process.
        """
        try:
            return self._measure(request)
        except torch.AcceleratorError as e:
            print(e)
            raise SystemExit(3) from None
        finally:
            torch.cuda.empty_cache()

    def _measure(self, request: dict) -> dict:
        module = Instance.make(Path(request["module"]), SEED, "cuda")
        program = check(request["kinds"]["guarded"][0]).program
        runs = {k: import_generated(Path(path)).load(artifact) for k, (_, path, artifact) in request["kinds"].items()}
        outs = [torch.empty(t.shape, dtype=torch.float32, device="cuda") for t in program.result_types]
        fixed = [module.seen(p.name, p.type.shape).clone() for p in program.params]  # a graph keeps its addresses
        answer: dict[str, Any] = {"sets": {}}

        def read(changed: Instance) -> None:
            for f, p in zip(fixed, program.params, strict=True):
                f.copy_(changed.seen(p.name, p.type.shape))

        for which, change in CHANGES.items():
            changed = module.with_first(change(module.inputs[0]))
            read(changed)
            changed.prepare()
            answer["sets"][which] = self._set(changed, runs, fixed, outs)
            if which == "large":
                answer["rescue_ms"] = round(self.timer.sample(lambda: runs["guarded"](fixed, outs)), 4)
        read(module)
        calls = {kind: (lambda run=run: run(fixed, outs)) for kind, run in runs.items()} | {"eager_tf32": module.call}
        return answer | {"ms": self._times(calls)}

    @staticmethod
    def _set(module: Instance, runs: dict[str, Callable], inputs: Sequence, outs: Sequence[torch.Tensor]) -> dict:
        """{error, graph_error, plain_error, eager_tf32: relative to float64; flag; unexpected: elements NaN or Inf on
        one side alone, with a guard; worst, worst_eager_tf32: one element's error over the result's RMS}"""
        seen, flag = {}, 0
        for kind, run in runs.items():
            run(inputs, outs)  # a graph captures, or replays over the values before
            for o in outs:
                o.fill_(float("nan"))
            run(inputs, outs)
            torch.cuda.synchronize()
            flag = int(run.tripped()) if kind == "guarded" else flag
            seen[kind] = compare(module.sampled(outs[0].reshape(module.eager.shape)), module.right)
        theirs = module.pytorch_error("tf32")
        return {
            "error": seen["guarded"].error, "graph_error": seen["graph"].error, "plain_error": seen["plain"].error,
            "eager_tf32": theirs.error, "worst": seen["guarded"].max_error, "worst_eager_tf32": theirs.max_error,
            "flag": flag, "unexpected": seen["guarded"].unexpected + seen["graph"].unexpected,
        }  # fmt: skip

    def _times(self, calls: dict[str, Callable]) -> dict[str, float]:
        """Median ms of each, in turns."""
        times: dict[str, list[float]] = {kind: [] for kind in calls}
        for turn in range(WARM_UP + ROUNDS):
            for kind, call in calls.items():
                ms = self.timer.sample(call)
                if turn >= WARM_UP:
                    times[kind].append(ms)
        return {kind: round(median(taken), 5) for kind, taken in times.items()}


if __name__ == "__main__":
    jsonprocess.serve({"measure": Child().measure})
