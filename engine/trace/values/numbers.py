"""Numbers that a module keeps in buffers: the stride of a convolution, from which forward computes how far to pad.

While a module is traced its buffers have no values, so `if length <= self.padding:` would be refused, although every
call takes the same branch. PyTorch's fake tensors can carry the value of one element and compute with it. Ours do so
for whole numbers in buffers outside of the state_dict, which no checkpoint replaces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:  # the engine's own process imports this module, and never torch
    from engine.trace.values.recipes import Recipes


def remember(model: Any, recipes: Recipes) -> None:
    """Give the fake tensors among a module's numbers their values, where the recipes have them."""
    for tensor in _numbers(model).values():
        if getattr(tensor, "constant", True) is None:
            value = recipes.value(tensor)
            if value is not None and value.shape == tensor.shape:
                _carry(tensor, value)


@contextlib.contextmanager
def carried(model: Any) -> Iterator[dict[str, Any]]:
    """In this context, the fake tensors that torch.export makes of a module's numbers carry their values. Gives the
    numbers by their paths."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorConverter

    numbers = _numbers(model)
    values = {id(t): t.constant if isinstance(t, FakeTensor) else t.detach().clone() for t in numbers.values()}
    convert = FakeTensorConverter.from_real_tensor

    def converted(self: Any, mode: Any, tensor: Any, *arguments: Any, **named: Any) -> Any:
        fake = convert(self, mode, tensor, *arguments, **named)
        value = values.get(id(tensor))
        if value is not None and fake is not None and fake is not tensor and fake.constant is None:
            _carry(fake, value)
        return fake

    with mock.patch.object(FakeTensorConverter, "from_real_tensor", converted) if numbers else contextlib.nullcontext():
        yield numbers


def _carry(fake: Any, value: Any) -> None:
    """PyTorch takes the value away again where the tensor is written."""
    fake.constant = value
    fake.fake_mode.fake_tensor_converter.add_constant_storage_mapping(fake)


def _numbers(model: Any) -> dict[str, Any]:
    """Path -> buffer of one element that is no float, outside of the state_dict."""
    import torch

    numbers: dict[str, Any] = {}
    for prefix, module in model.named_modules():
        for name in module._non_persistent_buffers_set:
            value = module._buffers.get(name)
            single = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.numel() == 1
            if single and not value.is_floating_point() and not value.is_complex():
                numbers[f"{prefix}.{name}".lstrip(".")] = value
    return numbers


__all__ = ["carried", "remember"]
