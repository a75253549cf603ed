"""Builds without a GPU: machine code if CuTe DSL is installed, CUTLASS's own checks if its headers are.

A trial on a modelled device shows the toolchain's output if there is a toolchain, and otherwise one sentence about what
to install; it never fails for lack of a compiler. The warm CuTe worker belongs to the process, not to a session,
because its imports take 9 s.
"""

from __future__ import annotations

import atexit
import functools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine.build import host_check, toolchain
from engine.build.cache import Cache, content_key
from engine.build.limited import BuildError
from engine.build.pool import BuildPool
from engine.devices import Candidate, TrialError
from engine.session import events

HOST_NOTE = "g++ tried every static assertion of CUTLASS and its can_implement; registers are known to nvcc alone"


@functools.cache
def pool() -> BuildPool:
    """One builder per process, because a modelled device never waits for more than one build at a time."""
    builds = BuildPool(size=1)
    atexit.register(builds.close)
    return builds


def warm() -> None:
    """Let the CuTe worker import its libraries in the background. Does nothing if they are not installed."""
    if toolchain.find().cute:
        pool().warm()


def build(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    """Raises TrialError("compile", ...) if a compiler refuses the program."""
    tools = toolchain.find()
    try:
        if candidate.backend == "cute" and tools.cute:
            built = pool().build(candidate.sources["cute"], cancelled)
            resources = [dict(r) for r in built.resources]
            return events.TrialCompiled(
                candidate.trial, "cute", "machine code", built.seconds, built.cached, resources, "no GPU was needed"
            )
        if candidate.backend == "cpp" and tools.host_check:
            return _host_check(candidate, cancelled)
    except BuildError as e:
        raise TrialError("compile", e.code, e.reason, e.log or None) from None
    parts = ("cute_dsl", "quack", "torch") if candidate.backend == "cute" else ("cutlass_headers", "gxx")
    return events.TrialCompiled(
        candidate.trial, candidate.backend, "not compiled", 0.0, note=next(iter(tools.missing(*parts)), "")
    )


def _host_check(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    """Run g++ on the unit, or return its earlier output for the same text, which saves 5 to 10 s."""
    started = time.perf_counter()
    source, cache = candidate.sources["cpp"], pool().cache
    key = content_key("host_check", source.text, toolchain.find().fingerprint("cpp"))
    kernels = _known(cache, key)
    cached = kernels is not None
    if kernels is None:
        with tempfile.TemporaryDirectory(prefix="ucutlass-") as folder:
            kernels = host_check.check(source, Path(folder), cancelled=cancelled).kernels
        cache.put(key, {"checked.json": json.dumps(kernels).encode()})
    resources = [
        {
            "kernel": k.get("kind", ""),
            "stage": k.get("stage", ""),
            "registers": None,
            "shared_bytes": k.get("smem"),
            "spill_bytes": None,
            "stages": k.get("stages"),
            "threads": k.get("threads"),
        }
        for k in kernels
    ]
    seconds = time.perf_counter() - started
    return events.TrialCompiled(candidate.trial, "cpp", "host check", seconds, cached, resources, HOST_NOTE)


def _known(cache: Cache, key: str) -> list[dict] | None:
    folder = cache.get(key)
    try:
        return json.loads((folder / "checked.json").read_text()) if folder else None
    except (OSError, ValueError):
        return None
