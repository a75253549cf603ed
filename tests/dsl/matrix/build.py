"""Compiling configurations: CuTe DSL by warm workers; CUDA C++ by units of several stages, the kernels by nvcc and the
host code by g++, put together into a library that says of itself that CUTLASS takes every stage.

A unit of nvcc that fails is taken apart, so that a failure has a name. No GPU is needed for any of it.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from dsl.check.program import check
from dsl.compile import Compiled
from dsl.compile import compile as generate
from dsl.lower import Source
from engine.build import nvcc
from engine.build.cache import Cache
from engine.build.cute import CuteBuilder
from engine.build.nvcc import BuildError
from tests.dsl.matrix.configurations import Configuration, program

UNIT = 6  # stages an nvcc unit
NVCC_SECONDS, NVCC_MEMORY = 420.0, 10 << 30
CUTE_SECONDS = 90.0
BUILT = {"cute": "machine code", "cpp": "kernels and host code"}  # a row for less than this is no good any more


@dataclass(frozen=True)
class Job:
    """What one back end makes of one configuration."""

    configuration: Configuration
    backend: str
    source: Source

    @property
    def digest(self) -> str:
        """Of the generated text and of how it is built: the same need not be compiled twice."""
        how = BUILT[self.backend] + self.source.arch
        return sha256((how + self.source.text).encode()).hexdigest()[:16]

    def row(self, ok: bool, seconds: float, message: str = "") -> dict:
        return row(self.configuration, self.backend, ok, seconds, message, source=self.digest)


def compiled(configurations: list[Configuration]) -> Compiled:
    """Checked and generated. Raises whatever a back end raises by mistake."""
    checked = check(program(configurations))
    assert checked.program is not None, checked.diagnostics[0].message
    return generate(checked.program)


def row(c: Configuration, backend: str, ok: bool, seconds: float, message: str = "", **more: object) -> dict:
    result = {"name": c.name, "family": c.family, "backend": backend, "ok": ok, "seconds": round(seconds, 2), **more}
    return result if ok else result | {"message": message[:3000], "program": program([c])}


def jobs(configurations: Iterable[Configuration], say: Callable[[dict], None], only: str | None = None) -> list[Job]:
    """The builds of each configuration. A back end that raises, and a program that no back end takes, is a failure."""
    work = []
    for c in configurations:
        try:
            sources = compiled([c])
        except Exception as e:
            say(row(c, "generate", False, 0.0, f"{type(e).__name__}: {e}"))
            continue
        for backend, refusal in sources.refused.items():
            if only in (None, backend):
                say(row(c, backend, True, 0.0, refused=refusal.code, why=refusal.message))
        if not sources.sources:
            reasons = "; ".join(f"{n}: {r.code} {r.message}" for n, r in sources.refused.items())
            say(row(c, "none", False, 0.0, f"passes every check and no back end takes it: {reasons}"))
        work += [Job(c, n, s) for n, s in sources.sources.items() if only in (None, n)]
    return work


def build(todo: list[Job], workers: int, say: Callable[[dict], None]) -> None:
    """Build everything, both back ends at once; `say` gets a row a build, from several threads."""
    cute = [j for j in todo if j.backend == "cute"]
    cpp = [j for j in todo if j.backend == "cpp"]
    halves = [threading.Thread(target=build_cute, args=(cute, max(1, workers // 3), say))] if cute else []
    for thread in halves:
        thread.start()
    if cpp:
        build_cpp(cpp, max(1, workers - (workers // 3 if cute else 0)), say)
    for thread in halves:
        thread.join()


def build_cute(todo: list[Job], workers: int, say: Callable[[dict], None]) -> None:
    """Each to machine code, in a cache that begins empty: nothing that was compiled before counts."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in todo:
        waiting.put(job)
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:

        def work() -> None:
            builder = CuteBuilder(Cache(Path(folder)))
            try:
                while True:
                    try:
                        job = waiting.get_nowait()
                    except queue.Empty:
                        return
                    began = time.perf_counter()
                    try:
                        builder.build(job.source, seconds=CUTE_SECONDS)
                        say(job.row(True, time.perf_counter() - began))
                    except BuildError as e:
                        words = f"{e.code}: {e.reason}\n{e.log}"
                        say(job.row(False, time.perf_counter() - began, words))
            finally:
                builder.close()

        threads = [threading.Thread(target=work) for _ in range(min(workers, len(todo)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def build_cpp(todo: list[Job], workers: int, say: Callable[[dict], None]) -> None:
    """Units of up to UNIT stages of one family; one that fails is built again a stage at a time."""
    units = []
    for _, members in groupby(todo, key=lambda j: (j.configuration.arch, j.configuration.family)):
        group = list(members)
        units += [group[i : i + UNIT] for i in range(0, len(group), UNIT)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda unit: _unit(unit, say), units))


def _unit(unit: list[Job], say: Callable[[dict], None]) -> None:
    began = time.perf_counter()
    try:
        source = unit[0].source if len(unit) == 1 else compiled([j.configuration for j in unit]).sources["cpp"]
        whole(source)
    except Exception as e:
        if len(unit) > 1:
            for job in unit:
                _unit([job], say)
            return
        log = getattr(e, "log", "")
        words = f"{getattr(e, 'code', type(e).__name__)}: {e}\n{log}"
        say(unit[0].row(False, time.perf_counter() - began, words))
        return
    each = (time.perf_counter() - began) / len(unit)
    for job in unit:
        say(job.row(True, each))


def whole(source: Source) -> None:
    """A `cpp` source by nvcc and g++, linked, loaded and asked whether CUTLASS takes every stage. Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        built = nvcc.build(source, Path(folder), seconds=NVCC_SECONDS, memory=NVCC_MEMORY, halves=True)
    for kernel in built.kernels:
        if not kernel.get("can_implement", True):
            raise BuildError("compile_failed", f"CUTLASS cannot implement stage {kernel['stage']} at this size")
