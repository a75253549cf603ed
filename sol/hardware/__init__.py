"""Devices by name, read from the TOML files beside this module: one file per GPU, each number with its source.

Rates inside a Hardware are plain per-second numbers (FLOP/s, bytes/s); the files hold TFLOP/s and TB/s as data
sheets do. A user's own file has the same fields and is loaded by its path.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from sol.hardware.cpu import this_machine
from sol.hardware.device import CLASSES, PRECISIONS, Hardware, HardwareError
from sol.hardware.toml_file import from_toml

__all__ = ["CLASSES", "PRECISIONS", "Hardware", "HardwareError", "available", "from_toml", "load"]

_FOLDER = Path(__file__).parent


@lru_cache(maxsize=1)  # the files belong to the program
def available() -> tuple[str, ...]:
    """Names that `load` knows, the CPU last."""
    return (*sorted(p.stem for p in _FOLDER.glob("*.toml")), "cpu")


@lru_cache(maxsize=64)
def _shipped(name: str) -> Hardware:
    return from_toml((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def load(name: str | os.PathLike) -> Hardware:
    """A device by name (`h200`, `cpu`) or a user's own file by its path (`./my-gpu.toml`).

    Raises HardwareError: an unknown name with the list of known ones, or a file's first bad field.
    """
    text = os.fspath(name)
    if text == "cpu":
        return this_machine()
    if text in available():
        return _shipped(text)
    if text.endswith(".toml") or os.sep in text:
        try:
            return from_toml(Path(text).read_text(encoding="utf-8"), Path(text).name)
        except (OSError, UnicodeDecodeError) as e:
            raise HardwareError(f"cannot read {text}: {getattr(e, 'strerror', None) or e}") from None
    raise HardwareError(f"no GPU is called {text!r}; choose from {', '.join(available())}, or give a path to a .toml")
