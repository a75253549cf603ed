"""Modules are traced once in a test run: a tracer imports torch and torch.export, 4 to 5 s of a core.

The first test that needs the graph of a module gets it from the real tracer in its sandbox; every later one, in this
process or in another worker of pytest-xdist, gets a copy. Refusals are not kept. tests/engine/trace, and whoever has
imported `trace` before, call the tracer itself.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

from engine.trace import Traced
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
    traced = real(source, cancelled=cancelled, **how)
    with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as part:
        part.write(pickle.dumps(traced))
    os.replace(part.name, path)  # whole or not at all
    return traced
