"""What is said of an operation that no program can hold, and which operation that is."""

from __future__ import annotations

from collections.abc import Sequence

from engine.devices import SessionRefused
from sol.graph import Op

FACTORIES = ("zeros", "ones", "full", "empty", "arange", "zeros_like", "ones_like", "full_like", "new_zeros")


def refuse(op: Op | None, why: str, covered: Sequence[tuple[str, str]] = ()) -> SessionRefused:
    """The refusal of an operation. `why` completes the sentence that begins with the operation and its line."""
    line = op.line if op else None
    if op is None:
        return SessionRefused("not_covered", why, covered=covered)
    # The user wrote nn.LSTM, not the aten.zeros that it begins with.
    what = f"`nn.{op.module}`" if op.module else f"`aten.{op.op}`"
    notes = [f"line {line}"] if line else []
    # Name the operation inside nn.MultiheadAttention, but not one that only allocates memory.
    part = op.op.replace("_", "") not in op.module.lower() and op.op not in FACTORIES
    notes += [f"its aten.{op.op}"] if op.module and part else []
    where = f" ({', '.join(notes)})" if notes else ""
    return blamed(SessionRefused("not_covered", f"{what}{where} {why}", line, why, covered), op.name)


def blamed(error: SessionRefused, op: str) -> SessionRefused:
    """The refusal with the operation (its name in the graph) to leave to PyTorch because of it."""
    error.op = op
    return error
