"""A size that depends on values, where an operation counts with it: `torch.arange(rows.shape[0])`, `x / rows.shape[0]`.

A graph has no numbers that differ between calls, so the count is computed from a tensor that has this size.
"""

from __future__ import annotations

from typing import Any

from engine.trace.strided import Step

_LIKE = {"layout": None, "device": None, "pin_memory": None, "memory_format": None}
_PLACED = ("device", "pin_memory", "layout")  # arguments of arange that change no value


def is_size(value: Any) -> bool:
    """Return True for a node that is the size of a tensor along an axis."""
    return str(getattr(value, "target", "")) == "aten.sym_size.int"


def range_of(node: Any) -> Any:
    """The node of the size that a node counts up to from 0; None if it does something else."""
    size = node.args[0] if len(node.args) == 1 else node.args[-1] if node.args[:1] == (0,) else None
    named = {name: value for name, value in node.kwargs.items() if name not in _PLACED and value is not None}
    is_range = str(node.target) in ("aten.arange.default", "aten.arange.start") and not named
    return size if is_range and is_size(size) else None


def steps(size: Any, whole: bool) -> list[Step]:
    """The operations on the tensor of a size that give 0, 1, 2, ... along its axis, or, `whole`, how many these are."""
    import torch

    axis, rank = size.args[1] % size.args[0].meta["val"].dim(), size.args[0].meta["val"].dim()
    others = [d for d in reversed(range(rank)) if d != axis]
    line: list[Step] = [("select", {"dim": d, "index": 0}, lambda x, d=d: x.select(d, 0)) for d in others]
    line.append(("ones_like", {"dtype": "i64", **_LIKE}, lambda x: torch.ones_like(x, dtype=torch.int64)))
    if whole:
        return [*line, ("sum", {"dtype": None}, lambda x: x.sum())]
    return [
        *line,
        ("cumsum", {"dim": 0, "dtype": None}, lambda x: x.cumsum(0)),
        ("sub", {"other": 1, "alpha": 1}, lambda x: x - 1),
    ]


__all__ = ["is_size", "range_of", "steps"]
