"""torch.compile's times for a session: read back if this machine has taken them, else taken on request and stored.

They take 20 s to minutes each, so no search waits for them. They are context beside a session's own baselines, never a
side of a ratio, which comes from calls that alternate in one run (`python -m engine measure --baseline compile`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from engine.build.cache import Cache
from engine.devices import Problem
from engine.evaluate.reference import baseline_cache
from engine.session import events

WAYS = ("compile", "compile_max")


def names(classes: list[str], native: str) -> list[str]:
    """The names of torch.compile's baselines in both modes, in each class in which a module of class `native` is
    searched."""
    suffixes = ["" if cls in (native, "f32") else f"_{cls}" for cls in classes]
    return [way + suffix for suffix in dict.fromkeys(suffixes) for way in WAYS]


def beside_a_search(name: str) -> bool:
    """Return True for a baseline that is compiled without the GPU. max-autotune tries kernels on it, so it needs the
    lane."""
    return baseline_cache.parts(name)[0] == "compile"


class Kept:
    """The stored times of one problem on one GPU (its name and driver)."""

    def __init__(self, cache: Cache, problem: Problem, gpu: str, driver: str | None):
        self.cache, self.gpu, self.driver = cache, gpu, driver
        self.source, self.graph = problem.source, problem.graph.to_json()

    def _key(self, name: str) -> str:
        return baseline_cache.key(self.source, self.graph, name, self.gpu, self.driver)

    def read(self, name: str) -> events.Baseline | None:
        """A time that was taken earlier; its note gives the date."""
        entry = baseline_cache.load(self.cache, self._key(name))
        if entry is None:
            return None
        day = datetime.fromtimestamp(entry.taken, UTC).date().isoformat()
        time_ = events.Measurement(
            entry.ms, entry.low, entry.high, entry.sample, entry.method, entry.device, entry.call_ms
        )
        note = f"{entry.note}, timed on {day} in another run".lstrip(", ")
        return events.Baseline(name, entry.cls, time_, note, entry.beside, entry.ratio)

    def known(self, requested: list[str]) -> Iterator[events.Baseline]:
        for name in requested:
            baseline = self.read(name)
            if baseline is not None:
                yield baseline

    def write(self, timed: events.Baseline, moment: float | None = None) -> None:
        """`moment`: seconds since the epoch; None: now."""
        t, call_ms = timed.time, timed.time.call_ms or 0.0
        moment = time.time() if moment is None else moment
        entry = baseline_cache.Timed(
            timed.name, timed.cls, t.ms, t.low, t.high, call_ms, t.sample, t.method, timed.note, t.device, moment,
            timed.beside, timed.ratio,
        )  # fmt: skip
        baseline_cache.store(self.cache, self._key(timed.name), entry)
