"""Compile `cute` modules in a warm worker process of CuTe DSL: 1 to 2 s per kernel, without a GPU or nvcc.

The compiled kernels are in quack's disk cache, inside this machine's build cache. The process that runs the module (it
owns the GPU) must start with `environment(cache)`. Then its first call takes milliseconds, also for other shapes of the
same kernel.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsl.lower import Source
from engine import forks, start
from engine.build import limited, toolchain
from engine.build.cache import Cache, content_key
from engine.build.limited import BuildError
from engine.build.parts import MANY, Parts
from engine.jsonprocess import JsonProcess, WorkerLost, python_path

SECONDS = 120.0  # for one module of at most LARGE stages
LARGE = 20
WARM_SECONDS = 180.0  # for the worker's imports, which take 7 to 12 s on a quiet machine
MEMORY = 4 << 30  # resident bytes of the worker; it needs 0.6 GB
ARCH = "sm_90a"


@dataclass(frozen=True)
class Built:
    """A build of either back end.

    path       the argument of the binding's `load`: the module's file (`cute`) or the shared library (`cpp`).
    seconds    the time of this build; near 0 from the cache.
    resources  [{kernel, stage, registers, shared_bytes, spill_bytes}]: registers per thread at launch, shared memory
               per block (static and dynamic), bytes of local memory per thread; `cute` also the instructions of the
               machine code, and for GEMMs stages and threads.
    """

    path: Path
    seconds: float
    cached: bool
    resources: tuple[dict, ...]
    log: str = ""


def environment(cache: Cache) -> dict[str, str]:
    """The environment variables with which a process finds the kernels that the worker compiled."""
    return {
        "QUACK_CACHE_DIR": str(cache.folder("quack")),
        "QUACK_CACHE_ENABLED": "1",
        "QUACK_ARCH": "sm_90",
        "CUTE_DSL_ARCH": ARCH,
    }


def limit(source: Source) -> float:
    """The seconds that a module's compilation may take in one worker: a whole model has a hundred kernels of 1 to 2 s,
    more on two cores. Each stage of the text, and each that rescues a guarded program, has a heading of its own."""
    return SECONDS * -(-max(1, source.text.count("\n# ---- ")) // LARGE)


def module_key(source: Source) -> str:
    return content_key("cute", source.text, toolchain.find().fingerprint("cute"), ARCH)


def lookup(source: Source, cache: Cache) -> Built | None:
    """An earlier build with its module and all compiled kernels, or None. Takes well under a millisecond."""
    started = time.perf_counter()
    folder = cache.get(module_key(source))
    if folder is None:
        return None
    try:
        facts = json.loads((folder / "built.json").read_text())
    except (OSError, ValueError):
        return None
    objects = [cache.folder("quack") / name for name in facts["objects"]]
    try:
        for path in objects:
            os.utime(path)
    except FileNotFoundError:  # pruned
        cache.drop(module_key(source))
        return None
    return Built(folder / "module.py", time.perf_counter() - started, True, tuple(facts["resources"]))


class CuteBuilder:
    """One worker process, started when first needed and again after a crash. Not thread safe: one caller at a time."""

    def __init__(self, cache: Cache, *, memory: int = MEMORY, command: list[str] | None = None):
        self.cache, self.memory = cache, memory
        self._command = command or start.command("engine.build.cute_worker")
        self._forks = forks.of(self._environment()) if command is None else None
        self._process: JsonProcess | None = None

    def warm(self, cancelled: Callable[[], bool] = lambda: False) -> dict:
        """Start the worker and wait until it has imported everything. Raises BuildError."""
        missing = toolchain.find().missing("torch", "cute_dsl", "quack")
        if missing:
            raise BuildError("no_toolchain", missing[0])
        return self._ask({"op": "warm"}, WARM_SECONDS, cancelled)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def build(
        self, source: Source, *, seconds: float | None = None, cancelled: Callable[[], bool] = lambda: False,
        share: Callable[[Parts, Path], None] | None = None,
    ) -> Built:  # fmt: skip
        """Compile a `cute` Source, or take it from the cache. `seconds`: for all of it (its `limit`), and for each
        stage if others help: `share(parts, path)` lets them, and is called before this worker begins with the stages of
        a large module. Raises BuildError; the next build gets a fresh worker."""
        if cached := lookup(source, self.cache):
            return cached
        if "flash_attn" in source.text and (missing := toolchain.find().missing("flash_attn")):
            raise BuildError("no_toolchain", missing[0])
        if self._process is None or not self._process.alive:
            self.warm(cancelled)
        started = time.perf_counter()
        # CuTe DSL reads the text of kernels from the file while it compiles. It is this build's own: a build that was
        # stopped may end, and take its file with it, after the next one of the same program has begun.
        key = module_key(source)
        aside = self.cache.folder("modules") / f"{key}_{os.getpid()}_{id(self)}.py"
        aside.write_text(source.text)
        try:
            shared = share is not None and self._shared(aside, seconds or SECONDS, cancelled, share)
            reply = self._asked({"op": "build", "path": str(aside)}, seconds or limit(source), cancelled)
            facts = json.dumps({"resources": reply["resources"], "objects": reply["objects"]}).encode()
            folder = self.cache.put(key, {"module.py": source.text.encode(), "built.json": facts})
        finally:
            aside.unlink(missing_ok=True)  # also after a failed build
        cached = reply["cached"] and not shared
        return Built(folder / "module.py", time.perf_counter() - started, cached, tuple(reply["resources"]))

    def part(self, path: Path, stage: str, seconds: float, cancelled: Callable[[], bool]) -> bool:
        """Compile one stage of a module for another worker. Returns True if it was compiled before. Raises
        BuildError."""
        return self._asked({"op": "build", "path": str(path), "stages": [stage]}, seconds, cancelled)["cached"]

    def _shared(
        self, path: Path, seconds: float, cancelled: Callable[[], bool], share: Callable[[Parts, Path], None]
    ) -> bool:
        """Compile the stages of a large module with those that help. Returns True if one was new."""
        stages = self._asked({"op": "stages", "path": str(path)}, seconds, cancelled)["stages"]
        if len(stages) < MANY:
            return False
        new = []

        def compile_(stage: str) -> None:
            new.append(not self.part(path, stage, seconds, cancelled))

        parts = Parts(stages, cancelled)
        share(parts, path)
        parts.work(compile_)
        parts.wait()
        return any(new) or len(new) < len(stages)

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _asked(self, message: dict, seconds: float, cancelled: Callable[[], bool]) -> dict:
        """A reply that is no error. Raises BuildError."""
        reply = self._ask(message, seconds, cancelled)
        if "error" in reply:
            message = str(reply.get("message", "")).strip()
            first = next((line.strip() for line in message.splitlines() if line.strip()), reply["error"])
            raise BuildError("compile_failed", f"CuTe DSL failed: {reply['error']}: {first[:300]}", message)
        return reply

    def _ask(self, message: dict, seconds: float, cancelled: Callable[[], bool]) -> dict:
        if self._process is None or not self._process.alive:
            self.close()
            self._process = JsonProcess(
                self._command, env=self._environment(), name="CuTe DSL compiler", forks=self._forks
            )
        process, over_limit = self._process, []

        def stop() -> bool:
            if limited.resident(process.pid, self.memory) > self.memory:
                over_limit.append(True)
            return bool(over_limit) or cancelled()

        try:
            return process.request(message, timeout=seconds, cancelled=stop)
        except WorkerLost as lost:
            self.close()
            if over_limit:
                reason = f"the compiler needed more than {self.memory >> 20:,} MiB of memory and was ended"
                raise BuildError("memory", reason, lost.log) from None
            code = {"timeout": "timeout", "cancelled": "cancelled"}.get(lost.why, "compiler_died")
            raise BuildError(code, str(lost), lost.log) from None

    def _environment(self) -> dict[str, str]:
        # Hide the GPU: a compile must not open a context on the device on which another process is timing.
        mine = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path()}
        return {**os.environ, **environment(self.cache), **mine}
