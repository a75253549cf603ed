"""Stored times of PyTorch, by module, shapes, versions and device, so that they need not be taken again.

A cached baseline is context, never a side of a ratio: ratios come from calls that alternate in one run. The cache saves
torch.compile's minutes where a table shows its time beside the others, with the date and the condition of the GPU.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.build import toolchain
from engine.build.cache import Cache, content_key

WAYS = ("eager", "compile", "compile_max")
CLASSES = ("tf32", "f16", "bf16")
NAMES = tuple(way + suffix for way in WAYS for suffix in ("", *(f"_{c}" for c in CLASSES)))
VERSION = "1"  # of the method: after a change of how times are taken, old entries are not found


def parts(name: str) -> tuple[str, str | None]:
    """(mode, requested precision class) of a name: compile_max_tf32 is ("compile_max", "tf32").

    Raises ValueError with the existing names."""
    way, _, cls = name.rpartition("_")
    if cls not in CLASSES:
        way, cls = name, ""
    if way not in WAYS:
        raise ValueError(f"there is no baseline {name!r}; there are {', '.join(NAMES)}")
    return way, cls or None


@dataclass(frozen=True)
class Timed:
    """One baseline's time: median and bootstrap 95% interval in milliseconds, with its conditions."""

    name: str
    cls: str
    ms: float
    low: float
    high: float
    call_ms: float
    sample: list[float]
    method: str
    note: str = ""
    device: dict[str, Any] = field(default_factory=dict)
    taken: float = 0.0  # seconds since the epoch
    beside: str = ""  # the baseline that it was alternated with
    ratio: float | None = None  # its time over that baseline's


def key(source: str, graph: str, name: str, gpu: str, driver: str | None) -> str:
    """The key of one baseline. `graph`: the op graph as JSON (with every shape and type); `gpu`: the device's name."""
    versions = toolchain.find().versions()
    parts = [f"{n}={versions.get(n)}" for n in ("torch",)] + [f"triton={_triton()}", f"driver={driver}"]
    return content_key("baseline", VERSION, source, graph, name, gpu, *parts)


def _triton() -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def load(cache: Cache, at: str) -> Timed | None:
    """The baseline under a key; None if there is none, or none that can be read."""
    folder = cache.get(at)
    if folder is None:
        return None
    try:
        return Timed(**json.loads((folder / "baseline.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def store(cache: Cache, at: str, timed: Timed) -> None:
    """Store a baseline; a newer one replaces an older one."""
    cache.drop(at)
    cache.put(at, {"baseline.json": json.dumps(asdict(timed)).encode()})
