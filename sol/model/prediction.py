"""Predicted times as data: the time of one stage (`StageTime`) and of a whole run (`Attainable`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sol.hardware import Hardware
from sol.model.tiles import GAP_MS, LAUNCH_MS


@dataclass(frozen=True)
class StageTime:
    """One stage. `parts`: where its ms go (launch, fill, main, epilogue, ...); they sum to `ms`. `bound_by`: what binds
    its work, or what delays it (`queued`)."""

    name: str
    kind: str  # gemm | transform | library | pointwise | ...
    ms: float
    bound_by: str  # tensor | l2 | memory | epilogue | special | vector | launch | fill
    parts: dict[str, float] = field(hash=False, default_factory=dict)
    flops: float = 0.0
    bytes: float = 0.0  # to and from device memory, re-reads included
    note: str = ""
    slowed: str = ""  # why a library uses slow kernels: unaligned | strided | "" for neither


@dataclass(frozen=True)
class Attainable:
    """A prediction. `bound_by`: that of the longest stage. `notes`: sentences for a person."""

    ms: float
    stages: tuple[StageTime, ...]
    bound_by: str
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """FLOP/s over the whole run."""
        return sum(s.flops for s in self.stages) / (self.ms * 1e-3)

    @property
    def intensity(self) -> float:
        """FLOP/byte with the traffic that the model expects."""
        moved = sum(s.bytes for s in self.stages)
        return sum(s.flops for s in self.stages) / moved if moved else 0.0


def stream_ms(read: float, written: float, hw: Hardware, *, launch_ms: float = LAUNCH_MS) -> float:
    """A bandwidth-bound kernel in ms: its traffic at the measured copy rate, or at L2's rate where all of it fits."""
    moved = read + written
    rate = 0.9 * hw.copy_rate
    if moved <= 0.6 * hw.l2_bytes:  # the producer left it in L2; stores cap the gain
        rate = min(0.5 * hw.l2_bandwidth, 1.6 * rate)
    return launch_ms + moved / rate * 1e3


def queued(stages: Iterable[StageTime]) -> tuple[StageTime, ...]:
    """Stages queued without waiting: from the second on, all of a launch but the gap overlaps with the stage before.
    What is left of a launch binds a stage, or the fill of its pipeline, if it is the longest of launch, fill and work.
    """
    out: list[StageTime] = []
    for s in stages:
        hidden = min(s.parts.get("launch", 0.0), LAUNCH_MS) - GAP_MS
        if any(o.ms for o in out) and hidden > 0:
            s = replace(s, ms=s.ms - hidden, parts={**s.parts, "launch": s.parts["launch"] - hidden})
        launch, fill = (s.parts.get(name, 0.0) for name in ("launch", "fill"))
        if max(launch, fill) > s.ms - launch - fill:
            s = replace(s, bound_by="launch" if launch >= fill else "fill")
        out.append(s)
    return tuple(out)
