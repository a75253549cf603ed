"""Views: another shape over the same elements of memory, read in row-major order of the old shape."""

from __future__ import annotations

from collections.abc import Sequence


def view_strides(shape: Sequence[int], strides: Sequence[int], view: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of `view` over a tensor's elements in row-major order; None if there are none, so that the elements
    have to be copied first. A row-major tensor has every view, one with channels last those that keep channels apart.
    """
    runs: list[list[int]] = []  # contiguous groups of axes: number of elements, stride of the last
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = [runs[-1][0] * extent, stride]
        else:
            runs.append([extent, stride])
    out: list[int] = []
    left, step = runs.pop() if runs else (1, 1)
    for extent in reversed(view):
        while left == 1 and extent > 1:
            if not runs:
                return None
            left, step = runs.pop()
        if left % extent:
            return None
        out.append(step)
        left, step = left // extent, step * extent
    return tuple(reversed(out))
