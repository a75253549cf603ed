"""Modules are traced once in a test run, in copies of one sandbox: a new one imports torch.export, 3 s of a core.

The first test that needs the graph of a module gets it from the real tracer in its sandbox; every later one, in this
process or in another worker of pytest-xdist, gets a copy. Refusals are not kept. Tests of tracing that are not about
how the child starts use `in_copies`; those about hostile texts call the tracer itself.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pickle
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from engine import sandbox
from engine.sandbox import Sandbox
from engine.trace import Traced, parent
from engine.trace import trace as real


def folder() -> Path:
    """The folder of this test run (tests/conftest.py), which all of its processes share."""
    path = Path(os.environ["UCUTLASS_TEST_RUN"]) / "traced"
    path.mkdir(exist_ok=True)
    return path


def once(source: str, *, cancelled: Any = None, **how: Any) -> Traced:
    """As engine.trace.trace."""
    key = hashlib.sha256(repr((source, sorted(how.items()))).encode()).hexdigest()
    path = folder() / key
    if path.exists():
        return pickle.loads(path.read_bytes())
    traced = in_copies(source, cancelled=cancelled, **how)
    with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as part:
        part.write(pickle.dumps(traced))
    os.replace(part.name, path)  # whole or not at all
    return traced


_lock = threading.Lock()
_boxes: dict[tuple[tuple[str, Any], ...], Sandbox] = {}


def in_copies(source: str, **how: Any) -> Traced:
    """As engine.trace.trace, by a copy of a child of this process that has loaded torch.export."""
    instead = SimpleNamespace(take=_copy, process=sandbox.process)
    with _lock, mock.patch.object(parent, "sandbox", instead):
        return real(source, **how)


@contextlib.contextmanager
def _copy(*, memory_bytes: int, cancelled: Any = None, **kind: Any) -> Iterator[Sandbox]:
    if Sandbox.strength(kind["gpu"]) == "full":
        kind["local_user"] = False  # one child for both: there is no difference
    key = tuple(kind.items())
    box = _boxes.get(key)
    if box is None or not box.alive:
        box = _boxes[key] = Sandbox(**kind).start()
    box.memory_bytes = memory_bytes
    box.fork()
    try:
        yield box
    finally:
        if box.alive:
            box.reap()


def end_boxes() -> None:
    """End the children whose copies traced."""
    while _boxes:
        _boxes.popitem()[1].close()


atexit.register(end_boxes)
