"""A generated program in the candidate's process: load, run, check, time and examine it.

The process holds several of these at once only for timing programs beside each other. Needs torch; only for workers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch

from engine.build.cute_worker import import_generated
from engine.evaluate.candidate.binding import bound
from engine.evaluate.candidate.faults import Wrong, cuda_code
from engine.evaluate.candidate.guarded_outputs import Guarded, Mark, same_bits, wrong_writes
from engine.evaluate.candidate.noop_probe import silenced
from engine.evaluate.candidate.probes import probed, raised, recorded
from engine.evaluate.candidate.region_program import RegionProgram
from engine.evaluate.compiled_rest import CompiledRest
from engine.evaluate.correctness import inputs as data
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.tolerance import compare, finite
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.evaluate.timing.samples import CallTimes, HostTimer, Timer
from sol.graph import OpGraph

CHECKED = 0.1  # share of the timed outputs
TRIED = 5  # calls of each way to run a module with regions, to choose between them
Values = dict[str, torch.Tensor]


class Timed:
    """A call over sets of data, ready to be timed: candidate or baseline."""

    def __init__(self, call: Callable[[int], object], sets: int, timer: Timer | HostTimer):
        self.call, self.sets, self.timer, self.turn = call, sets, timer, 0
        self.calls = CallTimes()

    def sample(self) -> tuple[int, float]:
        """(index of the set, ms)"""
        self.turn += 1
        at = self.turn % self.sets
        return at, self.timer.sample(lambda: self.call(at))

    def call_time(self, ms: float) -> float:
        """Milliseconds of the host. `ms`: of the sample before."""
        at = self.turn % self.sets
        return self.calls.beside(ms, lambda: self.timer.call_time(lambda: self.call(at)))


class Held(Protocol):
    """The process's data of the problem (engine.evaluate.candidate.worker_main)."""

    device: str
    graph: OpGraph
    rest: CompiledRest

    def values(self, family: str, seed: int) -> Values: ...

    def fresh_sets(self, seed: int, family: str) -> list[Values]: ...

    def right(self, request: dict) -> Values: ...

    def clock(self) -> Timer | HostTimer: ...

    def settle(self) -> None: ...


