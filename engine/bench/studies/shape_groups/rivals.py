"""How long torch.compile's module takes at a shape, by the clock that times the kernels.

A session times torch.compile by another clock, in the module's process, and both are compared through eager PyTorch,
which each clock timed. The outside clock adds some tenths of a microsecond to each call (a copy of 0.5 MB takes 2.0 us
by it and 1.5 in a graph of the process itself). Eager PyTorch in eight kernels hides that, one kernel of 2 us does not.
So the study times torch.compile once more, on the same fresh inputs as the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.bench.studies.shape_groups.clock import on_gpu, timed_or_why
from engine.bench.studies.shape_groups.saved import Saved
from engine.evaluate.integrity.verify import Verifier
from engine.session.events import blob_name

WAY = "compile"  # in its default mode; max-autotune's own CUDA graph copies every input and is slower at each shape
Time = Callable[[str, str, str], dict[str, Any]]  # of a module, a kernel for it and a class


def measured(
    source: str, kernel: str, cls: str, way: str = WAY, language: str = "cuda",
    start: Callable[[str], Verifier] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """{way, ms, kind, method} of a module on this machine's GPU, which nothing else may use meanwhile. `kernel` is what
    the clock wants beside it; its time is not read. Raises what ended a process."""
    from engine.evaluate.integrity.measuring import measure

    with (start or on_gpu)(source) as verifier:
        timed = measure(verifier.examiner, kernel, language, cls, way)
    return {"way": timed.baseline, "ms": timed.baseline_ms, "kind": "measured", "method": timed.method}


class Rivals:
    """torch.compile's times of a study. `time`: of one, None where none can be taken; `saved`: of an earlier run."""

    def __init__(self, time: Time | None = None, saved: Saved | None = None):
        self._time, self._saved = time, saved or Saved()

    def of(self, source: str, kernel: str, cls: str) -> dict[str, Any] | None:
        """As `measured`; without a time `ms` is None and `why` says why. None where nothing is measured."""
        time = self._time
        if time is None:
            return None
        name = f"{blob_name(source)[:16]} {cls}"
        return timed_or_why(lambda: self._saved.once(name, lambda: time(source, kernel, cls)), way=WAY)


__all__ = ["WAY", "Rivals", "measured"]
