"""Run one operation of a traced graph in PyTorch as the module ran it, for the operations beside regions.

A graph comes from a process that ran pasted text, so its words are not trusted: only the functional operations in
engine.evaluate.candidate.allowed_aten run, by ATen's own schemas, with arguments that fit their types. Needs torch;
only for workers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.evaluate.candidate import aten_calls
from engine.evaluate.candidate.allowed_aten import ALLOWED
from engine.evaluate.correctness.inputs import torch_dtype
from sol.graph import Op


class UnknownOp(ValueError):
    """No operation of this name runs beside regions, or its arguments fit none of its schemas."""


def operation(op: Op, device: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """The operation as a function of its tensors. Its schema is looked up once. Raises UnknownOp."""
    if op.op not in ALLOWED:
        raise UnknownOp(f"`aten.{op.op}` is not among the operations that run beside a region")
    call = aten_calls.find(op.op, len(op.inputs), op.attrs, torch.device(device), torch_dtype)
    if call is None:
        raise UnknownOp(f"`aten.{op.op}` was traced with arguments that fit none of its schemas")
    return call
