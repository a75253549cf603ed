"""Warm children: importing torch takes 1.5 to 2 s, so a child that has imported it waits for the next pasted module.

Each child runs one module and ends. The caller of `take` sets its memory limit.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable

from engine.sandbox.process import Sandbox, SandboxEnded, default_memory

_waiting: dict[tuple[bool, str, bool, tuple[str, ...]], Sandbox] = {}
_lock = threading.Lock()
TORCH = ("torch",)


def warm(*, gpu: bool = False, visible: str = "", local_user: bool = False, preload: tuple[str, ...] = TORCH) -> None:
    """Start a child in the background unless one waits. Raises SessionRefused if the sandbox is missing."""
    key = (gpu, visible, local_user, preload)
    with _lock:
        old = _waiting.get(key)
        if old is not None and old.alive:
            return
        if old is not None:
            old.close()
        _waiting[key] = Sandbox(gpu=gpu, visible=visible, local_user=local_user, preload=preload).start(wait=False)


def take(
    *,
    gpu: bool = False,
    visible: str = "",
    local_user: bool = False,
    preload: tuple[str, ...] = TORCH,
    memory_bytes: int | None = None,
    timeout: float = 60.0,
    cancelled: Callable[[], bool] | None = None,
) -> Sandbox:
    """A ready child, warm or new; the caller closes it. Raises SessionRefused, SandboxEnded."""
    with _lock:
        box = _waiting.pop((gpu, visible, local_user, preload), None)
    for _ in range(2):
        if box is None or not box.alive:
            if box is not None:
                box.close()
            box = Sandbox(gpu=gpu, visible=visible, local_user=local_user, preload=preload).start(wait=False)
        box.memory_bytes = memory_bytes or default_memory()
        try:
            box.wait_ready(timeout, cancelled)
            return box
        except SandboxEnded as e:
            box.close()
            if e.code in ("cancelled", "no_cuda"):
                raise
            last = e
    raise last


def drain() -> None:
    """End the waiting children."""
    with _lock:
        boxes = list(_waiting.values())
        _waiting.clear()
    for box in boxes:
        with contextlib.suppress(Exception):
            box.close()


atexit.register(drain)
