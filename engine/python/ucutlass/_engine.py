"""Find the engine that this package drives: inside it, where pip installed it, or the checkout that it lies in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALLED, CHECKOUT = HERE / "_rooms", HERE.parents[2]  # folders with dsl, sol and engine
ROOMS = INSTALLED if INSTALLED.is_dir() else CHECKOUT


def _use() -> None:
    if not (ROOMS / "engine" / "session" / "runner.py").exists():
        raise ImportError(f"the engine is not in {ROOMS}; install this package with pip from a checkout")
    if str(ROOMS) not in sys.path:
        sys.path.append(str(ROOMS))
    for room in ("dsl", "sol", "engine"):
        spec = importlib.util.find_spec(room)
        if spec is None or spec.origin is None or Path(spec.origin).resolve().parent != ROOMS / room:
            raise ImportError(f"another package is called {room!r} ({spec and spec.origin}); ucutlass needs that name")


_use()
