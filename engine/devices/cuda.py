"""The NVIDIA GPUs of this machine: programs are built, run at full size against the pasted module, and timed.

Two processes of a session share a GPU. The pasted module is confined and never loads a candidate
(engine.evaluate.reference); the worker runs our compiler's output and never sees the module
(engine.evaluate.candidate.worker). The engine sends them requests in turn, so that a ratio is always of adjacent calls
and the GPU has one user at a time.

One `Cuda` is one GPU. It belongs to the engine process, not to a session: its warm workers and the build pool, which
all GPUs share, outlive sessions. Each session at work has a worker of its own. Its processes start and load outside
the GPU's lane (engine.executors), beside the cores that are kept quiet for it (engine.cores).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from weakref import WeakSet

from dsl.lower import Source
from engine import cores, sandbox
from engine.build.cute import environment
from engine.build.limited import BuildError
from engine.build.pool import BuildPool, Job, takes_long
from engine.devices import Candidate, Problem, SessionRefused, TrialError
from engine.devices.gpus import ARCH, bytes_needed, describe, only, visible
from engine.evaluate.candidate.gpu_session import GpuSession
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.candidate.worker_pool import WorkerPool
from engine.evaluate.correctness.gpu_rounds import GpuRounds
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.integrity.kernel_trial import Kernels
from engine.evaluate.integrity.process import candidate as raw_kernel
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.machine import Programs, Workbench
from engine.evaluate.reference import compile_times, module_process
from engine.evaluate.timing import compiled_apart, gpu_condition
from engine.evaluate.timing.paired_timing import PairedTiming
from engine.executors.local import spares
from engine.executors.room import Room
from engine.jsonprocess import WorkerLost
from engine.session import events
from sol.hardware import Hardware

logger = logging.getLogger(__name__)

LATER = 1000  # priority of builds for a later problem
OURS = 0.9  # of the GPU's free memory when the engine starts: sessions may hold this much together
AHEAD = 2  # sessions for which processes are started: the one that comes, and one that may follow


class Processes:
    """The processes of one session: the module's (None for a program without a module) and its worker."""

    def __init__(self, reference: module_process.Reference | None, worker: Worker, workers: WorkerPool):
        self.reference, self.worker, self._workers = reference, worker, workers

    def to_all_cores(self) -> None:
        for one in filter(None, (self.reference, self.worker)):
            one.to_all_cores()

    def close(self) -> None:
        """End the module's process and drop the session's data. The worker stays warm for another session."""
        if self.reference is not None:
            self.reference.close()
        self._workers.give_back(self.worker)


