"""How long a plain copy takes, of as many bytes as a kernel reads and writes.

At few rows a launch alone takes longer than the bandwidth allows the bytes, so no kernel comes near the bandwidth's
bound there; a copy takes the launch too. On a GPU the clock of raw kernels times it: the outside clock, fresh inputs
for each call, L2 flushed. It copies by PyTorch's elementwise kernel (and negates): `copy_` is cudaMemcpy, whose speed
changes with the number of bytes (268,451,840 at 4.0 TB/s and 268,439,552 at 2.6). For a predicted device the model of
PyTorch's kernels gives the time, and the row says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.bench.studies.shape_groups.clock import on_gpu, timed_or_why
from engine.bench.studies.shape_groups.saved import Saved
from engine.devices import SessionRefused
from engine.evaluate.integrity.verify import Verifier
from engine.trace import trace
from sol.attainable import predict_eager
from sol.bounds import external_bytes
from sol.hardware import Hardware

HALF = 2  # bytes of an f16 number
# The module says what the inputs are. It negates them, because one that returns a copy computes nothing and is refused.
MODULE = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return -x


def get_inputs():
    return [torch.randn({elements}, dtype=torch.float16)]
"""
COPY = """\
import torch


def kernel(x):
    return torch.neg(x)
"""

Time = Callable[[int], dict[str, Any]]


def module(moved: int) -> str:
    """A module that reads half of so many bytes and writes the other half."""
    return MODULE.format(elements=max(1, moved // (2 * HALF)))


def moved_by(source: str) -> int:
    """The bytes that a kernel for this module reads and writes at least. Raises SessionRefused."""
    return round(sum(external_bytes(trace(source, local_user=True).graph).values()))


def measured(moved: int, start: Callable[[str], Verifier] | None = None) -> dict[str, Any]:
    """{bytes, ms, low, high, kind, method} of a copy on this machine's GPU, which nothing else may use meanwhile.
    `start`: of a module's verifier. Raises what ended a process."""
    from engine.evaluate.integrity.measuring import measure

    with (start or on_gpu)(module(moved)) as verifier:
        timed = measure(verifier.examiner, COPY, "python", "f16")
    return {
        "bytes": moved, "ms": timed.ms, "low": timed.low, "high": timed.high, "kind": "measured",
        "method": timed.method,
    }  # fmt: skip


def predicted(moved: int, hardware: Hardware) -> dict[str, Any]:
    """The same for a GPU that is not here."""
    time_ = predict_eager(trace(module(moved), local_user=True).graph, hardware, "f16")
    return {"bytes": moved, "ms": time_.ms, "kind": "predicted", "method": "the model of PyTorch's kernels"}


class Copies:
    """The copies of a study, one for each number of bytes. `time`: of one; `saved`: those of an earlier run too."""

    def __init__(self, time: Time, saved: Saved | None = None):
        self._time, self._saved = time, saved or Saved()

    def of(self, source: str) -> dict[str, Any]:
        """The copy for a module: as `measured`; without a time `ms` is None and `why` says why."""
        try:
            moved = moved_by(source)
        except SessionRefused as e:
            return {"bytes": 0, "ms": None, "why": e.reason}
        return timed_or_why(lambda: self._saved.once(str(moved), lambda: self._time(moved)), bytes=moved)


__all__ = ["Copies", "measured", "module", "moved_by", "predicted"]
