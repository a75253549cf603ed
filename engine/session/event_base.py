"""Base classes of a session's events: the event itself, blob names, measured and predicted times."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar


def blob_name(text: str) -> str:
    """The name of a blob: SHA-256 of its UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Measurement:
    """A time taken on a real device: the median in ms, its bootstrap 95% interval, the sample and the method."""

    ms: float
    low: float
    high: float
    sample: list[float]
    method: str
    device: dict[str, Any]  # name, driver, clocks in MHz, temperature in C, power in W, throttle reasons
    call_ms: float | None = None  # host wall time of one call, launch to synchronised end
    kind: str = "measured"


@dataclass(frozen=True)
class Prediction:
    """A time that a model computes for a device that was not used."""

    ms: float
    model: str  # t_attainable
    device: str  # name of the hardware file, e.g. h200
    bound_by: str = ""  # name of the limit that binds
    error: float | None = None  # the model's known median relative error against recorded runs
    kind: str = "predicted"


Time = Measurement | Prediction


@dataclass(frozen=True)
class Event:
    """Base of all events. `t` is seconds since the epoch at the engine."""

    KIND: ClassVar[str] = ""
