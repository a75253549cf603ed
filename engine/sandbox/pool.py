"""Warm children: a child that has imported torch waits for the next pasted module, because a new one takes 1.5 to 2 s,
or 0.1 s as a fork (forkserver).

Each child runs one module and ends. The caller of `take` sets its memory limit.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections import Counter
from collections.abc import Callable

from engine.sandbox.process import Sandbox, SandboxEnded, default_memory

_waiting: dict[tuple[bool, str, bool, tuple[str, ...], tuple[str, ...]], list[Sandbox]] = {}
_starting: Counter[tuple] = Counter()  # children that `warm` is about to start
_lock = threading.Lock()
TORCH = ("torch",)


def warm(
    *, gpu: bool = False, visible: str = "", local_user: bool = False, preload: tuple[str, ...] = TORCH,
    late: tuple[str, ...] = (), many: int = 1,
) -> None:  # fmt: skip
    """Start children in the background until `many` wait. Raises SessionRefused if the sandbox is missing."""
    key = (gpu, visible, local_user, preload, late)
    with _lock:
        waiting = _waiting.setdefault(key, [])
        for box in [box for box in waiting if not box.alive]:
            waiting.remove(box)
            box.close()
        missing = max(0, many - len(waiting) - _starting[key])
        _starting[key] += missing
    for number in range(missing):  # without the lock: the first of a kind waits for its fork server
        try:
            box = Sandbox(gpu=gpu, visible=visible, local_user=local_user, preload=preload, late=late)
            box.start(wait=False)
        except BaseException:
            with _lock:
                _starting[key] -= missing - number
            raise
        with _lock:
            _starting[key] -= 1
            waiting.append(box)


def take(
    *,
    gpu: bool = False,
    visible: str = "",
    local_user: bool = False,
    preload: tuple[str, ...] = TORCH,
    late: tuple[str, ...] = (),
    memory_bytes: int | None = None,
    timeout: float = 60.0,
    cancelled: Callable[[], bool] | None = None,
) -> Sandbox:
    """A ready child, warm or new; the caller closes it. A start that fails, or takes longer than `timeout` seconds on a
    busy machine, is tried once more, without the fork server. Raises SessionRefused, SandboxEnded."""
    with _lock:
        waiting = _waiting.get((gpu, visible, local_user, preload, late))
        box = waiting.pop(0) if waiting else None
    for forks in (True, False):
        if box is None or not box.alive:
            if box is not None:
                box.close()
            box = Sandbox(gpu=gpu, visible=visible, local_user=local_user, preload=preload, late=late, forks=forks)
            box.start(wait=False)
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
        boxes = [box for waiting in _waiting.values() for box in waiting]
        _waiting.clear()
    for box in boxes:
        with contextlib.suppress(Exception):
            box.close()


atexit.register(drain)
