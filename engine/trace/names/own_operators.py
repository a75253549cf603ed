"""Operators that a text defines with `torch.library.custom_op`: traced as the PyTorch operations in their body."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """In this context a call of such an operator runs its Python function, in place of an operation that only the text
    knows. What that function does outside of PyTorch is refused as anywhere else."""
    from torch._library.custom_ops import CustomOpDef

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._init_fn(*arguments, **named)

    with mock.patch.object(CustomOpDef, "__call__", call):
        yield


__all__ = ["opened"]
