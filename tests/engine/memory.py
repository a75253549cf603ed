"""Bytes of the tensors that live at a time, as PyTorch's operations make them, on any device."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Peak(TorchDispatchMode):
    """`bytes`: the most that lived at once of what was made inside; what operations need only within themselves does
    not count.

    with Peak() as peak:
        work()
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self._now = 0
        self._tensors: dict[int, int] = {}  # address of a storage -> tensors on it

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        before = {t.untyped_storage().data_ptr() for t in self._all((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for t in self._all(result):
            storage = t.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            if not address or (address in before and address not in self._tensors):
                continue  # a view of what was there before
            if address not in self._tensors:
                self._tensors[address] = 0
                self._now += size
                self.bytes = max(self.bytes, self._now)
            self._tensors[address] += 1
            weakref.finalize(t, self._ended, address, size)
        return result

    @staticmethod
    def _all(tree: Any) -> list[torch.Tensor]:
        return [t for t in torch.utils._pytree.tree_leaves(tree) if type(t) is torch.Tensor]

    def _ended(self, address: int, size: int) -> None:
        self._tensors[address] -= 1
        if not self._tensors[address]:
            del self._tensors[address]
            self._now -= size
