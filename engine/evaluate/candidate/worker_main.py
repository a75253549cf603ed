"""The candidate's process, which owns the GPU. It answers JSON lines over pipes.

    python -m engine.start engine.evaluate.candidate.worker_main --device cuda|cpu

It runs generated programs (our compiler's output) on data that it generates (engine.evaluate.correctness.inputs: the
same bits as in the process of the pasted module), compares their results with references that stay on the GPU for the
whole session, and times them one call at a time, so that the engine can alternate them with the baseline.

A CUDA error makes the context of a process unusable; then the answer says `lost` and the engine starts another process.
With `--device cpu` the same rules apply to CPU tensors, for the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable

import torch

from engine import door, jsonprocess
from engine.evaluate import shared_memory, shared_tensors
from engine.evaluate.candidate.faults import Wrong, answered
from engine.evaluate.candidate.guarded_outputs import first_writes
from engine.evaluate.candidate.loaded_program import LoadedProgram, Timed, Values
from engine.evaluate.candidate.region_program import compile_rest
from engine.evaluate.compiled_rest import CompiledRest
from engine.evaluate.correctness import inputs as data
from engine.evaluate.integrity.process import judge_main
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.evaluate.reference import eager_graph, first_use
from engine.evaluate.reference.baseline_cache import parts
from engine.evaluate.reference.pytorch_classes import casting, permitted
from engine.evaluate.timing import cupti
from engine.evaluate.timing.samples import HostTimer, Timer, clock, input_sets
from sol.graph import OpGraph

KEEP_BYTES = 8 << 30  # of references on the GPU


class Worker:
    """One problem's data and the loaded programs, by slot. Every public method of REQUESTS is a request by its name;
    those of PROGRAMS go to the program in the slot that the request names."""

    def __init__(self, device: str):
        self.device = device
        self.graph: OpGraph | None = None
        self.own: Values = {}
        self.references: dict[tuple[str, int], list[torch.Tensor]] = {}
        self.reference_bytes = 0
        self.block: shared_memory.Block | None = None  # in which the module's process lays its results
        self.programs: dict[str, LoadedProgram] = {}
        self.rest = CompiledRest()
        self.baseline: Timed | None = None
        self._sets: tuple[tuple[int, str], list[Values]] | None = None  # with the seed and family of the timing
        self._timer: Timer | HostTimer | None = None
        if device == "cuda":
            # Import now what the first generated module needs, and create the CUDA context.
            torch.empty(1, device="cuda")
            try:
                import quack.epilogue.frontend
                import quack.gemm_runtime.host  # noqa: F401
            except ImportError:
                pass  # the cpp back end needs neither

    def warm(self, request: dict) -> dict:
        """{name, uuid, total_bytes, capability}. The imports and all first uses are done once this is answered."""
        if self.device != "cuda":
            return {"name": "cpu", "uuid": None, "total_bytes": 0, "capability": None}
        p = torch.cuda.get_device_properties(0)
        Snapshot()
        with contextlib.suppress(Exception):  # a container may have CUDA without CUPTI
            cupti.record(self.clock().flush)  # loads it, so that the first trial need not wait for it
        first_use.of_rounds(self.device)
        first_writes(self.device)
        return {
            "name": p.name,
            "uuid": str(getattr(p, "uuid", "")) or None,
            "total_bytes": p.total_memory,
            "capability": [p.major, p.minor],
        }

    def open(self, request: dict) -> dict:
        """Start a session: its graph, and the module's own tensors from shared memory."""
        self.close({})
        self.graph = OpGraph.from_json(request["graph"])
        if request.get("own"):
            self.own = shared_tensors.read(shared_tensors.Region.from_json(request["own"]), device=self.device)
        return {}

    def take_own(self, request: dict) -> dict:
        """The module's own tensors from the block, which the module's process may write to and which is dropped."""
        views = self._results(request["own"])
        self.own = {name: tensor.clone() for name, tensor in views.items()}
        self.settle()
        del views
        self.block = None
        self._empty()
        return {}

    def close(self, request: dict) -> dict:
        self.programs, self.baseline, self._sets = {}, None, None
        self.graph, self.own, self.references, self.reference_bytes, self.block = None, {}, {}, 0, None
        self.rest = CompiledRest()
        self._empty()
        return {}

    def share(self, request: dict) -> dict:
        """Make a block of `size` bytes for the module's results, and send its descriptor through the door."""
        self.block = None
        self._empty()
        try:
            self.block = shared_memory.create(request["size"], self.device)
            with shared_memory.door() as way:
                door.give(way, self.block.fd, shared_memory.SECONDS)
        except shared_memory.NotShared as e:
            raise Wrong("not_shared", str(e)) from None
        self.block.shared()
        return {}

    def _results(self, raw: dict) -> Values:
        """The results at a place: in the block (then valid until the next ones come), or copied from the host."""
        region = shared_tensors.Region.from_json(raw)
        if region.path:
            return shared_tensors.read(region, device=self.device)
        return {name: self.block.tensor(slot) for name, slot in region.tensors.items()}

    def _empty(self) -> None:
        if self.device == "cuda":
            torch.cuda.empty_cache()

    # ---- data for programs (engine.evaluate.candidate.loaded_program.Held) ----

    def settle(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def clock(self) -> Timer | HostTimer:
        self._timer = self._timer or clock(self.device)
        return self._timer

    def values(self, family: str, seed: int) -> Values:
        """Every tensor of the graph that has values in this family."""
        values = dict(self.own)
        if family != "own":
            values.update(data.fill_graph(self.graph, family, seed, self.device))
        return values

    def fresh_sets(self, seed: int, family: str = "normal") -> list[Values]:
        """Fresh inputs of a family with the module's own parameters, as many sets as fit, with their results, in a
        quarter of the free memory. Programs that are timed beside each other share them."""
        if self._sets is None or self._sets[0] != (seed, family):
            self._sets = None
            self._empty()
            base = self.values("normal", seed) if not self.own else dict(self.own)
            size = data.input_bytes(self.graph)
            results = sum(self.graph.tensors[n].bytes for n in self.graph.outputs)  # of which one is kept for each set
            free = torch.cuda.mem_get_info()[0] if self.device == "cuda" else 4 << 30
            count = max(1, min(input_sets(size), int(free / 4 / max(size + results, 1))))
            fresh = [data.fill_graph(self.graph, family, seed + i, self.device, only="input") for i in range(count)]
            self._sets = (seed, family), [{**base, **f} for f in fresh]
        return self._sets[1]

    def right(self, request: dict) -> Values:
        """The module's correct results, by the names of the graph's outputs."""
        if request.get("reference"):
            return self._results(request["reference"])
        outputs = self.references[(request["family"], request["seed"])]
        return dict(zip(self.graph.outputs, outputs, strict=True))

    def keep(self, request: dict) -> dict:
        """Keep the module's outputs of (family, seed) on the GPU while there is room. {kept}"""
        tensors, in_block = self._results(request["reference"]), not request["reference"]["path"]
        need = sum(w.numel() * w.element_size() for w in tensors.values())
        key = (request["family"], request["seed"])
        # Without a block even one that is too large stays, because to read it again would take seconds.
        fits = self.reference_bytes + need <= KEEP_BYTES or not (self.references or in_block)
        if fits:
            self.reference_bytes += need
            self.references[key] = [tensors[n].clone() if in_block else tensors[n] for n in self.graph.outputs]
        return {"kept": fits}

    def trim(self, request: dict) -> dict:
        """Give back the memory that no later request needs, and the block."""
        self.block = None
        self._forget_sets()
        self._empty()
        return {}

    # ---- programs ----

    def compile_rest(self, request: dict) -> dict:
        """Compile what stays PyTorch beside the programs of `placed`, for a later `load` with `rest`. It runs nothing
        on the GPU. {runs, operations, seconds, refused}"""
        return vars(compile_rest(self.graph, request["placed"], self.device, request["cls"], self.rest))

    def load(self, request: dict) -> dict:
        """Import a generated module and load its artifact into a slot. {seconds}"""
        started = time.perf_counter()
        self.unload(request)
        self.programs[request["slot"]] = LoadedProgram(self, request)
        return {"seconds": time.perf_counter() - started}

    def unload(self, request: dict) -> dict:
        self.programs.pop(request["slot"], None)
        self._forget_sets()
        self._empty()
        return {}

    def _forget_sets(self) -> None:
        """Drop the sets of inputs after the last timing that uses them."""
        if self.baseline is None and not any(p.timed for p in self.programs.values()):
            self._sets = None

    def of_program(self, name: str) -> Callable[[dict], dict]:
        def ask(request: dict) -> dict:
            answer = getattr(self.programs[request["slot"]], name)(request)
            if name == "time_close":
                self._forget_sets()
            return answer

        return ask

    # ---- PyTorch on a program's graph ----

    def baseline_open(self, request: dict) -> dict:
        sets, (_, cls) = self.fresh_sets(request["seed"]), parts(request["name"])

        def call(at: int) -> None:
            with permitted(cls), casting(cls, self.device):
                eager_graph.run(self.graph, sets[at])

        self.baseline = Timed(call, len(sets), self.clock())
        for at in range(len(sets)):
            call(at)
        self.settle()
        return {}

    def baseline_sample(self, request: dict) -> dict:
        _, ms = self.baseline.sample()
        return {"ms": ms, "call_ms": self.baseline.call_time(ms)}


REQUESTS = (
    "warm", "open", "take_own", "close", "share", "keep", "trim", "compile_rest", "load", "unload", "baseline_open",
    "baseline_sample",
)  # fmt: skip
PROGRAMS = ("check", "time_open", "time_sample", "time_parts", "integrity", "time_close")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    torch.set_grad_enabled(False)
    device = parser.parse_args().device
    worker = Worker(device)
    handlers = {name: getattr(worker, name) for name in REQUESTS} | judge_main.handlers(device)
    handlers |= {name: worker.of_program(name) for name in PROGRAMS}
    jsonprocess.serve({name: answered(work) for name, work in handlers.items()})
