"""Checks of values that change no result: torch.distributions looks whether each parameter is in its range."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def unvalidated() -> Iterator[None]:
    """Let `Normal(mean, deviation)` and the others take any value in this context, as under `python -O`: a tensor that
    is traced has none. The module itself, which gives the right results, still validates."""
    from torch.distributions import Distribution

    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


__all__ = ["unvalidated"]
