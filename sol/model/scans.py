"""How much of a GPU a running sum keeps busy: each row is one block's, and each column one thread's."""

from __future__ import annotations

from dsl import ir
from dsl.axes import axes_of
from dsl.lower.cpp.generated.reduce import FILL
from dsl.lower.cpp.generated.scan import WIDEST_TEAM

VECTOR_BITS = 128  # that a thread reads at once along a row


def busy(stage: ir.Scan, x: ir.TensorType) -> float:
    """The share of the threads that saturate memory which a scan of `x` has work for, from 0 to 1."""
    (at,) = (p for name in stage.over for p in axes_of(stage, len(x.shape))[name])
    length = x.shape[at]
    inner = next((a for a in reversed(x.memory_order) if x.shape[a] > 1), at)
    each = min(WIDEST_TEAM, -(-length * x.dtype.bits // VECTOR_BITS)) if inner == at else 1
    return min(1.0, x.elements // max(1, length) * each / FILL)


__all__ = ["busy"]
