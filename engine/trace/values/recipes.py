"""The values of tensors that a module makes while it is built with fake tensors: a causal mask, for example.

Fake tensors have no values. `Recipes` writes down the operations of the constructor, and `value` repeats with real
tensors those that one tensor depends on. Weights are never made that way, because nothing asks for them.
"""

from __future__ import annotations

from typing import Any

from torch.utils._pytree import tree_leaves, tree_map

from engine.trace.dispatch import DispatchMode

MAX_ELEMENTS = 1 << 26  # of all tensors that a value takes to make
MAX_STEPS = 100_000


class Recipes(DispatchMode):
    """While active, inside the mode of fake tensors, it records every operation. `read`: whether the text may read a
    number that it made itself, such as `[x.item() for x in torch.linspace(0, 0.1, 12)]`."""

    def __init__(self):
        super().__init__()
        self.steps: list[tuple[Any, tuple, dict, Any]] = []
        self.read = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.read and func.name() == "aten::_local_scalar_dense" and (number := self._number(args[0])) is not None:
            return number
        out = func(*args, **kwargs)
        if len(self.steps) < MAX_STEPS:
            self.steps.append((func, args, kwargs, out))
        return out

    def _number(self, target: Any) -> Any:
        """The value of a tensor with one element, or None."""
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        known = self.value(target)
        with unset_fake_temporarily():
            return None if known is None else known.item()

    def value(self, target: Any) -> Any:
        """The real tensor in place of a fake one; None if it is random, unknown or too large."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

        if not isinstance(target, FakeTensor):
            return target if isinstance(target, torch.Tensor) else None
        steps = self._needed(target)
        if steps is None:
            return None
        real: dict[int, Any] = {}  # id of a fake tensor -> the real one

        def of(leaf: Any) -> Any:
            return real[id(leaf)] if isinstance(leaf, FakeTensor) else leaf

        try:
            with torch.no_grad(), unset_fake_temporarily():
                for func, args, kwargs, out in steps:
                    result = func(*tree_map(of, args), **tree_map(of, kwargs))
                    for fake, leaf in zip(tree_leaves(out), tree_leaves(result), strict=True):
                        if isinstance(fake, FakeTensor):
                            real[id(fake)] = leaf
        except Exception:  # an operation on a tensor from elsewhere
            return None
        return real.get(id(target))

    def _needed(self, target: Any) -> list[tuple[Any, tuple, dict, Any]] | None:
        """The steps that make or change what the target's memory holds, in order."""
        memory, chosen, elements = {_memory(target)}, [], 0
        for step in reversed(self.steps):
            func, args, kwargs, out = step
            outs, reads = _tensors(out), _tensors((args, kwargs))
            written = reads if func._schema.is_mutable else []
            if memory.isdisjoint(map(_memory, [*outs, *written])):
                continue
            elements += sum(t.numel() for t in outs)
            if elements > MAX_ELEMENTS or "nondeterministic_seeded" in {t.name for t in func.tags}:
                return None
            memory.update(map(_memory, reads))
            chosen.append(step)
        return chosen[::-1]


def _tensors(tree: Any) -> list[Any]:
    import torch

    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _memory(t: Any) -> int:
    return t.untyped_storage()._cdata


__all__ = ["Recipes"]
