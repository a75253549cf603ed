"""Numbers that a module takes from the element type that it computes in.

They are `torch.finfo(x.dtype).eps`, and the eps of an RMS norm that names none. In float64 they would be others, so
that the right results would be those of another module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock


class OwnTypes:
    """The types that one call of the module takes such numbers from, in the order of the call. `unknown`: the last call
    in float64 asked for one, and they are not noted yet."""

    def __init__(self) -> None:
        self.unknown = False
        self._types: list[Any] | None = None

    @property
    def noted_once(self) -> bool:
        return self._types is not None

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the types of a call of the module in its own types."""
        types: list[Any] = []
        with _asked(lambda dtype: types.append(dtype) or dtype):
            yield
        self._types, self.unknown = types, False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Give a call in float64 the numbers of the noted types."""
        self.unknown, types = False, iter(self._types or ())

        def own(dtype: Any) -> Any:
            self.unknown |= self._types is None
            return next(types, dtype)

        with _asked(own):
            yield


@contextlib.contextmanager
def _asked(own: Callable[[Any], Any]) -> Iterator[None]:
    """In this context numbers of a type are those of the type that `own` gives for it."""
    import torch

    info, norm = torch.finfo, torch.rms_norm
    half = (torch.float16, torch.bfloat16)

    def finfo(dtype: Any = None, **named: Any) -> Any:
        dtype = named.get("type", dtype)
        return info(own(torch.get_default_dtype() if dtype is None else dtype))

    def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
        if eps is None:
            dtype = own(input.dtype)  # PyTorch computes halves in float32
            eps = info(torch.float32 if dtype in half else dtype).eps
        return norm(input, normalized_shape, weight, eps)

    with mock.patch.object(torch, "finfo", finfo), mock.patch.object(torch, "rms_norm", rms_norm):
        yield


__all__ = ["OwnTypes"]
