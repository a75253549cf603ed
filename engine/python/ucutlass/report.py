"""What a search did and reached, for a notebook: `print(fast.report)`, or as a cell's value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMPILED = "torch.compile"


@dataclass(frozen=True)
class Report:
    """The result of `ucutlass.optimize`.

    title       of the module.
    device      what the times are of, for example "NVIDIA H200".
    kind        measured | predicted. A prediction is a model's: no program ran on a GPU for it.
    cls         the class of the programs, "" where PyTorch stays.
    ms          of a call with the programs, or of PyTorch where it stays.
    pytorch_ms  of PyTorch in the same class, and `baseline`, which of its ways that is.
    speedup     pytorch_ms over ms, by alternating measurement where kind is measured.
    way         torch.compile where that is the result, because it is faster than any program; else "".
    compiled_ms of torch.compile in this process, in turn with the result of the search; None if it was not timed.
    programs    one line each: its region's operations and back end.
    reason      how the search ended, in words.
    notes       what else is worth knowing, in words.
    bounds_ms   class -> the time that no kernel of the same operations can beat.
    trials      how many were made, in `seconds`.
    source      the module's text that the session ran; `log`: its recording (`python -m engine export LOG`).
    """

    title: str
    device: str
    kind: str
    cls: str = ""
    ms: float | None = None
    pytorch_ms: float | None = None
    baseline: str = ""
    speedup: float | None = None
    programs: tuple[str, ...] = ()
    pytorch: tuple[str, ...] = ()
    way: str = ""
    compiled_ms: float | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    bounds_ms: dict[str, float] = field(default_factory=dict)
    trials: int = 0
    seconds: float = 0.0
    source: str = field(default="", repr=False)
    log: Path | None = None

    def __str__(self) -> str:
        return "\n".join([f"{self.title} on {self.device}", *self._lines()])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([f"**{self.title}** on {self.device}", *self._lines()])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        rows = {name: value for name, value in vars(self).items() if name not in ("source", "log")}
        rows |= {name: list(rows[name]) for name in ("programs", "pytorch", "notes")}
        return rows | {"log": str(self.log) if self.log else None}

    def _lines(self) -> list[str]:
        time = f"{self.ms:.4g} ms {self.kind}" if self.ms is not None else "no time"
        if self.cls:
            lines = [f"{time}, {self.speedup:.2f} times as fast as {self.baseline} ({self.pytorch_ms:.4g} ms)"]
        elif self.way:
            lines = [
                f"{self.way} stays, which no program beats: {time}, {self.speedup:.2f} times as fast as "
                f"{self.baseline} ({self.pytorch_ms:.4g} ms)"
            ]
        else:
            lines = [f"PyTorch stays: no program was faster ({time} for {self.baseline or 'PyTorch'})"]
        if self.kind == "predicted":
            lines.append("The times are predicted by a model. No GPU ran a program; on this machine PyTorch computes.")
        lines += [f"- {line}" for line in self.programs]
        lines += [f"- PyTorch: {', '.join(self.pytorch)}"] if self.pytorch and self.programs else []
        if self.compiled_ms is not None and not self.way:
            lines.append(f"- torch.compile takes {self.compiled_ms:.4g} ms here")
        lines += [f"- {note}" for note in self.notes]
        many = "1 trial" if self.trials == 1 else f"{self.trials} trials"
        return [*lines, f"{many} in {self.seconds:.0f} s: {self.reason}"]
