"""The candidate's process, which owns the GPU: `python -m engine.evaluate.candidate.worker_main`, JSON lines over
pipes.

It runs generated programs (our compiler's output) on data that it makes itself (engine.evaluate.correctness.inputs:
the same bits as the process of the pasted module makes), holds their results against references that stay on the GPU
for the whole session, and times them a call at a time, so that the engine can alternate it with the baseline.

An error of CUDA poisons the context of a process for good; then the answer says `lost` and the engine starts another.
Run with `--device cpu` the same rules hold on CPU tensors, where its tests are.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import torch

from engine import jsonprocess
from engine.build.cute_worker import import_generated
from engine.evaluate import shared_tensors
from engine.evaluate.candidate.binding import bound
from engine.evaluate.candidate.faults import Wrong, answered
from engine.evaluate.candidate.guarded_outputs import Guarded, same_bits, wrong_writes
from engine.evaluate.candidate.noop_probe import silenced
from engine.evaluate.candidate.probes import probed, raised, recorded
from engine.evaluate.candidate.region_program import Assembled
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.oracle_main import _finite as finite
from engine.evaluate.correctness.oracle_main import _program as checked
from engine.evaluate.correctness.tolerance import Comparison, compare
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.evaluate.reference import eager_graph
from engine.evaluate.reference.baseline_cache import parts
from engine.evaluate.reference.pytorch_classes import casting, permitted
from sol.graph import OpGraph

KEEP_BYTES = 8 << 30  # of references on the GPU
BUFFERS = 4  # sets of inputs that timing rotates through, as the baseline's does
CHECKED = 0.1  # of the timed outputs


class HostTimer:
    """The wall clock in place of CUDA events, for the rules' tests on a CPU; no measurement uses it."""

    def sample(self, call: Callable[[], object]) -> float:
        started = time.perf_counter()
        call()
        return (time.perf_counter() - started) * 1e3

    call_time = sample


class Timed:
    """A call over sets of data, ready to be timed: candidate or baseline."""

    def __init__(self, call: Callable[[int], object], sets: int, timer: Any):
        self.call, self.sets, self.timer, self.turn = call, sets, timer, 0

    def sample(self) -> tuple[int, float]:
        """(which set, ms)"""
        self.turn += 1
        at = self.turn % self.sets
        return at, self.timer.sample(lambda: self.call(at))

    def call_time(self) -> float:
        at = self.turn % self.sets
        return self.timer.call_time(lambda: self.call(at))


