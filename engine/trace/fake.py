"""Building and calling a module on fake tensors, which have shapes and types but no memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from engine.trace.recurrent import shapes_only


@functools.cache
def histogram_of_any_type() -> Any:
    """Let `histc` have shapes for whole numbers, too: a GPU counts them, and mixtures of experts count their tokens so.
    PyTorch refuses them on a CPU, where modules are traced: in its own function of the shapes, which torch.export asks,
    and, since fake tensors alone do not ask that one, where it counts zeros instead. Returns what keeps ours
    registered."""
    import torch

    def shape(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
        return x.new_empty((bins,))

    library, op = torch.library.Library("aten", "IMPL"), torch.ops.aten.histc.default
    library.impl("histc", shape, "Meta", allow_override=True)  # torch 2.11 has one of its own
    op.py_kernels[torch._C.DispatchKey.Meta] = shape
    op._dispatch_cache.clear()
    return library


@contextlib.contextmanager
def fake_tensors() -> Iterator[None]:
    """Make tensors fake in this context. Modules of fake tensors can be converted (`.half()`, `.to(torch.bfloat16)`).

    `Module._apply` replaces a fake parameter by its conversion with `torch.utils.swap_tensors`, which refuses tensors
    with weak references, and every fake tensor has one. Setting `.data` also keeps the parameter's identity, and with
    it tied weights and lists that contain it.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    histogram_of_any_type()
    original = torch.nn.Module._apply

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        own = [p for p in self._parameters.values() if p is not None]
        if not own or not all(isinstance(p, FakeTensor) and p.grad is None for p in own):
            return original(self, fn, recurse)
        if recurse:
            for child in self.children():
                child._apply(fn)
        with torch.no_grad():
            for p in own:
                new = fn(p)
                if new is not p:
                    p.data = new.data
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    torch.nn.Module._apply = _apply
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), shapes_only():
            yield
    finally:
        torch.nn.Module._apply = original
