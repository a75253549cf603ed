"""torch.compile's times for a session: read back where this machine has taken them, else taken when asked, and kept.

They take 20 s to minutes each, so no search waits for them. They are context beside a session's own baselines, never a
side of a ratio: a ratio comes from calls that alternate in one run (`python -m engine measure --baseline compile`).
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
    """Of torch.compile in both modes, in each class that a module of class `native` is searched in."""
    suffixes = ["" if cls in (native, "f32") else f"_{cls}" for cls in classes]
    return [way + suffix for suffix in dict.fromkeys(suffixes) for way in WAYS]


class Kept:
    """What is known of one problem on one GPU (its name and driver)."""

    def __init__(self, cache: Cache, problem: Problem, gpu: str, driver: str | None):
        self.cache, self.gpu, self.driver = cache, gpu, driver
        self.source, self.graph = problem.source, problem.graph.to_json()

    def _key(self, name: str) -> str:
        return baseline_cache.key(self.source, self.graph, name, self.gpu, self.driver)

    def read(self, name: str) -> events.Baseline | None:
        """One that was timed earlier; its note says when."""
        found = baseline_cache.load(self.cache, self._key(name))
        if found is None:
            return None
        day = datetime.fromtimestamp(found.taken, UTC).date().isoformat()
        time_ = events.Measurement(
            found.ms, found.low, found.high, found.sample, found.method, found.device, found.call_ms
        )
        note = f"{found.note}, timed on {day} in another run".lstrip(", ")
        return events.Baseline(name, found.cls, time_, note, found.beside, found.ratio)

    def known(self, wanted: list[str]) -> Iterator[events.Baseline]:
        for name in wanted:
            found = self.read(name)
            if found is not None:
                yield found

    def write(self, timed: events.Baseline, taken: float | None = None) -> None:
        """`taken`: seconds since the epoch; None: now."""
        t, call_ms = timed.time, timed.time.call_ms or 0.0
        taken = time.time() if taken is None else taken
        kept = baseline_cache.Timed(
            timed.name, timed.cls, t.ms, t.low, t.high, call_ms, t.sample, t.method, timed.note, t.device, taken,
            timed.beside, timed.ratio,
        )  # fmt: skip
        baseline_cache.store(self.cache, self._key(timed.name), kept)