class Worker:
    """One session's data and the program loaded last. Every public method is a request by its name."""

    def __init__(self, device: str):
        self.device = device
        self.graph: OpGraph | None = None
        self.own: dict[str, torch.Tensor] = {}
        self.references: dict[tuple[str, int], list[torch.Tensor]] = {}
        self.reference_bytes = 0
        self.run: Callable | None = None
        self.module: tuple[Any, str | None] = (None, None)  # of `run`, with its artifact
        self.whole: Assembled | None = None  # instead of `module`, where the program is a part of the pasted module
        self.snapshot: Snapshot | None = None  # of the functions that harness and program share
        self.bindings: dict[str, list[dict]] = {}
        self.program: str = ""
        self.timed: Timed | None = None
        self.sets: list[list[torch.Tensor]] = []  # that timing rotates through
        self.expected: list[list[torch.Tensor]] = []
        self.raised: list[bool | None] = []  # of each set of timed inputs, by a guard
        self.outputs: list[Guarded] = []
        self.baseline: Timed | None = None
        self._timer: Any = None
        self.random = random.Random()
        if device == "cuda":
            # Heavy on purpose: what the first generated module will import, and the CUDA context.
            torch.empty(1, device="cuda")
            try:
                import quack.epilogue.frontend
                import quack.gemm_runtime.host  # noqa: F401
            except ImportError:
                pass  # the cpp back end needs neither

    def warm(self, request: dict) -> dict:
        """{name, uuid, total_bytes, capability, events_ms: what CUDA events add to a time}; the imports are done once
        this is answered."""
        if self.device != "cuda":
            return {"name": "cpu", "uuid": None, "total_bytes": 0, "capability": None, "events_ms": 0.0}
        p = torch.cuda.get_device_properties(0)
        Snapshot()
        overhead = self._clock().overhead()  # loads CUPTI too, which the first trial would wait for
        return {
            "name": p.name,
            "uuid": str(getattr(p, "uuid", "")) or None,
            "total_bytes": p.total_memory,
            "capability": [p.major, p.minor],
            "events_ms": overhead,
        }

    def open(self, request: dict) -> dict:
        """Take up a session: its graph, and the module's own tensors from shared memory."""
        self.close({})
        self.graph = OpGraph.from_json(request["graph"])
        if request.get("own"):
            self.own = shared_tensors.read(shared_tensors.Region.from_json(request["own"]), device=self.device)
        return {}

    def close(self, request: dict) -> dict:
        self.unload()
        self.baseline = None
        self.graph, self.own, self.references, self.reference_bytes = None, {}, {}, 0
        self._empty()
        return {}

    def unload(self) -> None:
        self.run, self.timed, self.expected, self.outputs, self.sets = None, None, [], [], []
        self.module, self.whole = (None, None), None

    def _empty(self) -> None:
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _clock(self) -> Any:
        if self._timer is None:
            if self.device == "cuda":
                from engine.evaluate.timing.samples import Timer

                self._timer = Timer()
            else:
                self._timer = HostTimer()
        return self._timer

    # ---- references ----

    def keep(self, request: dict) -> dict:
        """Hold the module's outputs of (family, seed) on the GPU while there is room. {kept}"""
        region = shared_tensors.Region.from_json(request["reference"])
        wanted = shared_tensors.read(region, device=self.device)
        need = sum(w.numel() * w.element_size() for w in wanted.values())
        key = (request["family"], request["seed"])
        kept = self.reference_bytes + need <= KEEP_BYTES or not self.references
        if kept:
            self.reference_bytes += need
            self.references[key] = [wanted[n] for n in self.graph.outputs]
        return {"kept": kept}

    def _wanted(self, request: dict, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """What is right, in the order of the program's results."""
        if request.get("ideal"):
            with torch.device(self.device):
                return oracle.run(checked(self.program), inputs, exact=True)
        if request.get("reference"):
            found = shared_tensors.read(shared_tensors.Region.from_json(request["reference"]), device=self.device)
        else:
            held = self.references[(request["family"], request["seed"])]
            found = dict(zip(self.graph.outputs, held, strict=True))
        return [found[b["tensor"]] for b in self.bindings["outputs"]]

    # ---- the program ----

    def load(self, request: dict) -> dict:
        """Import a generated module and load its artifact. {seconds}"""
        started = time.perf_counter()
        self.unload()
        self._empty()
        self.bindings = {"inputs": request["inputs"], "outputs": request["outputs"]}
        self.program = request.get("program", "")
        self.snapshot = Snapshot()
        if request.get("placed"):  # the module as a whole, with programs in its regions
            self.whole = Assembled(self.graph, request["placed"], self.device, request["cls"])
            self.bindings, self.run = {"inputs": self.whole.inputs, "outputs": self.whole.outputs}, self.whole.run
        else:
            self.module = import_generated(request["path"]), request.get("artifact")
            self.run = self.module[0].load(self.module[1])
        return {"seconds": time.perf_counter() - started}

    def _values(self, family: str, seed: int) -> dict[str, torch.Tensor]:
        """Every tensor of the graph that has values in this family."""
        values = dict(self.own)
        if family != "own":
            values.update(data.fill_graph(self.graph, family, seed, self.device))
        return values

    def _inputs(self, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        missing = sorted({b["tensor"] for b in self.bindings["inputs"]} - set(values))
        if missing:
            raise ValueError(f"there are no values for {', '.join(missing)}")
        return [bound(b, values[b["tensor"]]).contiguous() for b in self.bindings["inputs"]]

    def _outputs(self) -> list[Guarded]:
        if not self.outputs:
            self.outputs = [
                Guarded(tuple(b["shape"]), data.torch_dtype(b["dtype"]), self.device) for b in self.bindings["outputs"]
            ]
        return self.outputs

    def _call(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """One call on poisoned outputs, which it gives back once the GPU is done."""
        outputs = self._outputs()
        for o in outputs:
            o.poison()
        if self.whole is None:
            self.run(inputs, [o.tensor for o in outputs])
        elif wrong := self.whole.watched(inputs, [o.tensor for o in outputs]):
            raise Wrong(*wrong)
        self._sync()
        return [o.tensor for o in outputs]

    def check(self, request: dict) -> dict:
        """One round. {results: [{error, max_error, unexpected, elements}], repeats, seconds}, or {wrong, message}.

        `repeats`: whether the same inputs gave the same bits twice; with `repeatable` anything else is wrong.
        """
        started = time.perf_counter()
        values = self._values(request["family"], request["seed"])
        # The module's own tensors are the next round's too: the program gets copies of whatever is kept.
        inputs = [x.clone() for x in self._inputs(values)]
        before = [x.clone() for x in inputs]
        first = [t.clone() for t in self._call(inputs)]
        self._check_writes(inputs, before)
        second = self._call(inputs)
        self._check_writes(inputs, before)
        repeats = all(same_bits(a, b) for a, b in zip(first, second, strict=True))
        if not repeats and request.get("repeatable", True):
            raise Wrong("unsteady", "the same inputs gave other bits the second time")
        wanted = self._wanted(request, before)
        found = []
        for b, out, want in zip(self.bindings["outputs"], first, wanted, strict=True):
            if b.get("transposed"):
                out = out.transpose(-2, -1)
            c: Comparison = compare(out.reshape(want.shape), want)
            found.append({**vars(c), "error": finite(c.error), "max_error": finite(c.max_error)})
        answer = {"results": found, "repeats": repeats, "seconds": time.perf_counter() - started}
        if request.get("ideal") and max(c["error"] for c in found) > request.get("tolerance", 1e30):
            answer["rounded"] = self._rounded(before, wanted)
        return answer

    def _rounded(self, inputs: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[dict]:
        """What the class's rounding alone makes of the program: its meaning, rounded as the hardware rounds."""
        with torch.device(self.device):
            outs = oracle.run(checked(self.program), inputs)
        errors = [compare(out.reshape(want.shape), want) for out, want in zip(outs, wanted, strict=True)]
        return [{"error": c.error, "max_error": c.max_error, "unexpected": c.unexpected} for c in errors]

    def _check_writes(self, inputs: list[torch.Tensor], before: list[torch.Tensor]) -> None:
        found = wrong_writes(self._outputs(), inputs, before)
        if found:
            raise Wrong(*found)

    # ---- time ----

    def _sets(self, seed: int) -> list[dict[str, torch.Tensor]]:
        """Fresh normal inputs over the module's own parameters, as many sets as a quarter of what is free holds."""
        base = self._values("normal", seed) if not self.own else dict(self.own)
        size = sum(t.bytes for t in self.graph.tensors.values() if t.kind == "input")
        free = torch.cuda.mem_get_info()[0] if self.device == "cuda" else 4 << 30
        count = max(1, min(BUFFERS, int(free / 4 / max(size, 1))))
        fresh = [data.fill_graph(self.graph, "normal", seed + i, self.device, only="input") for i in range(count)]
        return [{**base, **f} for f in fresh]

    def time_open(self, request: dict) -> dict:
        """Get the loaded program ready to be timed: its sets of inputs, and what each must give. {buffers}"""
        self._empty()
        sets, seen = [], {}
        for values in self._sets(request["seed"]):
            # A tensor that is the same in every set is bound once: what is prepacked knows it by its identity.
            row = []
            for b in self.bindings["inputs"]:
                value = values[b["tensor"]]
                key = (b["name"], value.data_ptr())
                if key not in seen:
                    seen[key] = bound(b, value).contiguous()
                row.append(seen[key])
            sets.append(row)
        self.sets, self.expected, self.raised = sets, [], []
        for row in sets:
            self.expected.append([t.clone() for t in self._call(row)])
            self.raised.append(raised(self.whole.runs if self.whole else [self.run]))
        outputs = [o.tensor for o in self._outputs()]
        self.timed = Timed(lambda at: self.run(sets[at], outputs), len(sets), self._clock())
        return {"buffers": len(sets)}

    def time_sample(self, request: dict) -> dict:
        """One call, timed as the baseline is: {ms, call_ms, checked}. A random tenth of the results is held against
        an untimed run on the same inputs; the outputs are poisoned before every call."""
        for o in self._outputs():
            o.poison()
        at, ms = self.timed.sample()
        check = self.random.random() < CHECKED or request.get("check", False)
        if check:
            self._check_timed(at, request.get("repeatable", True))
        return {"ms": ms, "call_ms": self.timed.call_time(), "checked": check}

    def _check_timed(self, at: int, repeatable: bool) -> None:
        if self.whole is not None:
            self.whole.deliver()
        for out, want in zip(self._outputs(), self.expected[at], strict=True):
            if not out.intact():
                raise Wrong("out_of_bounds", "the program wrote outside of a result while it was timed")
            if same_bits(out.tensor, want):
                continue
            if repeatable or not compare(out.tensor, want).error < 1e-3:  # NaN fails too
                raise Wrong("timed_differs", "a timed call gave another result than an untimed one on the same inputs")

    def time_close(self, request: dict) -> dict:
        self.timed, self.sets, self.expected = None, [], []
        return {}

    def time_parts(self, request: dict) -> dict:
        """Of a module with regions that is being timed: {region_ms, covered_ms} of its programs alone, and PyTorch's
        region_eager_ms."""
        return self.whole.times(self.sets[0], self._clock())

    # ---- who did it ----

    def integrity(self, request: dict) -> dict:
        """Of a program that is being timed: {silent: {launches, same, unwritten, elements} or {left_out}, kernels:
        CUPTI's list of one call or None with `no_kernels`: why, busy_us, patched: functions that were replaced, guard:
        of each set of timed inputs whether it tripped a guard, None where there is none}."""
        outputs = self._outputs()
        quiet = self.whole.silenced() if self.whole else silenced(*self.module)
        return {
            "patched": self.snapshot.changed(),
            "guard": self.raised,
            **recorded(lambda: self.run(self.sets[0], [o.tensor for o in outputs]), self.device),
            "silent": probed(quiet, self.sets[0], outputs, self.expected[0]),
        }

    # ---- PyTorch on a program's graph ----

    def baseline_open(self, request: dict) -> dict:
        sets, (_, cls) = self._sets(request["seed"]), parts(request["name"])

        def call(at: int) -> None:
            with permitted(cls), casting(cls, self.device):
                eager_graph.run(self.graph, sets[at])

        self.baseline = Timed(call, len(sets), self._clock())
        for at in range(len(sets)):
            call(at)
        self._sync()
        return {}

    def baseline_sample(self, request: dict) -> dict:
        _, ms = self.baseline.sample()
        return {"ms": ms, "call_ms": self.baseline.call_time()}

    def baseline_close(self, request: dict) -> dict:
        self.baseline = None
        self._empty()
        return {}


REQUESTS = (
    "warm", "open", "close", "keep", "load", "check", "time_open", "time_sample", "time_parts", "integrity",
    "time_close", "baseline_open", "baseline_sample", "baseline_close",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    torch.set_grad_enabled(False)
    worker = Worker(parser.parse_args().device)
    jsonprocess.serve({name: answered(getattr(worker, name)) for name in REQUESTS})


if __name__ == "__main__":
    main()
