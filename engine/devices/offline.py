"""Building without a GPU: machine code where CuTe DSL is installed, CUTLASS's own checks where its headers are.

A trial on a modelled device shows what the toolchain says when there is one, and else says in one sentence what
would have to be installed; it never fails for want of a compiler. The warm CuTe worker belongs to the process, not
to a session: its imports take 9 s.
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
    """One builder a process: a modelled device never waits for more than one build at a time."""
    made = BuildPool(size=1)
    atexit.register(made.close)
    return made


def warm() -> None:
    """Let the CuTe worker import its libraries in the background; nothing where they are not installed."""
    if toolchain.find().cute:
        pool().warm()


def build(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    """Raises TrialError("compile", ...) when a compiler refuses the program."""
    found = toolchain.find()
    try:
        if candidate.backend == "cute" and found.cute:
            built = pool().build(candidate.sources["cute"], cancelled)
            resources = [dict(r) for r in built.resources]
            return events.TrialCompiled(
                candidate.trial, "cute", "machine code", built.seconds, built.cached, resources, "no GPU was needed"
            )
        if candidate.backend == "cpp" and found.host_check:
            return _host_check(candidate, cancelled)
    except BuildError as e:
        raise TrialError("compile", e.code, e.reason, e.log or None) from None
    wanted = ("cute_dsl", "quack", "torch") if candidate.backend == "cute" else ("cutlass_headers", "gxx")
    return events.TrialCompiled(
        candidate.trial, candidate.backend, "not compiled", 0.0, note=next(iter(found.missing(*wanted)), "")
    )


def _host_check(candidate: Candidate, cancelled: Callable[[], bool]) -> events.TrialCompiled:
    """g++ over the unit, or what it said the last time: 5 to 10 s saved for the same text."""
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
