"""PyTorch's operations on functions (flex_attention, cond, scan), without the compiler that each of them asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from engine.trace.names import control_flow, flex


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """In this context each of them is the operations that it stands for. Dispatch modes see these, too."""
    with flex.opened(), control_flow.opened():
        yield


__all__ = ["opened"]