class LoadedProgram:
    """`request`: path and artifact of the build, the program's text, inputs and outputs as bindings; or `placed` and
    `cls` for a module with programs in its regions, and with `rest` what stays PyTorch there is compiled."""

    def __init__(self, problem: Held, request: dict):
        self.problem, self.device = problem, problem.device
        self.program = request.get("program", "")
        self.snapshot = Snapshot()  # of the functions that harness and program share
        self.whole: RegionProgram | None = None
        self.module: tuple[Any, str | None] = (None, None)
        if request.get("placed"):
            rest = problem.rest if request.get("rest") else None
            self.whole = RegionProgram(problem.graph, request["placed"], self.device, request["cls"], rest)
            self.inputs, self.results, self.run = self.whole.inputs, self.whole.outputs, self.whole.run
        else:
            self.inputs, self.results = request["inputs"], request["outputs"]
            self.module = import_generated(Path(request["path"])), request.get("artifact")
            self.run = self.module[0].load(self.module[1])
        self.timed: Timed | None = None
        self.graphed = False  # a module with regions: whether it is timed as one CUDA graph
        self.sets: list[list[torch.Tensor]] = []  # the sets that timing rotates through
        self.expected: list[list[torch.Tensor]] = []
        self.raised: list[bool | None] = []  # for each set of timed inputs: whether a guard tripped
        self._outputs: list[Guarded] = []
        self.random = random.Random()

    @property
    def runs(self) -> Sequence[Callable]:
        """The runs that may have a guard."""
        return self.whole.runs if self.whole else [self.run]

    @property
    def outputs(self) -> list[Guarded]:
        if not self._outputs:
            self._outputs = [
                Guarded(tuple(b["shape"]), data.torch_dtype(b["dtype"]), self.device) for b in self.results
            ]
        return self._outputs

    def _call(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """One call on poisoned outputs. Returns them once the GPU is done. Raises Wrong."""
        outputs = self.outputs
        for o in outputs:
            o.poison()
        if self.whole is None:
            self.run(inputs, [o.tensor for o in outputs])
        elif wrong := self.whole.watched(inputs, [o.tensor for o in outputs]):
            raise Wrong(*wrong)
        self.problem.settle()
        return [o.tensor for o in outputs]

    # ---- correctness ----

    def check(self, request: dict) -> dict:
        """One round. {results: [{error, max_error, unexpected, elements}], repeats, tripped, seconds}. Raises Wrong.

        `repeats`: whether the same inputs gave the same bits twice; with `repeatable`, different bits are wrong.
        `tripped`: whether the guard tripped, None for a program without one.
        """
        started = time.perf_counter()
        values = self.problem.values(request["family"], request["seed"])
        # The next round uses the module's own tensors too, so the program gets copies of tensors that stay.
        before = self._bound(values)
        inputs = [x.clone() for x in before]
        first = self._call(inputs)
        self._check_writes(inputs, before)
        tripped = raised(self.runs)
        expected = self._wanted(request, before)
        rows = []
        for b, out, want in zip(self.results, first, expected, strict=True):
            if b.get("transposed"):
                out = out.transpose(-2, -1)
            c = compare(out.reshape(want.shape), want)
            rows.append({**vars(c), "error": finite(c.error), "max_error": finite(c.max_error)})
        marks = [Mark(t) for t in first]
        second = self._call(inputs)
        self._check_writes(inputs, before)
        repeats = all(mark.of(t) for mark, t in zip(marks, second, strict=True))
        if not repeats and request.get("repeatable", True):
            raise Wrong("unsteady", "the same inputs gave other bits the second time")
        answer = {"results": rows, "repeats": repeats, "tripped": tripped, "seconds": time.perf_counter() - started}
        if request.get("ideal") and max(c["error"] for c in rows) > request.get("tolerance", 1e30):
            answer["rounded"] = self._rounded(before, expected)
        return answer

    def _bound(self, values: Values) -> list[torch.Tensor]:
        missing = sorted({b["tensor"] for b in self.inputs} - set(values))
        if missing:
            raise ValueError(f"there are no values for {', '.join(missing)}")
        return [bound(b, values[b["tensor"]]).contiguous() for b in self.inputs]

    def _wanted(self, request: dict, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The correct results, in the order of the program's results."""
        if request.get("ideal"):
            with torch.device(self.device):
                return oracle.run(oracle.checked_program(self.program), inputs, exact=True)
        right = self.problem.right(request)
        return [right[b["tensor"]] for b in self.results]

    def _rounded(self, inputs: list[torch.Tensor], expected: list[torch.Tensor]) -> list[dict]:
        """The errors of the class's rounding alone: the program's meaning, rounded as the hardware rounds."""
        with torch.device(self.device):
            outs = oracle.run(oracle.checked_program(self.program), inputs)
        errors = [compare(out.reshape(want.shape), want) for out, want in zip(outs, expected, strict=True)]
        return [{"error": c.error, "max_error": c.max_error, "unexpected": c.unexpected} for c in errors]

    def _check_writes(self, inputs: list[torch.Tensor], before: list[torch.Tensor]) -> None:
        if wrong := wrong_writes(self.outputs, inputs, before):
            raise Wrong(*wrong)

    # ---- timing ----

    def time_open(self, request: dict) -> dict:
        """Prepare to time the program: its sets of inputs, and the expected result of each. {buffers}"""
        sets, seen = [], {}
        for values in self.problem.fresh_sets(request["seed"], request["family"]):
            # A tensor that is equal in every set is bound once, because prepacking identifies it by its identity.
            row = []
            for b in self.inputs:
                value = values[b["tensor"]]
                key = (b["name"], value.data_ptr())
                if key not in seen:
                    seen[key] = bound(b, value).contiguous()
                row.append(seen[key])
            sets.append(row)
        self.sets, self.expected, self.raised = sets, [], []
        for row in sets:
            self.expected.append([t.clone() for t in self._call(row)])
            self.raised.append(raised(self.runs))
        outputs = [o.tensor for o in self.outputs]
        run = self._way(sets, outputs)
        self.timed = Timed(lambda at: run(sets[at], outputs), len(sets), self.problem.clock())
        return {"buffers": len(sets)}

    def _way(self, sets: list[list[torch.Tensor]], outputs: list[torch.Tensor]) -> Callable:
        """The call to time. A module with regions may be one CUDA graph, which saves the host's time for each launch
        and costs copies of its inputs and results: the faster of both, by a few calls in turns."""
        self.graphed = False
        if self.whole is None:
            return self.run
        moving = [i for i, x in enumerate(sets[0]) if any(row[i] is not x for row in sets)]
        graph = self.whole.captured(sets[0], moving)
        if graph is None:
            return self.run
        clock, ways = self.problem.clock(), (self.run, graph)
        turns = [[partial(run, sets[at % len(sets)], outputs) for run in ways] for at in range(TRIED)]
        rounds = [list(map(clock.sample, turn)) for turn in turns]
        plain, whole = map(median, zip(*rounds, strict=True))
        self.graphed = whole < plain
        return graph if self.graphed else self.run

    def time_sample(self, request: dict) -> dict:
        """One call, timed as the baseline is: {ms, call_ms, checked}. A random tenth of the results is compared with an
        untimed run on the same inputs; the outputs are poisoned before every call. Raises Wrong."""
        for o in self.outputs:
            o.poison()
        at, ms = self.timed.sample()
        check = self.random.random() < CHECKED or request.get("check", False)
        if check:
            self._check_timed(at, request.get("repeatable", True))
        return {"ms": ms, "call_ms": self.timed.call_time(ms), "checked": check}

    def _check_timed(self, at: int, repeatable: bool) -> None:
        if self.whole is not None and not self.graphed:
            self.whole.deliver()
        for out, want in zip(self.outputs, self.expected[at], strict=True):
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
        """For a module with regions that is being timed: {region_ms, covered_ms} of its programs alone, PyTorch's
        region_eager_ms, and graph: whether all of it was one CUDA graph."""
        times = self.whole.times(self.sets[0], self.problem.clock(), self.problem.values("own", 0))
        return {**times, "graph": self.graphed}

    # ---- evidence ----

    def integrity(self, request: dict) -> dict:
        """The evidence for a program that is being timed: {silent: {launches, same, unwritten, elements} or {left_out},
        kernels: CUPTI's list of one call, or None with `no_kernels`: the reason, busy_us, patched: replaced functions,
        guard: for each set of timed inputs whether it tripped a guard, None without a guard, ranges: where one tripped,
        of the program's results that f16 holds narrowly or not}."""
        outputs = self.outputs
        quiet = self.whole.silenced() if self.whole else silenced(*self.module)
        return {
            "patched": self.snapshot.changed(),
            "guard": self.raised,
            "ranges": self._ranges() if any(self.raised) else {},
            **recorded(lambda: self.run(self.sets[0], [o.tensor for o in outputs]), self.device),
            "silent": probed(quiet, self.sets[0], outputs, self.expected[0]),
        }

    def _ranges(self) -> dict[str, tuple[float, float]]:
        """Of the trial's own program; {} if another one's guard tripped, and where they cannot be computed, for want of
        memory for example: the trial stands without them."""
        inputs = self.sets[self.raised.index(True)]
        try:
            if self.whole is not None:
                inputs = self.whole.tripping(inputs, [o.tensor for o in self.outputs])
            with torch.device(self.device):
                program = oracle.checked_program(self.program)
                return oracle.ranges(program, inputs) if inputs else {}
        except Exception as e:
            if cuda_code(e) not in (None, "out_of_memory"):
                raise
            return {}
