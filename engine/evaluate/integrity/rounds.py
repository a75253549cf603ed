"""One round of a raw kernel's examination. Plain Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One set of values; `late`: its results are read twice, to detect late writes."""

    family: str
    seed: int
    rows: int | None = None
    late: bool = False
    probe: str = ""

    @property
    def key(self) -> str:
        return f"{self.family}:{self.seed}:{self.rows}:"
