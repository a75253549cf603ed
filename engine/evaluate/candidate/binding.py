"""A tensor of a module as a program's parameter sees it. Needs torch; workers only."""

from __future__ import annotations

import torch


def bound(binding: dict, value: torch.Tensor) -> torch.Tensor:
    """The tensor as the program sees it: on fewer rows its leading axis is shorter, booleans are the bytes 1 and 0."""
    if binding.get("transposed"):
        value = value.transpose(-2, -1)
    shape = list(binding["shape"])
    total = 1
    for d in shape[1:]:
        total *= d
    if shape:
        shape[0] = value.numel() // max(total, 1)
    value = value.reshape(shape)
    return value.view(torch.int8) if value.dtype is torch.bool else value
