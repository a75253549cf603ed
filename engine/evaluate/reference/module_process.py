"""The engine's side of the reference: the confined pasted module, which gives the correct results and PyTorch's speed.
It never loads a candidate, and a candidate's worker never loads it; results pass in shared memory.

    with Reference(problem, "cpu") as ref:
        own = ref.inputs_own()                          # Region: the module's inputs and parameters
        right = ref.compute("normal", seed=7, rows=32)  # Outputs: a Region in float64 (or float32), and which
        mine = ref.pytorch_error("normal", 7, "f16", rows=32)

Every answer of the child is checked here: shapes against the graph, numbers for being numbers. If the child dies or
hangs, the call raises TrialError and the next call starts a fresh child.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

from engine import sandbox
from engine.devices import Problem, SessionRefused, TrialError
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness.tolerance import PyTorchError
from engine.evaluate.shared_tensors import Region, Slot, layout
from engine.sandbox.process import Sandbox, SandboxEnded, default_memory
from engine.trace import refuse
from sol.graph import DTYPE_BYTES, OpGraph

PRELOAD = ("torch", "engine.evaluate.reference.module_main")
ON_A_GPU = (*PRELOAD, "engine.evaluate.reference.compile_rehearsal")  # where torch.compile is timed
STATE = ("parameter", "buffer", "constant")
LATER_BYTES = 1 << 28  # of the module's own tensors, from which on they reach the host's memory only if asked for
NARROW_BYTES = 4 << 30  # of results in float64, above which they lie in memory as f32
COMPILE_SECONDS = 400.0  # max-autotune tries every kernel that it has


@dataclass(frozen=True)
class Outputs:
    """The module's outputs, by the names of the graph's outputs. `precision`: f64 | f32 (strict: no TF32) | as written
    (a module of 16-bit types that could not be widened). `rows`: None if all rows were computed."""

    region: Region
    precision: str
    rows: int | None
    seconds: float


@dataclass(frozen=True)
class Sample:
    """One timed call: device milliseconds (CUDA events, cold L2), and host wall milliseconds to its end."""

    ms: float
    call_ms: float


def warm(*, gpu: bool = False, visible: str = "", local_user: bool = False, many: int = 1) -> None:
    """Prepare children for the next `many` References in the background (it saves the 2 s of importing torch)."""
    sandbox.warm(gpu=gpu, visible=visible, local_user=local_user, preload=ON_A_GPU if gpu else PRELOAD, many=many)


def result_types(graph: OpGraph) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each result in memory: in float64, but results of gigabytes that are no wider than f32 in f32,
    whose rounding (6e-8) is a thirtieth of what any comparison allows."""
    outputs = {n: graph.tensors[n] for n in graph.outputs}
    huge = 8 * sum(t.elements for t in outputs.values()) > NARROW_BYTES
    types = {n: "f32" if huge and t.dtype in ("f32", "f16", "bf16") else "f64" for n, t in outputs.items()}
    return {n: (t.shape, types[n] if DTYPE_BYTES[t.dtype] <= 8 else "c128") for n, t in outputs.items()}


