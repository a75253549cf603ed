"""torch.as_strided as the views that it stands for: slices and windows of the flat tensor.

as_strided reads memory by offsets, so it has a meaning for one place in memory alone. On a dense tensor it is a chain
of views that hold for any tensor of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Step = tuple[str, dict[str, Any], Callable[[Any], Any]]  # ATen's name, its attributes, the same in PyTorch


def as_views(x: Any, size: Sequence[int], stride: Sequence[int], offset: int | None) -> list[Step] | None:
    """The views of a dense tensor that give `x.as_strided(size, stride, offset)`; None if it reads outside of x."""
    start = 0 if offset is None else offset - x.storage_offset()
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if not x.is_contiguous() or 0 in size or start < 0 or start + reach > x.numel():
        return None
    steps: list[Step] = [
        ("view", {"size": [x.numel()]}, lambda t: t.reshape(-1)),
        ("slice", {"dim": 0, "start": start, "end": start + reach, "step": 1}, lambda t: t[start : start + reach]),
    ]
    moving = sorted((i for i, n in enumerate(size) if n > 1 and stride[i]), key=lambda i: -stride[i])
    for place, axis in enumerate(moving):  # the last axis is what is left of the flat tensor
        left = 1 + sum((size[i] - 1) * stride[i] for i in moving[place + 1 :])
        steps.append(_window(place, left, stride[axis]))
    steps.append(("select", {"dim": len(moving), "index": 0}, lambda t: t.select(-1, 0)))
    order = [moving.index(i) for i in sorted(moving)]
    if order != sorted(order):
        steps.append(("permute", {"dims": order}, lambda t: t.permute(order)))
    for axis in (i for i in range(len(size)) if i not in moving):
        steps.append(_unsqueezed(axis))
    if any(n > 1 and not s for n, s in zip(size, stride, strict=True)):
        steps.append(("expand", {"size": list(size), "implicit": False}, lambda t: t.expand(list(size))))
    return steps


def _window(axis: int, size: int, step: int) -> Step:
    attrs = {"dimension": axis, "size": size, "step": step}
    return "unfold", attrs, lambda t: t.unfold(axis, size, step)


def _unsqueezed(axis: int) -> Step:
    return "unsqueeze", {"dim": axis}, lambda t: t.unsqueeze(axis)


__all__ = ["as_views"]
