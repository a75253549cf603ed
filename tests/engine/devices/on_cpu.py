"""The measuring machine on a CPU, for tests of its rules: the same processes and checks, files in the place of compiled
programs and the wall clock in the place of CUDA events."""

from __future__ import annotations

import atexit
import functools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from dsl.compile import compile as compile_program
from dsl.lower import Source
from engine.build.cache import Cache
from engine.devices import cuda, gpus
from engine.evaluate.candidate import worker_pool
from engine.evaluate.candidate.worker import Worker
from engine.evaluate.candidate.worker_pool import WorkerPool
from engine.evaluate.timing import steadiness

GPU = {"name": "NVIDIA H200", "driver": "1", "sm_mhz": 1980}


class Builds:
    """A pool whose compiler is a file written to disk."""

    def __init__(self, folder: Path):
        self.crowded = lambda: False
        self.cache, self.folder, self.size = Cache(folder / "cache"), folder, 1
        self.asked: list[int] = []  # priorities of builds that were asked for ahead

    def warm(self, workers: int = 1) -> None:
        pass

    def find(self, source: Source):
        path = self.folder / f"{abs(hash(source.text))}.py"
        path.write_text(source.text)
        return SimpleNamespace(path=path, seconds=0.0, cached=True, resources=())

    def build(self, source: Source, cancelled):
        return self.find(source)

    def loadable(self, source: Source, cancelled):
        return self.find(source).path, None

    def submit(self, source: Source, priority: int = 0):
        self.asked.append(priority)
        self.find(source)
        return SimpleNamespace(leave=lambda: None)

    def close(self) -> None:
        pass


MEANING = """\
from dsl.check.program import check
from engine.evaluate.correctness import oracle
PROGRAM = check({text!r}).program
seen = []
def kernel(inputs, outputs):
    for o, r in zip(outputs, oracle.run(PROGRAM, inputs), strict=True):
        o.copy_(r.reshape(o.shape))
STAGES = {{"all": (kernel, None)}}
def load(artifact=None):
    def run(inputs, outputs):
        seen[:] = [inputs]
        kernel(inputs, outputs)
    if PROGRAM.guard:
        run.tripped = lambda: oracle.tripped(PROGRAM, seen[0]) is not None
    return run
"""


def compile_meanings(monkeypatch, *modules: str) -> None:
    """Let the compiler that these modules import make Python of every program that runs its meaning."""

    def meaning(program, sms):
        compiled = compile_program(program, sms)
        code = MEANING.format(text=compiled.text)
        return replace(compiled, sources={n: Source("cute", "python", code, code, "n", ()) for n in compiled.sources})

    for module in modules:
        monkeypatch.setattr(f"{module}.generate", meaning)


class Kept(WorkerPool):
    """Warm processes that outlive their machine, as they outlive sessions: importing torch takes each 2.5 s. A test
    gets a process whose data was dropped by `give_back`."""

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()


@functools.cache
def workers() -> Kept:
    """The processes of all machines of this test process."""
    pool = Kept()
    atexit.register(pool.end)
    return pool


def cuda_on_cpu(folder: Path, monkeypatch) -> cuda.Cuda:
    """Close it with `shutdown`. The wall clock of a busy CPU is never steady, so nothing is timed again for that; and
    what stays PyTorch is compiled only in a test of that, since g++ takes 15 s of a core."""
    monkeypatch.setattr(steadiness, "SPREAD", 1e9)
    monkeypatch.setattr(steadiness, "DRIFT", 1e9)
    monkeypatch.setattr(gpus.gpu_condition, "read", lambda uuid=None: dict(GPU))
    monkeypatch.setattr(gpus.toolchain, "find", lambda: SimpleNamespace(cute=True, versions=lambda: {"torch": "2"}))
    monkeypatch.setattr(cuda, "BuildPool", lambda: Builds(folder))
    monkeypatch.setattr(worker_pool, "Worker", lambda env: Worker(env, "cpu"))
    real, warm = cuda.module_process.Reference, cuda.module_process.warm
    monkeypatch.setattr(cuda.module_process, "warm", lambda **_: warm(local_user=True))
    monkeypatch.setattr(
        cuda.module_process, "Reference", lambda problem, device, **k: real(problem, "cpu", host_clock=True, **k)
    )
    machine = cuda.Cuda(local_user=True)
    machine.compiles_rest = False
    machine.workers = workers()
    return machine