class Reference:
    """One pasted module in one confined process on `device` (cpu | cuda). Calls block; not for several threads.

    `visible`: which of several GPUs (engine.sandbox.process.Sandbox). `host_clock`: on a CPU, time calls by the wall
    clock, for tests of the rules; no measurement uses it. Raises
    SessionRefused if the module cannot be used at all (start), TrialError("validate" | "measure", ...) if a later call
    fails.
    """

    def __init__(
        self,
        problem: Problem,
        device: str = "cpu",
        *,
        visible: str = "",
        local_user: bool = False,
        memory_bytes: int | None = None,
        cancelled: Callable[[], bool] | None = None,
        timeout: float = 120.0,
        host_clock: bool = False,
    ):
        if problem.source_kind != "module":
            raise ValueError("only a pasted module has a reference process; a program is its own")
        self.problem, self.device, self.visible, self.local_user = problem, device, visible, local_user
        self.memory_bytes = memory_bytes or default_memory()
        self.cancelled, self.timeout, self.host_clock = cancelled, timeout, host_clock
        self._box: Sandbox | None = None
        self._own: Region | None = None
        self.own_size, self.own_waits = 0, False  # bytes of a block for the module's own tensors; not on the host yet
        self._results: dict[str, Slot] = {}
        self._result_size = 0
        self.init: list | None = None  # arguments of the module's constructor, if they are plain
        self.order: list[dict] = []  # of forward: {"tensor": name} | {"value": v}
        self.lost = 0  # number of replaced children
        self.compile_seconds = COMPILE_SECONDS
        self.block: object = None  # of whom the child has the block in which it lays its results

    # ---- life ----

    def start(self) -> Reference:
        """Start the child and load the module. 0.1 s warm, 2 s cold, plus the time that the module needs to build
        itself."""
        if self._box is not None and self._box.alive:
            return self
        self.close()
        graph = self.problem.graph
        own = {t.name: (t.shape, t.dtype) for t in graph.tensors.values() if t.name in graph.inputs or t.kind in STATE}
        own_slots, own_size = layout(own)
        # Where forward writes them, those of the beginning must be copied at once.
        own_waits = own_size >= LATER_BYTES and not graph.writes
        self._results, self._result_size = layout(result_types(graph))
        need = own_size + self._result_size
        if need > self.memory_bytes:
            raise SessionRefused(
                "memory_limit",
                f"The module's tensors need {need / 1e9:.1f} GB; this machine allows {self.memory_bytes / 1e9:.1f} GB: "
                "make its inputs or parameters smaller.",
            )
        try:
            self._box = box = sandbox.take(
                gpu=self.device == "cuda",
                visible=self.visible,
                local_user=self.local_user,
                preload=ON_A_GPU if self.device == "cuda" else PRELOAD,
                memory_bytes=self.memory_bytes,
                cancelled=self.cancelled,
            )
            box.allocate("own", own_size)
            box.allocate("result", self._result_size)
            answer = box.request(
                {
                    "entry": "engine.evaluate.reference.module_main",
                    "do": "open",
                    "source": self.problem.source,
                    "graph": graph.to_json(),
                    "device": self.device,
                    "seed": self.problem.seed,
                    "memory": self.memory_bytes,
                    "host_clock": self.host_clock,
                    "own_waits": own_waits,
                    "own_fd": box.region_fd("own"),
                    "own_size": own_size,
                    "own_slots": {n: vars(s) for n, s in own_slots.items()},
                    "result_fd": box.region_fd("result"),
                    "result_size": self._result_size,
                    "result_slots": {n: vars(s) for n, s in self._results.items()},
                },
                timeout=self.timeout,
                cancelled=self.cancelled,
            )
        except SandboxEnded as e:
            self.close()
            raise refuse(e) from None
        error = answer.get("error")
        shared = answer.get("ok", {}).get("shared") if isinstance(answer.get("ok"), dict) else None
        if isinstance(error, dict) or not isinstance(shared, list):
            self.close()
            error = error if isinstance(error, dict) else {"code": "garbled", "reason": "The module gave no answer."}
            line = error.get("line")
            reason = str(error.get("reason"))[:1000]
            raise SessionRefused(str(error.get("code"))[:40], reason, line if isinstance(line, int) else None)
        ok = answer["ok"]
        self.init, self.order = ok.get("init"), _order(ok.get("order"), graph.inputs)
        missing = [n for n in own_slots if n not in shared]
        needed = [n for n in missing if graph.tensors[n].kind != "constant"]
        if needed:
            self.close()
            raise SessionRefused(
                "unsteady", f"The module has no {graph.tensors[needed[0]].path or needed[0]!r} any more."
            )
        self._own = self._region("own", own_size, {n: s for n, s in own_slots.items() if n in shared})
        self.own_size, self.own_waits = own_size, own_waits
        return self

    def _region(self, name: str, size: int, slots: dict[str, Slot]) -> Region:
        assert self._box is not None
        return Region(f"/proc/{os.getpid()}/fd/{self._box.region_fd(name)}", size, slots)

    def close(self) -> None:
        """End the child. Regions can no longer be opened."""
        if self._box is not None:
            self._box.close()
        self._box, self._own, self.block = None, None, None

    def __enter__(self) -> Reference:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """The output of the module, bounded."""
        return self._box.log if self._box is not None else ""

    def _ask(self, step: str, do: str, timeout: float | None = None, **arguments: object) -> dict:
        if self._box is None or not self._box.alive:
            self.lost += self._box is not None
            try:
                self.start()
            except SessionRefused as e:
                raise TrialError(step, f"reference_{e.code}", f"PyTorch's own run was lost. {e.reason}") from None
            self.to_all_cores()
        assert self._box is not None
        message = {"entry": "engine.evaluate.reference.module_main", "do": do, "with": arguments}
        try:
            answer = self._box.request(message, timeout=timeout or self.timeout, cancelled=self.cancelled)
        except SandboxEnded as e:
            why = refuse(e)
            raise TrialError(step, f"reference_{e.code}", f"PyTorch's own run was lost. {why.reason}", e.log) from None
        error, ok = answer.get("error"), answer.get("ok")
        if isinstance(error, dict):
            raise TrialError(step, str(error.get("code"))[:40], str(error.get("reason"))[:1000])
        if not isinstance(ok, dict):
            raise TrialError(step, "garbled", "The process that holds the module gave no answer.")
        return ok

    def to_all_cores(self) -> None:
        """Its child is timed from now on (engine.cores)."""
        if self._box is not None:
            self._box.to_all_cores()

    def trim(self, *, hard: bool = False) -> None:
        """Let the child give back the memory that only its last request needed, and the block; `hard`: and close the
        open baselines."""
        if self._box is not None and self._box.alive:
            self.block = None
            self._ask("measure", "trim", hard=hard)

    @property
    def result_bytes(self) -> int:
        """Of a block for the results of `compute`."""
        return self._result_size

    def adopt(self, fd: int, owner: object) -> None:
        """Let the child lay its results in a block (engine.evaluate.shared_memory) that `owner` made, instead of in
        memory of the host. Raises TrialError if it cannot."""
        self.start()
        self._box.door.give(fd)
        self._ask("validate", "adopt", door=self._box.door.inside, size=self._result_size)
        self.block = owner

    # ---- correct results ----

    def inputs_own(self) -> Region:
        """The module's own inputs, parameters, buffers and constants by their names in the graph, valid until `close`
        (or until the child is replaced: ask again). Constants that export created are missing."""
        self.start()
        if self.own_waits:
            self._ask("validate", "own")
            self.own_waits = False
        assert self._own is not None
        return self._own

    def lay_own(self, fd: int) -> dict[str, Slot]:
        """Let the child copy what `inputs_own` has into a block of `own_size` bytes, whose descriptor this is: a first
        copy of gigabytes to the host's memory takes seconds. Returns where they lie. Raises TrialError."""
        self.start()
        self._box.door.give(fd)
        self._ask("validate", "own", door=self._box.door.inside, size=self.own_size)
        assert self._own is not None
        return self._own.tensors

    def compute(
        self, family: str, seed: int, rows: int | None = None, timeout: float | None = None, *, to_host: bool = False
    ) -> Outputs:
        """The module's outputs on a family of engine.evaluate.correctness.inputs, in float64 if memory (and, on a CPU,
        time) allows, else in strict float32. Valid until the next `compute`.

        `rows`: only the leading rows of the inputs that have them. Raises TrialError code rows_refused for a module
        that cannot compute them; then only the full size works. `to_host`: in memory of the host, which every process
        of ours can read, even where a worker gave a block.
        """
        if family not in data.EVERY:
            raise ValueError(f"unknown family {family!r}")
        ok = self._ask("validate", "compute", timeout, family=family, seed=seed, rows=rows, to_host=to_host)
        slots, listing = {}, ok.get("outputs")
        for name in self.problem.graph.outputs:
            one = listing.get(name) if isinstance(listing, dict) else None
            slots[name] = self._slot(name, one if isinstance(one, dict) else {}, rows)
        precision = ok.get("precision")
        precision = precision if precision in ("f64", "f32", "as written") else "f32"
        if ok.get("in_block") is True and self.block is not None and not to_host:
            region = Region("", self._result_size, slots)
        else:
            region = self._region("result", self._result_size, slots)
        return Outputs(region, precision, rows, _number(ok.get("seconds")))

    def _slot(self, name: str, one: dict, rows: int | None) -> Slot:
        full = self.problem.graph.tensors[name].shape
        shape, dtype = one.get("shape"), one.get("dtype")
        good = isinstance(shape, list) and all(isinstance(d, int) and d >= 0 for d in shape) and dtype in DTYPE_BYTES
        if good:
            slot = Slot(self._results[name].offset, tuple(shape), dtype)
            fits = slot.shape[1:] == full[1:] and (slot.shape == full if rows is None else slot.shape[:1] <= full[:1])
            if fits and slot.bytes <= self._results[name].bytes:
                return slot
        raise TrialError("validate", "garbled", f"The module answered no tensor of the right shape for {name}.")

    def pytorch_error(
        self, family: str, seed: int, cls: str, rows: int | None = None, *, apart: bool = False
    ) -> PyTorchError | None:
        """PyTorch's error in class f32 | tf32 | f16 | bf16 | fp8 on the same data. On CUDA: TF32 allowed, or autocast.
        On a CPU: autocast for f16 and bf16, and for tf32 each product's operands truncated as on Hopper. For fp8, which
        PyTorch does not have: see engine.evaluate.reference.pytorch_classes. `apart`: compare the parts of a family
        (engine.evaluate.correctness.operands.parts), as for raw kernels. None where the reference itself is in that
        class, for want of memory or time: PyTorch differs from it by nothing, which is no measure of a program."""
        ok = self._ask("validate", "error", family=family, seed=seed, cls=cls, rows=rows, apart=apart)
        if ok.get("precision") == "as written" or (ok.get("precision"), cls) == ("f32", "f32"):
            return None
        unexpected = ok.get("unexpected")
        return PyTorchError(
            _number(ok.get("error")), _number(ok.get("max_error")), unexpected if isinstance(unexpected, int) else 0
        )

    # ---- PyTorch's speed ----

    def compile(self, name: str, seconds: float | None = None) -> None:
        """Compile the module for a baseline of torch.compile, on the cores of builds, for at most so many seconds; the
        same limit holds for what `baseline_open` compiles. Runs nothing on a GPU. Raises TrialError."""
        self.compile_seconds = seconds or COMPILE_SECONDS
        if self._box is not None:
            self._box.to_all_cores(quiet=False)
        try:
            self._ask("measure", "compile", self.compile_seconds, name=name)
        finally:
            self.to_all_cores()

    def baseline_open(self, name: str, seed: int = 0, beside: str = "") -> tuple[str, str]:
        """Prepare a baseline (baseline_cache.NAMES) for timing, CUDA only, and another one `beside` it. Returns the
        precision class of the first, and a note."""
        limit = self.compile_seconds if name.startswith("compile") else None
        ok = self._ask("measure", "baseline_open", limit, name=name, seed=seed, beside=beside)
        return str(ok.get("cls"))[:8], str(ok.get("note"))[:200]

    def baseline_sample(self, beside: bool = False) -> Sample:
        """Time one call of the baseline or of the one `beside` it. Between two of these the engine times the candidate:
        A B A B."""
        ok = self._ask("measure", "baseline_sample", timeout=60.0, beside=beside)
        sample = Sample(_number(ok.get("ms")), _number(ok.get("call_ms")))
        if sample.ms <= 0:
            raise TrialError("measure", "garbled", "The process that holds the module gave no time.")
        return sample

    # ---- timed from outside (engine.evaluate.timing.outside) ----

    def clock_take(self, block: int, page: int, plan: dict) -> None:
        """Give the child its memory: both descriptors, and their meaning."""
        self.start()
        for fd in (block, page):
            self._box.door.give(fd)
        self._clock("take", door=self._box.door.inside, plan=plan)

    def clock_rest(self, long: bool) -> None:
        """From now on a batch calls nothing (engine.evaluate.timing.outside.runner)."""
        self._clock("rest", long=long)

    def clock_open(self, name: str, calls: int, mode: str) -> dict:
        """From now on a batch is `calls` calls of a baseline (baseline_cache.NAMES): {mode, why, cls, note}."""
        limit = COMPILE_SECONDS if name.startswith("compile") else None
        return self._clock("open", limit, name=name, calls=calls, mode=mode)

    def clock_serve(self, timeout: float) -> dict:
        """Blocks until the engine stops it by the page."""
        return self._clock("serve", timeout)

    def clock_values(self, seed: int) -> None:
        """The first slot's inputs are the data of the next `compute` and `pytorch_error` of normal inputs with
        `seed`."""
        self._clock("values", seed=seed)

    def clock_close(self) -> None:
        """Give the memory back."""
        if self._box is not None and self._box.alive:
            self._clock("close")

    def _clock(self, ask: str, timeout: float | None = None, **arguments: object) -> dict:
        return self._ask("measure", "clock", timeout, ask=ask, **arguments)


def _order(order: object, inputs: list[str]) -> list[dict]:
    """The arguments of forward from the child, or only the graph's inputs if its answer is invalid."""
    good = isinstance(order, list) and all(isinstance(a, dict) for a in order)
    if good and [a["tensor"] for a in order if "tensor" in a] == list(inputs):
        return order
    return [{"tensor": n} for n in inputs]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
