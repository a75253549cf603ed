"""Where the elements of a view lie in the tensor that it shows, as far as strides can say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from engine.strategies.planner.lowering.rules.views import SWAPS, permutation
from sol.graph import SLICES, Op, OpGraph

COPIES = ("contiguous", "clone")
RESHAPES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze")


Run = tuple[int, int]  # (elements, the step from one to the next)


@dataclass(frozen=True)
class Strided:
    """Elements of the row-major tensor `root`, the first of which is `start`. An axis is one run of elements a step
    apart, or several nested ones (batches and heads as one axis)."""

    root: str
    start: int
    axes: tuple[tuple[Run, ...], ...]

    @staticmethod
    def whole(root: str, shape: tuple[int, ...]) -> Strided:
        return Strided(root, 0, tuple(((d, s),) for d, s in zip(shape, row_major(shape), strict=True)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(d for d, _ in runs) for runs in self.axes)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The step along each axis; None if one is of several runs."""
        return tuple(runs[0][1] for runs in self.axes) if all(len(runs) == 1 for runs in self.axes) else None

    def moved(self, order: Sequence[int]) -> Strided:
        """Axis i of the result is axis order[i]."""
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def cut(self, axis: int, first: int, size: int) -> Strided | None:
        """`size` elements along an axis, from `first` on."""
        if size == self.shape[axis]:
            return self
        if len(self.axes[axis]) > 1:
            return None
        ((_, step),) = self.axes[axis]
        axes = (*self.axes[:axis], ((size, step),), *self.axes[axis + 1 :])
        return Strided(self.root, self.start + first * step, axes)

    def reshaped(self, shape: tuple[int, ...]) -> Strided | None:
        """The same elements in the same order as `shape`; None where an axis would begin within a run."""
        left: list[Run] = []
        for d, step in (run for runs in self.axes for run in runs if run[0] != 1):
            if left and left[-1][1] == step * d:  # the run before continues in this one
                d *= left.pop()[0]
            left.append((d, step))
        axes: list[tuple[Run, ...]] = []
        for size in reversed(shape):
            runs: list[Run] = []
            while size > 1:
                if not left:
                    return None
                d, step = left.pop()
                part = min(d, size)
                if d % part or size % part:
                    return None
                if d > part:
                    left.append((d // part, step * part))
                runs.insert(0, (part, step))
                size //= part
            axes.insert(0, tuple(runs) or ((1, 0),))
        return None if left else replace(self, axes=tuple(axes))

    @property
    def order(self) -> tuple[int, ...] | None:
        """The axes as they follow each other in memory, if together they are a whole row-major tensor; else None."""
        if self.strides is None:
            return None
        axes = sorted(range(len(self.axes)), key=lambda i: (-self.strides[i], self.shape[i] != 1, i))
        return tuple(axes) if self.moved(axes).plain else None

    @property
    def plain(self) -> bool:
        """Return True if the elements are a row-major tensor from its first one on."""
        return self.lies(self.shape, row_major(self.shape))

    def lies(self, shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> bool:
        """Return True if the elements are these; strides of axes of size 1 do not count."""
        if self.strides is None or self.shape != shape or self.start != start:
            return False
        return all(a == b or d == 1 for d, a, b in zip(shape, self.strides, strides, strict=True))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def strided(graph: OpGraph, name: str) -> tuple[Strided, ...]:
    """A tensor of a graph as a view of each tensor that its operations only show, the earliest first, itself last.
    PyTorch's copies in between (`contiguous`) count as views too."""
    chain: list[tuple[Op, str]] = []
    while (op := graph.producer.get(name)) is not None and _shows(graph, op):
        chain.append((op, name))
        name = op.inputs[0]
    roots = [Strided.whole(name, graph.tensors[name].shape)]
    for op, out in reversed(chain):
        seen = [s for s in (_step(graph, s, op, out) for s in roots) if s is not None]
        roots = [*seen, Strided.whole(out, graph.tensors[out].shape)]
    return tuple(roots)


def _shows(graph: OpGraph, op: Op) -> bool:
    if op.op in COPIES:
        return graph.tensors[op.inputs[0]].dtype == graph.tensors[op.outputs[0]].dtype
    return op.op in (*SWAPS, *RESHAPES, *SLICES, "select", "unbind") and len(op.inputs) == 1


def _step(graph: OpGraph, seen: Strided, op: Op, out: str) -> Strided | None:
    shape = graph.tensors[out].shape
    if op.op in COPIES:
        return seen
    if op.op in SWAPS:
        return seen.moved(permutation(op, len(seen.axes)))
    if op.op in RESHAPES:
        return seen.reshaped(shape)
    axis = int(op.attrs.get("dim", 0)) % len(seen.axes)
    if op.op in ("select", "unbind"):
        at = op.outputs.index(out) if op.op == "unbind" else int(op.attrs["index"]) % seen.shape[axis]
        one = seen.cut(axis, at, 1)
        return one and one.moved([i for i in range(len(seen.axes)) if i != axis])
    if op.attrs.get("step", 1) != 1:
        return None
    before = op.outputs[: op.outputs.index(out)]
    start = int(op.attrs.get("start") or 0)
    start = max(0, start + seen.shape[axis]) if start < 0 else min(start, seen.shape[axis])
    start += sum(graph.tensors[n].shape[axis] for n in before)
    return seen.cut(axis, start, shape[axis])


__all__ = ["Strided", "row_major", "strided"]
