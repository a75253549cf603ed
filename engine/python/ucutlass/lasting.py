"""Whether what forward keeps in attributes of the module decides what later calls compute.

torch.export traces one call and freezes such an attribute: a counter, a hidden state that is no buffer. A cache that
each call would fill alike does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree

from engine.trace.writes import state

from .arguments import Call
from .errors import OptimizeError

CLOSE = 1e-3  # of the largest value: what the exported operations may differ from the module's own


def check(module: torch.nn.Module, call: Call, program: Any, start: state.State, changed: Iterable[str]) -> None:
    """Call the module twice, the second time with other values, and compare with its exported program. `start`: the
    module as it was traced; it is put back. `changed`: the attributes that a call changes. Raises OptimizeError."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]

    def back() -> None:
        for buffer, values in buffers:
            buffer.copy_(values)

    with torch.no_grad():
        try:
            calls = [_copied(call, torch.clone), _copied(call, _drawn)]
            own = [_leaves(module(*one.args, **one.kwargs)) for one in [_copied(c, torch.clone) for c in calls]]
            start.restore()
            back()
            exported = program.module()
            frozen = [_leaves(exported(*one.args, **one.kwargs)) for one in calls]
        finally:
            start.restore()
            back()
    if not all(_close(a, b) for one, other in zip(own, frozen, strict=True) for a, b in zip(one, other, strict=True)):
        raise OptimizeError(state.refuse(changed).reason)


def settle(module: torch.nn.Module, call: Call) -> None:
    """Call the module once, on copies, for what it keeps of its first call."""
    one = _copied(call, torch.clone)
    with torch.no_grad():
        module(*one.args, **one.kwargs)


def _copied(call: Call, of: Any) -> Call:
    return Call(*_pytree.tree_map(lambda x: of(x) if torch.is_tensor(x) else x, (call.args, call.kwargs)))


def _drawn(x: torch.Tensor) -> torch.Tensor:
    return torch.randn_like(x) if x.is_floating_point() and x.element_size() > 1 else x.clone()


def _leaves(result: Any) -> list[torch.Tensor]:
    return [x.clone() for x in _pytree.tree_leaves(result) if torch.is_tensor(x)]


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or not a.numel():
        return a.shape == b.shape
    if not a.is_floating_point():
        return bool((a == b).float().mean() > 1 - CLOSE)
    bound = CLOSE * float(a.float().abs().nan_to_num().max())
    return torch.allclose(a.float(), b.float(), rtol=CLOSE, atol=bound, equal_nan=True)


__all__ = ["check", "settle"]
