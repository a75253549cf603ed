"""The NVIDIA GPU of this machine: programs are built, run at full size against the pasted module, and timed.

Two processes share the GPU. The pasted module is confined and never loads a candidate (engine.evaluate.reference); the
worker runs our compiler's output and never sees the module (engine.evaluate.candidate.worker). The engine sends them
requests in turn, so that a ratio is always of adjacent calls and the GPU has one user at a time.

One `Cuda` belongs to the engine process, not to a session: its warm workers and its build pool outlive sessions. Each
session at work has a worker of its own, and the GPU's lane (engine.executors) lets one of them use the GPU at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from dsl.lower import Source
from engine.build import toolchain
from engine.build.cute import environment
from engine.build.limited import BuildError
from engine.build.pool import BuildPool
from engine.devices import Candidate, Problem, SessionRefused, TrialError
from engine.devices.gpu_names import hardware_of
from engine.evaluate.candidate.gpu_session import GpuSession
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.candidate.worker_pool import WorkerPool
from engine.evaluate.correctness.gpu_rounds import GpuRounds
from engine.evaluate.evaluator import Programs, Workbench
from engine.evaluate.integrity.kernel_trial import Kernels
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.reference import compile_times, module_process
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.paired_timing import PairedTiming
from engine.jsonprocess import WorkerLost
from engine.session import events
from sol.hardware import Hardware, load

logger = logging.getLogger(__name__)

ARCH = "sm_90a"  # the target of both back ends
LATER = 1000  # priority of builds for a later problem


def _by_cuda() -> dict | None:
    """The GPU as CUDA names it, from a separate process: a container may have the device but not NVML. Takes 9 s."""
    if not Path("/dev/nvidiactl").exists() or not toolchain.find().has("torch"):
        return None
    worker = Worker()
    try:
        return {"name": worker.warm()["name"], "driver": None}
    except WorkerLost as e:
        logger.warning("%s %s", e, e.log[-500:])
        return None
    finally:
        worker.close()


class Cuda:
    """See engine.evaluate.evaluator.Machine. Raises SessionRefused if there is no usable GPU or no toolchain."""

    kind = "measured"
    name = "cuda"
    lanes, forms = 1, ("program", "kernel")
    place = "gpu0"
    screens = builds_ahead = times_compiled = True

    def __init__(self, *, local_user: bool = False):
        gpu = gpu_condition.read() or _by_cuda()
        if gpu is None or not gpu["name"]:
            raise SessionRefused("no_gpu", "there is no NVIDIA GPU here, or its driver does not answer")
        self.hardware = hardware_of(gpu["name"])
        self.hw = load(self.hardware)
        if self.hw.arch != ARCH:
            raise SessionRefused(
                "unsupported_gpu", f"programs are compiled for Hopper ({ARCH}); {gpu['name']} is {self.hw.arch}"
            )
        tools = toolchain.find()
        if not tools.cute:
            missing = " ".join(tools.missing("torch", "cute_dsl", "quack"))
            raise SessionRefused("no_toolchain", f"there is a GPU, but the toolchain is incomplete. {missing}")
        self.gpu, self.tools, self.local_user = gpu, tools, local_user
        self.pool = BuildPool()
        self.workers = WorkerPool(environment(self.pool.cache))
        atexit.register(self.shutdown)

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "gpu": self.gpu["name"],
            "driver": self.gpu["driver"],
            "note": "programs are built, run and timed here",
            "toolchain": ", ".join(f"{n} {v}" for n, v in self.tools.versions().items() if v),
        }

    def warm(self, source_kind: str = "module") -> None:
        """Start everything that takes seconds to import, without waiting. Between sessions call it in the main thread:
        a confined child ends with the thread that started it."""
        self.workers.warm()
        self.pool.warm(min(2, self.pool.size))
        if source_kind != "module":
            return
        try:
            module_process.warm(gpu=True, local_user=self.local_user)
        except SessionRefused as e:
            logger.warning("%s", e.reason)  # `open` reports it to the session

    def build_ahead(self, source: Source) -> None:
        with contextlib.suppress(BuildError):
            self.pool.submit(source, priority=LATER)

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> Workbench:
        with contextlib.ExitStack() as failed:
            try:
                reference = None
                if problem.source_kind == "module":
                    reference = module_process.Reference(
                        problem, "cuda", local_user=self.local_user, cancelled=cancelled
                    ).start()
                    failed.callback(reference.close)
                worker = self.workers.take()
                failed.callback(self.workers.give_back, worker)
                worker.warm(cancelled)
                session = GpuSession(problem, reference, self.pool, worker, cancelled)
                session.hand_over("open")
            except WorkerLost as e:
                raise SessionRefused("gpu_lost", f"The GPU cannot be used: {e}. {e.log[-300:]}".strip()) from None
            except TrialError as e:
                raise SessionRefused(e.code, e.reason) from None
            failed.pop_all()
        rounds = GpuRounds(session)
        programs = Programs(GpuBuilds(session, self.hw, self.gpu["name"]), rounds,
                            PairedTiming(session, rounds, functools.partial(self._condition, worker)))  # fmt: skip
        times = compile_times.Kept(self.pool.cache, problem, self.gpu["name"], self.gpu["driver"])
        kernels = Kernels(
            reference, Judge(host=worker), timed=True, local_user=self.local_user, cancelled=cancelled,
            reference_used=rounds.lose_baseline,
        )  # fmt: skip
        return Workbench(programs, functools.partial(self._end, session, kernels), times, {"kernel": kernels})

    def _condition(self, worker: Worker) -> dict:
        return gpu_condition.read((worker.about or {}).get("uuid")) or dict(self.gpu)

    def _end(self, session: GpuSession, kernels: Kernels) -> None:
        """End the module's process and drop the session's data. Its worker stays warm for another session."""
        kernels.close()
        if session.reference is not None:
            session.reference.close()
        self.workers.give_back(session.worker)

    def close(self) -> None:
        """Nothing: the workers and the pool belong to the engine process."""

    def shutdown(self) -> None:
        """End every process, when the engine ends."""
        self.workers.close()
        self.pool.close()


class GpuBuilds:
    """Builds with both back ends to machine code, in the machine's pool."""

    def __init__(self, session: GpuSession, hw: Hardware, gpu: str):
        self.session, self.hw, self.gpu = session, hw, gpu

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        arch = candidate.program.arch or ARCH
        if arch != self.hw.arch:  # `python -m engine export` builds it on a machine with such a GPU
            reason = f"the program says arch {arch}, and {self.gpu} is {self.hw.arch}"
            raise TrialError("compile", "wrong_arch", f"{reason}; write arch {self.hw.arch}, or leave arch out")
        built = self.session.build(candidate.sources[candidate.backend])
        resources = [dict(r) for r in built.resources]
        return events.TrialCompiled(
            candidate.trial, candidate.backend, "machine code", built.seconds, built.cached, resources
        )

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        for i, candidate in enumerate(candidates):
            with contextlib.suppress(BuildError):
                self.session.pool.submit(candidate.sources[candidate.backend], priority=10 + i)


@functools.cache
def machine() -> Cuda:
    """The machine of this engine process: its workers have torch and quack imported, which takes 9 s."""
    return Cuda()


def warm() -> None:
    """Import everything that the next session needs. Call it in the main thread, between sessions."""
    machine().warm()