class Cuda:
    """See engine.evaluate.evaluator.Machine. `visible`: which of several GPUs, as CUDA_VISIBLE_DEVICES names it ("":
    the only one); `index`: the number of its lane; `pool`: the builds that all GPUs share. Raises SessionRefused if
    there is no usable GPU or no toolchain."""

    kind = "measured"
    name = "cuda"
    lanes, forms = 1, ("program", "kernel")
    screens = builds_ahead = times_compiled = loads_apart = compiles_rest = True

    def __init__(self, *, local_user: bool = False, index: int = 0, visible: str = "", pool: BuildPool | None = None):
        self.gpu, self.hw, self.tools = describe(visible)
        self.hardware, self.local_user = self.hw.name, local_user
        self.place, self.visible = f"gpu{index}", visible
        cores.reserve()
        free = self.gpu.get("free_bytes")
        self.room = Room(int(OURS * free), lambda: self._in_use(free)) if free else None
        self.pool = pool or BuildPool()
        elsewhere = self.pool.crowded
        self.pool.crowded = lambda: self.users > 1 or elsewhere()
        chosen = only(visible)
        inductor = {"TORCHINDUCTOR_CACHE_DIR": str(self.pool.cache.folder("inductor"))}
        self.workers = WorkerPool(environment(self.pool.cache) | inductor | chosen)
        self._evaluators: WeakSet[Evaluator] = WeakSet()
        self._lock = threading.Lock()
        self._overhead: float | None = None
        atexit.register(self.shutdown)

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "gpu": self.gpu["name"],
            "driver": self.gpu["driver"],
            "note": "programs are built, run and timed here",
            "toolchain": ", ".join(f"{n} {v}" for n, v in self.tools.versions().items() if v),
        }

    def _in_use(self, free: int) -> int | None:
        """Bytes of the GPU that were free when the engine started, and are not now."""
        now = gpu_condition.free_bytes(self.visible or None)
        return None if now is None else max(0, free - now)

    def evaluator(self, *, local_user: bool) -> Evaluator:
        """A new user of this GPU, which starts to get warm."""
        self.local_user = local_user
        evaluator = Evaluator(self, self.evaluators)
        with self._lock:
            self._evaluators.add(evaluator)
        self.warm()
        return evaluator

    def evaluators(self) -> list[Evaluator]:
        """Its users, some of which have no session now."""
        with self._lock:
            return list(self._evaluators)

    @property
    def users(self) -> int:
        """Sessions on this GPU."""
        return sum(evaluator.at_work for evaluator in self.evaluators())

    def warm(self, source_kind: str = "module", many: int = AHEAD) -> None:
        """Start everything that takes seconds to import, for `many` sessions, without waiting."""
        self.workers.warm(many)
        self.pool.warm(min(2, self.pool.size))

        def modules() -> None:
            try:
                module_process.warm(gpu=True, visible=self.visible, local_user=self.local_user, many=many)
            except SessionRefused as e:
                logger.warning("%s", e.reason)  # `open` reports it to the session

        if source_kind == "module":  # the first one waits for its fork server, which imports PyTorch
            threading.Thread(target=modules, daemon=True, name="warm modules").start()

    def warm_kernels(self) -> None:
        """Let the process of the first raw kernel in CuTe DSL import it, without waiting."""

        def work() -> None:
            with contextlib.suppress(SessionRefused):
                sandbox.warm(
                    gpu=True, visible=self.visible, local_user=self.local_user, preload=raw_kernel.PRELOAD,
                    late=raw_kernel.late("import quack", "python"),
                )  # fmt: skip

        threading.Thread(target=work, daemon=True, name="warm kernels").start()

    def build_ahead(self, source: Source) -> None:
        with contextlib.suppress(BuildError):
            self.pool.submit(source, priority=LATER)

    # ---- one problem ----

    def need(self, problem: Problem) -> tuple[int, int]:
        """Bytes of the GPU's memory that its two processes hold at most and between their turns, about."""
        return bytes_needed(problem.graph)

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> Processes:
        """Start the module's process and a worker, outside the GPU's lane. Raises SessionRefused."""
        worker = self.workers.take()  # imports while the module is loaded
        with contextlib.ExitStack() as failed, _refusals():
            failed.callback(self.workers.give_back, worker)
            reference = None
            if problem.source_kind == "module":
                reference = self._reference(problem, cancelled).start()
                failed.callback(reference.close)
            worker.warm(cancelled)
            failed.pop_all()
        return Processes(reference, worker, self.workers)

    def _reference(self, problem: Problem, cancelled: Callable[[], bool]) -> module_process.Reference:
        """A process of the module, not yet started."""
        return module_process.Reference(
            problem, "cuda", visible=self.visible, local_user=self.local_user, cancelled=cancelled
        )

    def open(self, problem: Problem, cancelled: Callable[[], bool], loaded: Processes | None = None) -> Workbench:
        """Raises SessionRefused."""
        processes = loaded or self.load(problem, cancelled)
        reference, worker = processes.reference, processes.worker
        with contextlib.ExitStack() as failed, _refusals():
            failed.callback(processes.close)
            processes.to_all_cores()
            session = GpuSession(problem, reference, self.pool, worker, cancelled)
            session.hand_over("open")
            overhead = self._events_ms(worker)
            failed.pop_all()
        rounds = GpuRounds(session)
        condition = functools.partial(self._condition, worker)
        timing = PairedTiming(session, rounds, condition, overhead)
        builds = GpuBuilds(session, self.hw, self.gpu["name"])
        programs = Programs(builds, rounds, timing)
        times = compile_times.Kept(self.pool.cache, problem, self.gpu["name"], self.gpu["driver"])
        kernels = Kernels(
            reference, Judge(host=worker), timed=True, local_user=self.local_user, cancelled=cancelled,
            reference_used=rounds.lose_baseline,
        )  # fmt: skip

        def apart() -> compiled_apart.CompiledApart:
            second = functools.partial(self._reference, problem)
            return compiled_apart.CompiledApart(problem, second, cancelled, rounds.timing_seed, condition, overhead)

        def close() -> None:
            builds.close()
            kernels.close()
            processes.close()

        def trim(hard: bool) -> None:
            session.trim()
            if reference is not None:
                reference.trim(hard=hard)
            if hard:
                rounds.lose_baseline()

        two = reference is not None and compiled_apart.fits(problem.graph)
        return Workbench(programs, close, times, {"kernel": kernels}, trim, apart if two else None)

    def _events_ms(self, worker: Worker) -> float:
        """The time that CUDA events add to the work between them: of this GPU, so it is taken once, with its lane."""
        if self._overhead is None:
            self._overhead = float(worker.request({"op": "judge_overhead"}, 60.0)["ms"])
        return self._overhead

    def _condition(self, worker: Worker) -> dict:
        return gpu_condition.read((worker.about or {}).get("uuid")) or dict(self.gpu)

    def close(self) -> None:
        """Nothing: the workers and the pool belong to the engine process."""

    def shutdown(self) -> None:
        """End every process, when the engine ends."""
        self.workers.close()
        self.pool.close()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Let what stops a session's start be a reason for a person."""
    try:
        yield
    except WorkerLost as e:
        raise SessionRefused("gpu_lost", f"The GPU cannot be used: {e}. {e.log[-300:]}".strip()) from None
    except TrialError as e:
        raise SessionRefused(e.code, e.reason) from None


