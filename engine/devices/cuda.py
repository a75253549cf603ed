"""The NVIDIA GPU of this machine: programs are built, run at full size against the pasted module, and timed.

Two processes share the GPU. The pasted module is confined and never loads a candidate
(engine.evaluate.reference.module_process); the worker runs what our compiler made and never sees the module
(engine.evaluate.candidate.worker). The engine asks them in turn, so that a ratio is always taken between neighbours
in time, and so that the GPU has one owner at a time.

One `Cuda` belongs to the engine process, not to a session: its worker's imports and its build pool outlive sessions.
What a session has on the GPU is engine.evaluate.candidate.gpu_session's, whether a program is right verifying's, its
time pairs'.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.build import toolchain
from engine.build.cute import environment
from engine.build.limited import BuildError
from engine.build.pool import BuildPool
from engine.devices import Candidate, Device, Problem, SessionRefused, TrialError
from engine.devices import compile_times as compiled
from engine.devices.gpu_names import hardware_of
from engine.evaluate.candidate.gpu_session import Placing
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.correctness.verification import Verifying
from engine.evaluate.reference import module_process
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.paired_timing import Pairs
from engine.jsonprocess import WorkerLost
from engine.session import events
from sol.bounds import native_class, pytorch_class
from sol.hardware import load

logger = logging.getLogger(__name__)

ARCH = "sm_90a"  # what both back ends generate


def _by_cuda() -> dict | None:
    """The GPU as CUDA names it, in a process of its own: a container may have the device and not NVML. Takes 9 s."""
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


class Cuda(Device):
    """See engine.devices.Device. Raises SessionRefused where there is no GPU that can be used, or no toolchain."""

    kind = "measured"
    name = "cuda"
    screens = builds_ahead = times_compiled = True

    def __init__(self, *, local_user: bool = False):
        found = gpu_condition.read() or _by_cuda()
        if found is None or not found["name"]:
            raise SessionRefused("no_gpu", "there is no NVIDIA GPU here, or its driver does not answer")
        self.hardware = hardware_of(found["name"])
        self.hw = load(self.hardware)
        if self.hw.arch != ARCH:
            raise SessionRefused(
                "unsupported_gpu", f"programs are compiled for Hopper ({ARCH}); {found['name']} is {self.hw.arch}"
            )
        tools = toolchain.find()
        if not tools.cute:
            missing = " ".join(tools.missing("torch", "cute_dsl", "quack"))
            raise SessionRefused("no_toolchain", f"there is a GPU, but not what programs are built with. {missing}")
        self.gpu, self.tools, self.local_user = found, tools, local_user
        self.pool = BuildPool()
        self.worker = Worker(environment(self.pool.cache))
        self.problem: Problem | None = None
        self._reference: module_process.Reference | None = None
        self._placing: Placing | None = None
        self._verifying: Verifying | None = None
        self._pairs: Pairs | None = None
        atexit.register(self.shutdown)

    # ---- life ----

    def describe(self) -> dict:
        return {
            "title": self.hw.title,
            "gpu": self.gpu["name"],
            "driver": self.gpu["driver"],
            "note": "programs are built, run and timed here",
            "toolchain": ", ".join(f"{n} {v}" for n, v in self.tools.versions().items() if v),
        }

    def warm(self, source_kind: str = "module") -> None:
        """Start everything that takes seconds to import, and wait for nothing. Between sessions call it in the main
        thread: a confined child ends with the thread that started it."""
        self.worker.start()
        self.pool.warm(min(2, self.pool.size))
        if source_kind != "module":
            return
        try:
            module_process.warm(gpu=True, local_user=self.local_user)
        except SessionRefused as e:
            logger.warning("%s", e.reason)  # `open` says it again, to the session

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        self.close()
        self.problem = problem
        try:
            if problem.source_kind == "module":
                self._reference = module_process.Reference(
                    problem, "cuda", local_user=self.local_user, cancelled=cancelled
                ).start()
            self.worker.warm(cancelled)
            self._placing = Placing(problem, self._reference, self.pool, self.worker, cancelled)
            self._verifying = Verifying(self._placing)
            self._pairs = Pairs(self._placing, self._verifying, self._condition)
            self._placing.hand_over("open")
        except WorkerLost as e:
            raise SessionRefused("gpu_lost", f"The GPU cannot be used: {e}. {e.log[-300:]}".strip()) from None
        except TrialError as e:
            raise SessionRefused(e.code, e.reason) from None

    def _condition(self) -> dict:
        return gpu_condition.read((self.worker.about or {}).get("uuid")) or dict(self.gpu)

    def close(self) -> None:
        """End the module's process and drop the session's data; the worker stays warm."""
        if self._reference is not None:
            self._reference.close()
        if self._placing is not None and self._placing.holds:
            with contextlib.suppress(TrialError):  # replaced already
                self.worker.ask("close", "close", timeout=30.0)
        self.problem = self._reference = self._placing = self._verifying = self._pairs = None

    def shutdown(self) -> None:
        """End every process: the engine leaves."""
        with contextlib.suppress(Exception):
            if self._reference is not None:
                self._reference.close()
        self.worker.close()
        self.pool.close()

    # ---- PyTorch ----

    def baselines(self, classes: list[str]) -> Iterator[events.Baseline]:
        """Eager as it ships first, then one for each class. The references are computed first, while builds run."""
        with contextlib.suppress(TrialError):  # the first validation says it again, as its own failure
            for round_ in self._verifying.rounds:
                self._verifying.prepare(round_, list(classes))
        native = native_class(self.problem.graph)
        theirs = self._theirs(classes)
        names = ["eager"] if native == "f32" or native in theirs else []
        names += [f"eager_{cls}" for cls in theirs if cls not in (native, "f32")]
        for name in dict.fromkeys(names):
            try:
                yield self._pairs.baseline(name, native)
            except TrialError as e:
                if name == "eager":
                    raise SessionRefused(e.code, e.reason) from None
                logger.warning("no baseline %s: %s", name, e.reason)
        yield from self._earlier().known(compiled.names(self._theirs(classes), native))

    def _theirs(self, classes: list[str]) -> list[str]:
        """The classes in which PyTorch stands beside these."""
        return list(dict.fromkeys(pytorch_class(cls, self.problem.graph) for cls in classes))

    def _earlier(self) -> compiled.Kept:
        return compiled.Kept(self.pool.cache, self.problem, self.gpu["name"], self.gpu["driver"])

    def compiled(self, classes: list[str]) -> Iterator[events.Baseline]:
        """torch.compile's times that `baselines` did not know: 20 s to minutes each, then kept for other sessions."""
        if self._reference is None:
            return  # a program by itself has no module to compile
        native = native_class(self.problem.graph)
        for name in compiled.names(self._theirs(classes), native):
            if self._earlier().read(name) is not None:
                continue
            try:
                yield self.baseline(name)
            except TrialError as e:
                if self._placing.cancelled():
                    raise
                logger.warning("no baseline %s: %s", name, e.reason)

    def baseline(self, name: str) -> events.Baseline:
        """One of engine.evaluate.reference.baseline_cache.NAMES, timed now and kept. Raises TrialError("measure")."""
        timed = self._pairs.baseline(name, native_class(self.problem.graph))
        self._earlier().write(timed, time.time())
        return timed

    # ---- a trial ----

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        arch = candidate.program.arch or ARCH
        if arch != self.hw.arch:  # `python -m engine export` builds it where such a GPU is
            reason = f"the program says arch {arch}, and {self.gpu['name']} is {self.hw.arch}"
            raise TrialError("compile", "wrong_arch", f"{reason}; write arch {self.hw.arch}, or leave arch out")
        built = self._placing.build(candidate.sources[candidate.backend])
        resources = [dict(r) for r in built.resources]
        return events.TrialCompiled(
            candidate.trial, candidate.backend, "machine code", built.seconds, built.cached, resources
        )

    def prefetch(self, candidates: list[Candidate]) -> None:
        for i, candidate in enumerate(candidates):
            with contextlib.suppress(BuildError):
                self.pool.submit(candidate.sources[candidate.backend], priority=10 + i)

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        """The built program at full size on every round's inputs; a guarded one also on those that trip it."""
        return self._verifying.validate(candidate)

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """Pairs of one call each, baseline and candidate, until the ratio's interval is narrow."""
        return self._pairs.measure(candidate, baseline)

    def quick(self, candidates: list[Candidate], baseline: events.Baseline) -> list[float | None]:
        """Milliseconds of a few calls of each, to choose what is tried in full; None where it did not run. Nothing is
        verified here, so none of it is a result."""
        return [self._quick(c, baseline) for c in candidates]

    def _quick(self, candidate: Candidate, baseline: events.Baseline) -> float | None:
        try:
            self.build(candidate)
            return self._pairs.quick(candidate, baseline)
        except TrialError as e:
            if e.code == "cancelled":
                raise
            return None


@functools.cache
def machine() -> Cuda:
    """The one of this engine process: its worker has torch and quack imported, which takes 9 s."""
    return Cuda()


def warm() -> None:
    """Have everything imported that the next session would wait for. Call it in the main thread, between sessions."""
    machine().warm()
