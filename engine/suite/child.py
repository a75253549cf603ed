"""The process that owns the GPU for the suite: `python -m engine.suite.child --device cuda`, JSON lines over pipes.

It holds one module at a time with its inputs and what is right, runs program after program on them, and times each in
alternation with the module, eager with TF32. With `--device cpu` a program's meaning (the oracle) runs in the place
of its machine code, on small sizes: no kernel is tested then, but every program's text is, and this code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dsl.check.program import check
from dsl.ir import DType
from engine import jsonprocess
from engine.build.cute_worker import import_generated
from engine.evaluate.candidate.faults import Wrong
from engine.evaluate.candidate.guarded_outputs import Guarded
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.rounding import TORCH
from engine.evaluate.correctness.tolerance import TOLERANCES, Comparison, verdict
from engine.evaluate.integrity import trial
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.evaluate.timing.samples import interval, net, paired_ratio
from engine.suite.evidence import Loaded, checks
from engine.suite.problem import Instance, compare

HOLD_CYCLES = 3_000_000  # 1.5 ms: a pipeline of six launches is queued before the first event
WARM_UP, PAIRS, SLOW_PAIRS, SLOW_MS = 2, 11, 5, 10.0


class Child:
    """Every public method is a request by its name."""

    def __init__(self, device: str):
        self.device, self.small = device, device == "cpu"
        self.problem: Instance | None = None
        self._uneven: Instance | None = None  # the same with a last row, or image, that f16 cannot hold
        self._scaled: dict[str, Instance] = {}  # the same on larger and on smaller inputs
        self._fastest: dict[str, float] = {}  # ms of the best program of the problem, by class
        self.results: dict[str, torch.Tensor] = {}  # of the problem's programs, by program and back end
        self.loaded: Loaded | None = None  # the program that runs, as machine code
        self._timer: Any = None
        self._overhead = 0.0  # ms that events add to what they enclose
        if not self.small:
            torch.empty(1, device=device)
            try:
                import quack.epilogue.frontend
                import quack.gemm_runtime.host  # noqa: F401
            except ImportError:
                pass  # the cpp back end needs neither

    def warm(self, request: dict) -> dict:
        """{gpu, torch, total_bytes, events_us: what CUDA events add to a time, taken off every one}"""
        if self.small:
            return {"gpu": "none: meanings on the CPU", "torch": torch.__version__, "total_bytes": 0}
        from engine.evaluate.timing.samples import Timer

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        if self._timer is None:
            self._timer = Timer(HOLD_CYCLES)
            self._overhead = self._timer.overhead()
        p = torch.cuda.get_device_properties(0)
        return {
            "gpu": p.name, "torch": torch.__version__, "total_bytes": p.total_memory,
            "events_us": round(self._overhead * 1e3, 2),
        }  # fmt: skip

    def open(self, request: dict) -> dict:
        """Take up a module. {images, scope, eager_ms, seconds}"""
        began = time.perf_counter()
        self.close({})
        self.problem = Instance.make(Path(request["module"]), request["seed"], self.device, self.small)
        self.problem.prepare()
        return {"scope": self.problem.scope(), "seconds": time.perf_counter() - began}

    def close(self, request: dict) -> dict:
        self.problem, self.results, self.loaded, self._uneven = None, {}, None, None
        self._scaled, self._fastest = {}, {}
        if not self.small:
            torch.cuda.empty_cache()
        return {}

    def run(self, request: dict) -> dict:
        """One program by one back end: {ok, error, max_error, whole, pytorch_error, ms, eager_ms, ratio, ...}, or
        {wrong: code, message, lost}."""
        return self._told(self._run, request)

    def _told(self, work: Callable[[dict], dict], request: dict) -> dict:
        """What `work` answers, or what went wrong in it."""
        try:
            return work(request)
        except Wrong as e:
            return {"wrong": e.code, "message": str(e), "lost": False}
        except Exception as e:
            text = f"{type(e).__name__}: {e}"
            lost = "CUDA error" in text or type(e).__name__ == "AcceleratorError" or "cudaError" in text
            if isinstance(e, torch.OutOfMemoryError):
                self.results.clear()
                torch.cuda.empty_cache()
            return {"wrong": "cuda_error" if lost else "run_failed", "message": text[:1500], "lost": lost}

    def _run(self, request: dict) -> dict:
        began = time.perf_counter()
        program, cls = check(request["text"]).program, request["cls"]
        inputs = self._inputs(request, program)
        if self.small:
            call, outputs = self._meaning(program, inputs)
        else:
            call, outputs = self._machine_code(request, program, inputs)
        answer, first = self._verified(outputs[0].tensor if isinstance(outputs[0], Guarded) else outputs[0], cls)
        answer["agrees"] = self._agree(request["case"], request["backend"], first, cls)
        if program.guard:
            answer |= self._rescued(request, program, cls)
        if not self.small:
            answer |= self._time(call)
            answer["checks"] = self._checks(first, cls, answer)
            if answer["ms"] < self._fastest.get(cls, float("inf")):
                answer["families"] = self._held(request, program, cls)
                self._fastest[cls] = answer["ms"]
        return answer | {"seconds": time.perf_counter() - began}

    def _verified(self, out: torch.Tensor, cls: str) -> tuple[dict, torch.Tensor]:
        """({ok, error, ..}, the result as later calls are held against it). Raises Wrong."""
        problem = self.problem
        if out.numel() != problem.eager.numel():
            raise Wrong("shape", f"the result has {out.numel():,} elements; the module's {problem.eager.numel():,}")
        out = out.reshape(problem.eager.shape)
        found = compare(problem.sampled(out), problem.right)
        own = None if self.small else problem.pytorch_error(cls)
        wrong = verdict(cls, found, own)
        if wrong and own is None:  # perhaps the module amplifies rounding
            own = problem.pytorch_error(cls)
            wrong = verdict(cls, found, own)
        if wrong:
            raise Wrong("wrong_result", wrong)
        whole = compare(out, problem.eager)
        theirs = problem.own["tf32"].error if "tf32" in problem.own else 0.0
        if whole.unexpected or whole.error > 2 * (max(TOLERANCES[cls].error, found.error) + theirs):
            words = f"the whole result differs from PyTorch's TF32 result by {whole.error:.2g}"
            raise Wrong("wrong_result", f"{words}, {whole.unexpected:,} elements NaN or Inf on one side alone")
        told = {"whole_error": whole.error, "tolerance": TOLERANCES[cls].error, "pytorch_error": own and own.error}
        return {"ok": True, **_numbers(found), **told}, out.clone()

    def _checks(self, first: torch.Tensor, cls: str, answer: dict) -> list[dict]:
        """The evidence; without memory for it a program that is right and timed stays so, with that said."""
        try:
            return checks(self.loaded, first, cls, answer["ms"], len(answer["pairs"]))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return [trial.check("evidence", trial.UNSEEN, "the GPU had no memory left for it")]

    def _held(self, request: dict, program: Any, cls: str) -> dict:
        """{family: error} of what would be its class's best, on larger and smaller inputs: as a session holds every
        program. Raises Wrong; says `unseen` where the GPU has no memory left for it."""
        own, found = self.problem, {}
        try:
            if not own.inputs or not own.inputs[0].is_floating_point():
                return {}
            self._scaled = self._scaled or own.scaled()
            for name, problem in self._scaled.items():
                self.problem = problem
                problem.prepare()
                problem.eager = problem.right  # only what is right is held against here
                (out, *_) = self._answers(request, program)
                c = compare(problem.sampled(out.reshape(own.eager.shape)), problem.right)
                if wrong := verdict(cls, c, None if self.small else problem.pytorch_error(cls)):
                    raise Wrong("wrong_result", f"on {name} inputs, {wrong}")
                found[name] = c.error
        except torch.OutOfMemoryError:
            self._scaled = {}
            torch.cuda.empty_cache()
            found["unseen"] = "the GPU had no memory left for it"
        finally:
            self.problem = own
        return found

    def _answers(self, request: dict, program: Any) -> list[torch.Tensor]:
        """The program on the inputs of the problem as it stands now."""
        inputs = self._inputs(request, program)
        if self.small:
            return oracle.run(program, inputs)
        outputs = [torch.full(t.shape, torch.nan, device=self.device) for t in program.result_types]
        self.loaded.run(inputs, outputs)
        torch.cuda.synchronize()
        return outputs

    def _rescued(self, request: dict, program: Any, cls: str) -> dict:
        """{rescued: error} of a guarded program on inputs that f16 cannot hold; {} where PyTorch itself overflows.
        Raises Wrong."""
        own = self.problem
        try:
            if self._uneven is None:
                self._uneven = own.uneven()
                self._uneven.prepare()
            self.problem = self._uneven
            if not bool(self.problem.eager.isfinite().all()):
                return {}
            outputs = self._answers(request, program)
            found = compare(self.problem.sampled(outputs[0].reshape(self.problem.eager.shape)), self.problem.right)
            wrong = verdict(cls, found, None if self.small else self.problem.pytorch_error(cls))
            if wrong:
                raise Wrong("wrong_result", f"with one row 10^6 times as large, {wrong}")
            return {"rescued": found.error}
        finally:
            self.problem = own

    def _inputs(self, request: dict, program: Any) -> list[torch.Tensor]:
        """The program's parameters, by name."""
        return [self.problem.seen(p.name, p.type.shape) for p in program.params]

    def _meaning(self, program: Any, inputs: list[torch.Tensor]) -> tuple[Callable, list[torch.Tensor]]:
        return lambda: None, oracle.run(program, inputs)

    def _machine_code(self, request: dict, program: Any, inputs: list[torch.Tensor]) -> tuple[Callable, list[Guarded]]:
        """Run it once on poisoned outputs. Raises Wrong for what it left out or wrote elsewhere."""
        snapshot = Snapshot()
        module = import_generated(request["path"])
        run = module.load(request["artifact"])
        outputs = [Guarded(t.shape, TORCH[DType(t.dtype)], self.device) for t in program.result_types]
        tensors = [o.tensor for o in outputs]
        self._once(lambda: run(inputs, tensors), inputs, outputs)
        self.loaded = Loaded(module, request["artifact"], run, inputs, outputs, snapshot)
        return lambda: run(inputs, tensors), outputs

    def _once(self, call: Callable[[], object], inputs: list[torch.Tensor], outputs: list[Guarded]) -> None:
        """The first call, on poisoned outputs. Raises Wrong."""
        before = [_checksum(x) for x in inputs]
        for o in outputs:
            o.poison()
        call()
        torch.cuda.synchronize()
        for i, o in enumerate(outputs):
            if left := o.unwritten():
                raise Wrong("unwritten", f"{left:,} of {o.tensor.numel():,} elements of result {i + 1} not written")
            if not o.intact():
                raise Wrong("out_of_bounds", f"the program wrote outside of result {i + 1}")
        if before != [_checksum(x) for x in inputs]:
            raise Wrong("input_written", "the program changed one of its inputs")

    def _agree(self, case: str, backend: str, out: torch.Tensor, cls: str) -> dict | None:
        """Against the other back end's result of the same program: {backend, error}. Raises Wrong."""
        for name, other in self.results.items():
            if name.startswith(f"{case}:") and name != f"{case}:{backend}":
                error = compare(out, other).error
                if error > TOLERANCES[cls].error:
                    raise Wrong("disagree", f"it differs from what {name.partition(':')[2]} gives by {error:.2g}")
                return {"backend": name.partition(":")[2], "error": error}
        self.results = {name: x for name, x in self.results.items() if name.startswith(f"{case}:")}
        self.results[f"{case}:{backend}"] = out
        return None

    def _time(self, call: Callable) -> dict:
        eager = self.problem.call
        for _ in range(WARM_UP):
            slow = self._sample(eager)
            self._sample(call)
        count = SLOW_PAIRS if slow > SLOW_MS else PAIRS
        pairs = [(self._sample(eager), self._sample(call)) for _ in range(count)]
        ratio, low, high = paired_ratio(pairs)
        return {
            "ms": interval([b for _, b in pairs])[0], "eager_ms": interval([a for a, _ in pairs])[0],
            "ratio": ratio, "ratio_low": low, "ratio_high": high, "pairs": pairs,
        }  # fmt: skip

    def _sample(self, call: Callable) -> float:
        """Milliseconds of one call without the events' own."""
        return net(self._timer.sample(call), self._overhead)


def _numbers(c: Comparison) -> dict:
    return {"error": c.error, "max_error": c.max_error, "elements": c.elements}


def _checksum(x: torch.Tensor) -> int:
    """Of the bits, so that a changed input is noticed without a copy of 17 GB."""
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return int(x.reshape(-1).view(bits).sum(dtype=torch.int64))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    child = Child(parser.parse_args().device)
    torch.set_grad_enabled(False)
    jsonprocess.serve({"warm": child.warm, "open": child.open, "close": child.close, "run": child.run})


if __name__ == "__main__":
    main()
