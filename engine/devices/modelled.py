"""A GPU that is not here: programs are checked, generated, compiled if the toolchain allows, and their meaning runs on
the CPU. Only the time is a prediction (sol.attainable), and every event says so.

Real are the machine code of `cute` programs with its registers and shared memory (if CuTe DSL is installed), CUTLASS's
own checks of `cpp` programs (g++ with its headers), and the numbers: each program's meaning is compared with the pasted
module, which runs confined in float64. A raw kernel in Python is verified on the CPU, one in CUDA C++ is compiled;
neither gets a time, because no model predicts raw code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsl.lower import Source
from engine.devices import Candidate, Problem, offline
from engine.evaluate.correctness.oracle_rounds import Oracle, OracleRounds
from engine.evaluate.integrity.kernel_trial import Kernels
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.machine import Programs, Workbench
from engine.evaluate.reference import module_process
from engine.evaluate.timing.predicted_timing import PredictedTiming
from engine.executors.memory import USUAL
from engine.executors.room import Room
from engine.session import events
from sol.attainable import KNOWN_ERROR
from sol.hardware import load

COPIES, PER_RESULT = 3, 24  # of the module's own tensors; bytes for each element of a result


class Modelled:
    """`hardware`: a file of sol/hardware. See engine.evaluate.evaluator.Machine."""

    kind = "predicted"
    lanes, forms = 1, ("program", "kernel")
    place = "core"
    room: Room | None = None
    screens = builds_ahead = times_compiled = loads_apart = compiles_rest = False

    def __init__(self, hardware: str = "h200", *, local_user: bool = False):
        self.hardware, self.name = hardware, f"modelled:{hardware}"
        self.hw = load(hardware)
        self.local_user = local_user
        self._oracle: Oracle | None = None

    @property
    def oracle(self) -> Oracle:
        if self._oracle is None:
            self._oracle = Oracle.borrow()
        return self._oracle

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "note": "no GPU here: programs are really generated and checked, times are predicted",
            "model": "t_attainable",
            "error": KNOWN_ERROR,
        }

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` needs, without waiting: called while the module is still being traced."""
        self.oracle.start()
        offline.warm()
        if source_kind == "module":
            module_process.warm(local_user=self.local_user)

    def build_ahead(self, source: Source) -> None:
        """Nothing to do: no GPU runs meanwhile, so no time can be saved."""

    def need(self, problem: Problem) -> tuple[int, int]:
        """Bytes of this machine's memory that its processes hold, about: the module's own tensors with two copies, and
        results in float64 on both sides. Only counted where several sessions share a room (engine.devices.registry)."""
        tensors = problem.graph.tensors
        own = sum(t.bytes for t in tensors.values() if t.kind != "intermediate")
        results = sum(tensors[name].elements for name in problem.graph.outputs)
        need = USUAL + COPIES * own + PER_RESULT * results
        return need, need

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Nothing: `open` needs no lane either."""

    def open(self, problem: Problem, cancelled: Callable[[], bool], loaded: None = None) -> Workbench:
        self.oracle.start()
        offline.warm()
        reference = None
        if problem.source_kind == "module":
            reference = module_process.Reference(
                problem, "cpu", local_user=self.local_user, cancelled=cancelled
            ).start()

        rounds = OracleRounds(problem, reference, self.oracle, cancelled)
        programs = Programs(OfflineBuilds(cancelled), rounds, PredictedTiming(problem, self.hw))
        kernels = Kernels(
            reference, Judge(host=self.oracle), timed=False, local_user=self.local_user, cancelled=cancelled
        )

        def close() -> None:
            kernels.close()
            if reference is not None:
                reference.close()

        return Workbench(programs, close, others={"kernel": kernels})

    def close(self) -> None:
        oracle, self._oracle = self._oracle, None
        if oracle is not None:
            oracle.give_back()


class OfflineBuilds:
    """Builds with the toolchain without a GPU (engine.devices.offline)."""

    def __init__(self, cancelled: Callable[[], bool]):
        self.cancelled = cancelled

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        return offline.build(candidate, self.cancelled)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Nothing to do: no GPU runs meanwhile, so no time can be saved."""
