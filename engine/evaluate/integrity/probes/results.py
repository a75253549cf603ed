"""Tensors that came from a candidate or went through its hands, by torch.Tensor's own functions.

A tensor may carry attributes of its own: `y.detach = lambda: ...` would compute when the harness reads it. So the
functions here are those of the class, never those of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

_detach, _data_ptr, _stride = torch.Tensor.detach, torch.Tensor.data_ptr, torch.Tensor.stride
_numel, _element_size, _copy = torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.copy_


def bare(x: Any) -> Any:
    """The same memory without the tensor's own attributes."""
    return _detach(x)


def copy(to: Any, x: Any) -> None:
    """Copy the values of a tensor, in place."""
    _copy(to, x)


def written(tensors: Iterable[Any]) -> None:
    """Raise the versions of tensors whose memory another process has written."""
    torch.autograd.graph.increment_version(list(tensors))


def shadows(x: Any) -> list[str]:
    """Names of torch.Tensor that this tensor gives another meaning."""
    own = getattr(x, "__dict__", None)
    return sorted(name for name in own if hasattr(torch.Tensor, name)) if isinstance(own, dict) else []


def shadowed(tensors: dict[str, Any]) -> list[str]:
    """The same of the tensors that a candidate is given, with their names."""
    return [f"{name}.{what}" for name, x in tensors.items() for what in shadows(x)]


def about(x: Any, inputs: dict[str, Any], previous: list[Any]) -> dict:
    """The type, the shape and the memory of a result."""
    facts = {
        "type": f"{type(x).__module__}.{type(x).__name__}",
        "plain": type(x) in (torch.Tensor, torch.nn.Parameter),
    }
    if facts["plain"] and (names := shadows(x)):
        facts["plain"], facts["type"] = False, f"tensor with {', '.join(names[:4])} of its own"
    elif facts["plain"] and (keys := extra_keys(x)):
        facts["plain"], facts["type"] = False, f"tensor with {keys}, which computes when it is read"
    facts["shape"], facts["dtype"] = list(x.shape), str(x.dtype).removeprefix("torch.")
    facts["device"], facts["layout"] = x.device.type, str(x.layout).removeprefix("torch.")
    if type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout == torch.strided:
        mine = _span(x)
        facts["aliases_input"] = next((n for n, t in inputs.items() if _overlap(mine, _span(t))), None)
        facts["aliases_previous"] = any(_overlap(mine, _span(t)) for t in previous)
    return facts


def _span(x: Any) -> tuple[int, int]:
    """The range of bytes of a tensor's elements."""
    if _numel(x) == 0:
        return 0, 0
    reach = sum((n - 1) * s for n, s in zip(x.shape, _stride(x), strict=True))
    return _data_ptr(x), _data_ptr(x) + (reach + 1) * _element_size(x)


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def extra_keys(x: Any) -> str:
    """The dispatch keys that a tensor has and a fresh one of its device has not, as a lazy negation or conjugation."""
    usual = torch._C._dispatch_keys(torch.empty(0, device=x.device))
    mine = torch._C._dispatch_keys(x)
    return str(mine - usual) if mine.raw_repr() & ~usual.raw_repr() and x.layout == torch.strided else ""
