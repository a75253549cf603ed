"""Views: reshapes, permutations and expansions, none of which moves an element by itself."""

from __future__ import annotations

from engine.strategies.planner.lowering.drafts import Leaf, Value
from engine.strategies.planner.lowering.lowering_context import LoweringContext
from sol.graph import Op

SWAPS = ("transpose", "permute", "t", "mT", "numpy_T")
VIEWS = (*SWAPS, "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "expand",
         "expand_as", "select")  # fmt: skip
# How far an operation moves elements, by the attribute that says so, and by how much it moves none.
AMOUNTS = {"pad": ("pad", 0), "constant_pad_nd": ("pad", 0), "roll": ("shifts", 0), "repeat": ("repeats", 1)}


def still(op: Op) -> bool:
    """Return True if an operation moves no element, though others of its kind do: windows are padded by nothing where
    they fit, and rolled by nothing in every second layer."""
    name, nothing = AMOUNTS.get(op.op, ("", 0))
    amounts = op.attrs.get(name, 1 - nothing)
    return all(a == nothing for a in (amounts if isinstance(amounts, list | tuple) else [amounts]))


def view(walk: LoweringContext) -> Value:
    """The same elements under another shape, or with their axes in another order."""
    op, value, shape = walk.op, walk.arguments()[0], walk.out().shape
    if isinstance(value, float) or (value.shape == shape and op.op not in SWAPS):
        return value
    if op.op in SWAPS:
        leaf = walk.leaf(value)
        order = permutation(op, len(leaf.shape))
        return Leaf(leaf.source, leaf.base, tuple(leaf.order[i] for i in order))
    if op.op in ("expand", "expand_as"):  # broadcasting: the reader sees the sizes
        return walk.leaf(value)
    if op.op == "select" and value.shape[int(op.attrs["dim"])] != 1:
        raise walk.refuse("of one of several is not covered yet")
    return walk.reshaped(value, shape)


def permutation(op: Op, rank: int) -> list[int]:
    """Axis i of the result of a swap is axis `permutation[i]` of its tensor."""
    order = list(range(rank))
    if op.op == "permute":
        return [d % rank for d in op.attrs["dims"]]
    if op.op == "numpy_T":
        return order[::-1]
    if rank < 2:
        return order
    i, j = (-2, -1) if op.op in ("t", "mT") else (int(op.attrs["dim0"]), int(op.attrs["dim1"]))
    i, j = i % rank, j % rank
    order[i], order[j] = order[j], order[i]
    return order


__all__ = ["SWAPS", "VIEWS", "permutation", "still", "view"]
