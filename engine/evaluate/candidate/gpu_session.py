"""One problem on the GPU: the worker's data for it, and the programs that the worker is ready to run.

The worker holds the op graph, the module's own tensors and any number of loaded programs, each in a named slot. One
slot is enough except for timing programs beside each other. A new process replaces a lost worker (its `generation`) and
gets everything again before its next request. Programs are built before they are loaded; for a module with regions, so
are all programs in use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import asdict

from dsl.lower import Source
from engine.build.limited import BuildError
from engine.build.pool import BuildPool
from engine.devices import NO_ROOM, Candidate, Problem, TrialError
from engine.devices.parts import to_json
from engine.evaluate import shared_memory
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.shared_tensors import Region
from engine.jsonprocess import WorkerLost
from engine.words import count

logger = logging.getLogger(__name__)

LOAD_SECONDS = 60.0
REST_SECONDS = 60.0  # for Inductor to compile what stays PyTorch
MAIN = "main"  # the slot of the candidate under trial


class GpuSession:
    """`reference`: the process of the pasted module; None for a program without a module."""

    def __init__(
        self, problem: Problem, reference: Reference | None, pool: BuildPool, worker: Worker,
        cancelled: Callable[[], bool],
    ):  # fmt: skip
        self.problem, self.reference, self.pool, self.worker = problem, reference, pool, worker
        self.cancelled = cancelled
        self.generation = -1  # the generation of the worker that holds this problem's data
        self._loaded: dict[str, tuple] = {}  # slot -> the program that the worker is ready to run
        self._shares = True  # until this machine shows that it cannot

    def ask(self, step: str, op: str, timeout: float, **arguments: object) -> dict:
        """Raises TrialError(step)."""
        return self.worker.ask(step, op, timeout=timeout, cancelled=self.cancelled, **arguments)

    @property
    def holds(self) -> bool:
        return self.worker.alive and self.generation == self.worker.generation

    def hand_over(self, step: str) -> None:
        """Give a fresh worker the problem's graph and the module's own tensors. Does nothing if it has them."""
        if self.holds:
            return
        try:
            self.worker.warm(self.cancelled)
        except WorkerLost as e:
            raise TrialError(step, "worker_lost", str(e), e.log or None) from None
        if not self._opened_by_block(step):
            own = self.reference.inputs_own().to_json() if self.reference is not None else None
            self._open(step, own)
        self.generation = self.worker.generation
        self._loaded = {}

    def _open(self, step: str, own: dict | None) -> None:
        self.ask(step, "open", LOAD_SECONDS, graph=self.problem.graph.to_json(), own=own)

    def _opened_by_block(self, step: str) -> bool:
        """Whether the worker has the module's own tensors by a block of memory: where they are large, and this machine
        shares such memory."""
        if self.reference is None or not self._shares or not self.reference.start().own_waits:
            return False
        self._open(step, None)
        try:
            fd = self.worker.block(step, self.reference.own_size)
            try:
                slots = self.reference.lay_own(fd)
            finally:
                os.close(fd)
            self.ask(step, "take_own", LOAD_SECONDS, own=Region("", self.reference.own_size, slots).to_json())
        except (shared_memory.NotShared, TrialError) as e:
            self._crosses_the_host("the module's own tensors", e)
            return False
        return True

    def _crosses_the_host(self, what: str, e: shared_memory.NotShared | TrialError) -> None:
        """From now on it does. Raises what is no matter of this machine."""
        if isinstance(e, TrialError) and e.code in (*NO_ROOM, "cancelled"):
            raise e
        self._shares = False
        logger.warning("%s cross the host's memory: %s", what, e)

    def share_results(self) -> None:
        """Give the module's process and the worker a block of memory for the module's results. Without one, results
        cross the host's memory, which takes seconds for gigabytes."""
        if self.reference is None or not self._shares:
            return
        self.hand_over("validate")
        if self.reference.block == self.worker.generation:
            return
        try:
            fd = self.worker.block("validate", self.reference.result_bytes)
            try:
                self.reference.adopt(fd, self.worker.generation)
            finally:
                os.close(fd)
        except (shared_memory.NotShared, TrialError) as e:
            self._crosses_the_host("results", e)

    def build(self, source: Source) -> object:
        """The pool's build. Raises TrialError("compile")."""
        try:
            return self.pool.build(source, self.cancelled)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason, e.log or None) from None

    def load(self, step: str, candidate: Candidate, slot: str = MAIN) -> None:
        """Load the built program into the worker, with the programs of the module's other regions."""
        self.hand_over(step)
        self._loaded.pop(slot, None)
        path, artifact = self._built(candidate.sources[candidate.backend])
        types = candidate.program.result_types
        outputs = [{**asdict(b), "dtype": t.dtype.value} for b, t in zip(candidate.outputs, types, strict=True)]
        placed = []
        for p in candidate.placed:
            module, library = self._built(p.source)
            placed.append(to_json(p, path=module, artifact=library))
        self.ask(
            step, "load", LOAD_SECONDS, slot=slot, path=path, artifact=artifact, program=candidate.text,
            inputs=[asdict(b) for b in candidate.inputs], outputs=outputs, placed=placed, cls=candidate.cls,
            rest=candidate.rest,
        )  # fmt: skip
        self._loaded[slot] = self._key(candidate)

    def compile_rest(self, candidate: Candidate) -> str:
        """Compile what stays PyTorch beside the candidate's programs, without the GPU's lane; in words, what came of
        it. Raises TrialError("compile")."""
        self.hand_over("compile")
        answer = self.ask(
            "compile", "compile_rest", REST_SECONDS, placed=[to_json(p) for p in candidate.placed], cls=candidate.cls
        )
        what = f"{count(answer['operations'], 'operation')} of PyTorch in {count(answer['runs'], 'call')}"
        left = f"; left as they are: {'; '.join(answer['refused'])}" if answer["refused"] else ""
        return f"Inductor compiled {what} in {answer['seconds']:.1f} s{left}"

    def ready(self, step: str, candidate: Candidate, slot: str = MAIN) -> None:
        """`load`, unless the worker is ready to run the candidate."""
        self.hand_over(step)
        if self._loaded.get(slot) != self._key(candidate):
            self.load(step, candidate, slot)

    def unload(self, slot: str) -> None:
        """Free a slot's memory. Raises TrialError("measure")."""
        if self._loaded.pop(slot, None) is not None and self.holds:
            self.ask("measure", "unload", LOAD_SECONDS, slot=slot)

    def trim(self) -> None:
        """Let the worker give back the memory that no later request needs. Raises TrialError("measure")."""
        if self.holds:
            self.ask("measure", "trim", LOAD_SECONDS)

    def forget(self) -> None:
        """After a failure: load each program again before it runs."""
        self._loaded = {}

    def _key(self, candidate: Candidate) -> tuple:
        """The data that the worker needs to run the candidate."""
        programs = (candidate.text, candidate.backend, *(p.text for p in candidate.placed))
        return (*programs, candidate.rest, self.worker.generation)

    def _built(self, source: Source) -> tuple[str, str | None]:
        """(the module to import, its artifact) of a built program, built again if the cache dropped it."""
        try:
            path, artifact = self.pool.loadable(source, self.cancelled)
        except BuildError as e:
            raise TrialError("compile", e.code, e.reason, e.log or None) from None
        return str(path), None if artifact is None else str(artifact)
