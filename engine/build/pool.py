"""A pool of parallel builds for both back ends. A build that a caller waits for comes first, and finds a worker: some
are kept from builds that nobody waits for yet, which take a minute each with nvcc."""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsl.lower import Source
from engine.build import nvcc, toolchain
from engine.build.cache import Cache, content_key
from engine.build.cute import SECONDS as CUTE_SECONDS
from engine.build.cute import Built, CuteBuilder, lookup, module_key
from engine.build.limited import SECONDS, BuildError
from engine.build.parts import Parts
from engine.cores import ENOUGH, QUIET, worth
from engine.executors.local import cores_here
from engine.executors.memory import machine_bytes

log = logging.getLogger(__name__)

WORKER_BYTES = 4 << 30  # of a machine's memory for each worker


def default_size() -> int:
    """On a machine of few cores half of them; else all that this process may use but the quiet ones of the lane that
    times (engine.cores). A build keeps one busy. At most 32, and as many as memory allows."""
    cores = cores_here()
    idle = cores // 2 if cores < ENOUGH else cores - QUIET
    return max(1, min(32, idle, machine_bytes() // WORKER_BYTES))


def default_ahead(size: int, crowded: bool = False) -> int:
    """Workers of a pool of this size for builds that nobody waits for: two thirds, because the others are for builds
    that somebody does. `crowded`: several sessions wait for the lane that times. Where cores are threads of fewer
    physical ones, more builds would then slow down the lane, and get little done (on a virtual machine of 16 cores that
    are worth 9, what used the lane took 1.2 times as long)."""
    most, cores = size - size // 3, worth()
    if crowded and cores is not None:
        most = min(most, max(cores - QUIET, min(size // 4, cores // 2)))
    return max(1, most)


class Job:
    """A queued or running build. `result` waits; `cancel` takes it out of the queue or ends its compiler; `leave` does
    so once nobody wants it who asked for it."""

    def __init__(self, pool: BuildPool, source: Source, priority: int):
        self.source, self.priority = source, priority
        self._pool = pool
        self._wanted = 0  # by so many callers of `submit`
        self._done, self._stop = threading.Event(), threading.Event()
        self._built: Built | None = None
        self._error: BuildError | None = None

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        """Stop the build. `result` then raises BuildError("cancelled")."""
        self._stop.set()
        self._pool._drop(self)

    @property
    def ahead(self) -> bool:
        """Whether nobody waits for it yet."""
        return self.priority >= 0

    def leave(self) -> None:
        """One of those who asked for it does not want it any more."""
        self._wanted -= 1
        if self._wanted <= 0 and self.ahead and not self.done:
            self.cancel()

    def result(self, cancelled: Callable[[], bool] = lambda: False) -> Built:
        """Wait for the build, which now comes before all others in the queue. Raises BuildError."""
        self._pool._urge(self)
        while not self._done.wait(0.05):
            if cancelled():
                self.cancel()
        if self._error is not None:
            raise self._error
        return self._built

    def _end(self, built: Built | None, error: BuildError | None) -> None:
        if not self._done.is_set():
            self._built, self._error = built, error
            self._done.set()


@dataclass(frozen=True)
class Help:
    """Work on the stages of a job that another thread of the pool has begun (engine.build.parts)."""

    job: Job
    parts: Parts
    path: Path

    def by(self, builder: CuteBuilder) -> None:
        self.parts.work(lambda stage: builder.part(self.path, stage, CUTE_SECONDS, self.parts.cancelled))


class BuildPool:
    """`size` threads, each with its own CuTe worker process, started when first needed. `crowded`: whether several
    sessions use the lanes beside it.

    Equal sources are built once: for a source that is queued or running, `submit` returns its Job; for one in the
    cache, a Job that is done.
    """

    def __init__(self, cache: Cache | None = None, size: int | None = None):
        self.cache = cache or Cache()
        self.size = size or default_size()
        self.crowded: Callable[[], bool] = lambda: False
        self._jobs: dict[str, Job] = {}
        self._queue: list[tuple[int, int, Job | Help]] = []
        self._number = itertools.count()
        self._ready = threading.Condition()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._waiting = 0  # idle threads
        self._running: list[Job] = []  # one for each working thread
        self._importing = 0  # threads whose worker is not ready yet

    def warm(self, workers: int = 1) -> None:
        """Start CuTe workers early, without waiting for them. Does nothing if the toolchain is missing."""
        if toolchain.find().cute:
            with self._ready:
                while len(self._threads) < min(workers, self.size):
                    self._start()

    def submit(self, source: Source, priority: int = 0) -> Job:
        """Queue a build; a smaller `priority` goes first, equal ones in order."""
        key = _key(source)
        cached = self.find(source)
        with self._ready:
            if self._closed:
                raise BuildError("cancelled", "the build pool is closed")
            job = self._jobs.get(key)
            if job is None or job.done or job.stopped:
                job = Job(self, source, priority)
                if cached is not None:
                    job._end(cached, None)
                else:
                    self._jobs[key] = job
                    heapq.heappush(self._queue, (priority, next(self._number), job))
                    self._grow()
                    self._ready.notify()
            job._wanted += 1
        return job

    def build(self, source: Source, cancelled: Callable[[], bool] = lambda: False) -> Built:
        """Build now, before everything queued. Raises BuildError."""
        return self.submit(source, priority=-1).result(cancelled)

    def find(self, source: Source) -> Built | None:
        """A build from the cache, or None; never compiles."""
        return lookup(source, self.cache) if source.backend == "cute" else _lookup_cpp(source, self.cache)

    def loadable(self, source: Source, cancelled: Callable[[], bool] = lambda: False) -> tuple[Path, Path | None]:
        """(the module to import, what its `load` takes) of a program, built unless the cache has it. Raises
        BuildError."""
        built = self.find(source) or self.build(source, cancelled)
        if source.backend == "cute":
            return built.path, None
        key = content_key("binding", source.binding)
        folder = self.cache.get(key) or self.cache.put(key, {"binding.py": source.binding.encode()})
        return folder / "binding.py", built.path

    def close(self) -> None:
        """Cancel everything, end every worker and wait for the threads."""
        with self._ready:
            self._closed = True
            jobs = list(self._jobs.values())
            self._ready.notify_all()
        for job in jobs:
            if not job.done:
                job.cancel()
        for thread in self._threads:
            thread.join(timeout=10)

    # ---- inside ----

    def _grow(self) -> None:
        """Start another worker for a build that waits, one after the other: until one is ready it takes a core from
        those that are."""
        if self._waiting < len(self._queue) and not self._importing:
            self._start()

    def _start(self) -> None:
        if len(self._threads) < self.size:
            self._importing += 1
            thread = threading.Thread(target=self._work, name=f"build-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _urge(self, job: Job) -> None:
        with self._ready:
            job.priority = -2
            self._queue = [(-2 if _of(queued) is job else p, number, queued) for p, number, queued in self._queue]
            heapq.heapify(self._queue)
            self._ready.notify_all()  # it may run now, or leave its place to a build ahead

    def _drop(self, job: Job) -> None:
        with self._ready:
            waits = any(queued is job for *_, queued in self._queue)
            self._queue = [entry for entry in self._queue if _of(entry[2]) is not job]
            heapq.heapify(self._queue)
            if waits:
                job._end(None, BuildError("cancelled", "the build was stopped on request"))
            self._ready.notify_all()

    def _share(self, job: Job, parts: Parts, path: Path) -> None:
        """Let other threads help with a job's stages, as soon as they have nothing more urgent to do."""
        with self._ready:
            for _ in range(min(self.size, parts.left) - 1):
                heapq.heappush(self._queue, (job.priority, next(self._number), Help(job, parts, path)))
                self._grow()
            self._ready.notify_all()

    def _work(self) -> None:
        builder = CuteBuilder(self.cache)
        if toolchain.find().cute:
            with contextlib.suppress(BuildError):  # the first build raises it again
                builder.warm(lambda: self._closed)
        with self._ready:
            self._importing -= 1
            self._grow()
        try:
            while (job := self._next()) is not None:
                try:
                    self._do(job, builder)
                finally:
                    with self._ready:
                        self._running.remove(_of(job))
                        self._jobs = {key: other for key, other in self._jobs.items() if not other.done}
                        self._ready.notify_all()
        finally:
            builder.close()

    def _do(self, job: Job | Help, builder: CuteBuilder) -> None:
        if isinstance(job, Help):
            job.by(builder)
            return
        try:
            job._end(self._one(job, builder), None)
        except BuildError as error:
            job._end(None, error)
        except Exception as error:
            job._end(None, BuildError("compile_failed", f"{type(error).__name__}: {error}"))

    def _next(self) -> Job | Help | None:
        with self._ready:
            self._waiting += 1
            try:
                while not (self._queue and (not _of(self._queue[0][2]).ahead or self._room_ahead())):
                    if self._closed and not self._queue:
                        return None
                    self._ready.wait()
                entry = heapq.heappop(self._queue)[2]
                self._running.append(_of(entry))
                return entry
            finally:
                self._waiting -= 1

    def _room_ahead(self) -> bool:
        """Whether a build that nobody waits for may begin."""
        return sum(job.ahead for job in self._running) < default_ahead(self.size, self.crowded())

    def _one(self, job: Job, builder: CuteBuilder) -> Built:
        def stop() -> bool:
            return job._stop.is_set() or self._closed

        if job.source.backend == "cute":
            share = functools.partial(self._share, job)
            return builder.build(job.source, cancelled=stop, share=share if self.size > 1 else None)
        return build_cpp(job.source, self.cache, stop)


def _of(entry: Job | Help) -> Job:
    return entry.job if isinstance(entry, Help) else entry


def _key(source: Source) -> str:
    return module_key(source) if source.backend == "cute" else _cpp_key(source)


def _cpp_key(source: Source) -> str:
    return content_key("cpp", source.text, toolchain.find().fingerprint("cpp"), source.arch)


def _lookup_cpp(source: Source, cache: Cache) -> Built | None:
    started = time.perf_counter()
    folder = cache.get(_cpp_key(source))
    if folder is None:
        return None
    try:
        facts = json.loads((folder / "built.json").read_text())
    except (OSError, ValueError):
        return None
    return Built(folder / "library.so", time.perf_counter() - started, True, tuple(facts["resources"]), facts["log"])


def takes_long(source: Source) -> bool:
    """Return True for a unit that includes CUTLASS's templates: nvcc takes 20 to 60 s for it, of two cores."""
    return source.backend == "cpp" and '#include "cutlass/' in source.text


def _built(source: Source, folder: Path, seconds: float, cancelled: Callable[[], bool]) -> nvcc.Built:
    """Build in halves if the unit includes CUTLASS's templates, which nvcc alone would compile twice. If g++ cannot
    compile the unit (engine.build.host_check defines few of the device's functions), build it whole."""
    if takes_long(source):
        try:
            return nvcc.build(source, folder, seconds=seconds, cancelled=cancelled, halves=True)
        except BuildError as error:
            if error.code != "compile_failed":
                raise
            log.warning("%s is built whole: %s", source.namespace, error.reason)
    return nvcc.build(source, folder, seconds=seconds, cancelled=cancelled)


def build_cpp(
    source: Source, cache: Cache, cancelled: Callable[[], bool] = lambda: False, seconds: float = SECONDS
) -> Built:
    """A `cpp` Source by nvcc, or from the cache. Raises BuildError."""
    if cached := _lookup_cpp(source, cache):
        return cached
    with tempfile.TemporaryDirectory(prefix="ucutlass-") as folder:
        built = _built(source, Path(folder), seconds, cancelled)
        resources = [
            {
                "kernel": f"{k.get('kind', 'kernel')} {k['stage']}",
                "stage": k["stage"],
                "registers": k.get("registers"),
                "shared_bytes": k.get("smem_static", 0) + k.get("smem", 0),
                "spill_bytes": k.get("spill_stores", 0) + k.get("spill_loads", 0),
                **{name: k[name] for name in ("stages", "threads") if name in k},
            }
            for k in built.kernels
        ]
        facts = json.dumps({"resources": resources, "log": built.log}).encode()
        entry = cache.put(_cpp_key(source), {"library.so": built.path, "built.json": facts})
    return Built(entry / "library.so", built.seconds, False, tuple(resources), built.log)