class GpuBuilds:
    """Builds with both back ends to machine code, in the machine's pool."""

    def __init__(self, session: GpuSession, hw: Hardware, gpu: str):
        self.session, self.hw, self.gpu = session, hw, gpu
        self._ahead: list[Job] = []

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        arch = candidate.program.arch or ARCH
        if arch != self.hw.arch:  # `python -m engine export` builds it on a machine with such a GPU
            reason = f"the program says arch {arch}, and {self.gpu} is {self.hw.arch}"
            raise TrialError("compile", "wrong_arch", f"{reason}; write arch {self.hw.arch}, or leave arch out")
        built = self.session.build(candidate.sources[candidate.backend])
        resources = [dict(r) for r in built.resources]
        note = self.session.compile_rest(candidate) if candidate.rest else ""
        return events.TrialCompiled(
            candidate.trial, candidate.backend, "machine code", built.seconds, built.cached, resources, note
        )

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Where others use the machine, at most one of those that take nvcc long: of 16 cores it had 11 when four
        sessions each built three ahead, most of which nobody tried."""
        pool, jobs, alone = self.session.pool, [], True
        for i, candidate in enumerate(candidates):
            source = candidate.sources[candidate.backend]
            if takes_long(source):
                if pool.crowded() and not alone:
                    continue
                alone = False
            with contextlib.suppress(BuildError):
                jobs.append(pool.submit(source, priority=10 + i))
        self.close()
        self._ahead = jobs

    def close(self) -> None:
        """What was built ahead and is not wanted any more leaves its place to others."""
        for job in self._ahead:
            job.leave()
        self._ahead = []


@functools.cache
def machines() -> tuple[Cuda, ...]:
    """The GPUs of this engine process that are like the first one; their workers have torch and quack imported, which
    takes 9 s. Raises SessionRefused."""
    first, *more = visible()
    gpus = [Cuda(visible=first if more else "")]
    for name in more:
        with contextlib.suppress(SessionRefused):  # it has no figures, or is of another architecture
            gpu = Cuda(index=len(gpus), visible=name, pool=gpus[0].pool)
            if gpu.gpu["name"] == gpus[0].gpu["name"]:
                gpus.append(gpu)
    return tuple(gpus)


def least_used() -> Cuda:
    """The GPU with the fewest sessions. Raises SessionRefused."""
    return min(machines(), key=lambda gpu: gpu.users)


def warm() -> None:
    """Import everything that the next sessions need, which come in groups."""
    gpu = least_used()
    gpu.warm(many=spares())
    gpu.warm_kernels()
