"""Checks of values that change no result: torch.distributions looks whether each parameter is in its range, and a
Gaussian loss whether its variances are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def unvalidated() -> Iterator[None]:
    """Let `Normal(mean, deviation)` and the others take any value in this context, as under `python -O`: a tensor that
    is traced has none. The module itself, which gives the right results, still validates."""
    import torch
    from torch.distributions import Distribution
    from torch.nn import functional

    loss = functional.gaussian_nll_loss

    @functools.wraps(loss)
    def unchecked(*arguments: Any, **named: Any) -> Any:
        with mock.patch.object(torch, "any", lambda *_: False):  # all that it asks is whether a variance is negative
            return loss(*arguments, **named)

    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        with mock.patch.object(functional, "gaussian_nll_loss", unchecked):
            yield
    finally:
        Distribution.set_default_validate_args(before)


__all__ = ["unvalidated"]
