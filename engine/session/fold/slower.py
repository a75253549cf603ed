"""Why PyTorch is faster than every program in a class, in one sentence of the session's own figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.session.fold.profile import BOUND, longest
from engine.session.fold.reduce import View
from engine.words import class_name

OFF = 1.25  # measured over predicted: the model does not know what takes the time
COPIES = 0.1  # share of a program's time that is worth a clause
NOTHING = 1.05  # bytes that an unfused module moves over those that it must: fusing saves nothing
TERA = 1e12


@dataclass(frozen=True)
class Loss:
    """The fastest program of a class, trial `number`, which is slower than PyTorch: its time in ms, `speedup` < 1 over
    PyTorch, `gap` to the limit. `bound`: the class's entry in the report; `totals`: the report's, empty without one;
    `stages`: of the whole module by the model, empty where it runs a part of the module alone."""

    cls: str
    number: int
    ms: float
    speedup: float
    kind: str
    gap: float | None
    bound: Mapping[str, Any]
    totals: Mapping[str, Any]
    stages: Sequence[Mapping[str, Any]]

    def sentence(self) -> str:
        """Shares of the limit, then what the figures say of the rest; "" where they say nothing."""
        parts = [p for p in (self._sustained(), self._program(), self._rest()) if p]
        if self.gap:
            ours = 1 / self.gap
            both = f"PyTorch reaches {ours / self.speedup:.0%} of the limit's speed and trial {self.number} {ours:.0%}"
            parts = [both, *parts]
        return f"In {class_name(self.cls)}, {'; '.join(parts)}." if parts else ""

    def _sustained(self) -> str:
        """How near both are to what the matrix units sustain, where these set the limit."""
        peak, rate, least = (self.bound.get(name) for name in ("peak", "ceiling", "ceiling_ms"))
        if self.bound.get("bound_by") != "matrix" or not (peak and rate and least) or rate >= peak:
            return ""
        ours = least / self.ms
        return (
            f"the matrix units sustain {rate / TERA:.0f} of their {peak / TERA:.0f} TFLOP/s on this GPU, "
            f"of which PyTorch reaches {ours / self.speedup:.0%} and the program {ours:.0%}"
        )

    def _program(self) -> str:
        """What the program loses: time that the model does not explain, or copies of its operands."""
        predicted = sum(s["ms"] for s in self.stages)
        if not predicted:
            return ""
        if self.kind == "measured" and self.ms > OFF * predicted:
            return f"the program takes {self.ms / predicted:.2f} times what the model predicts for its kernels"
        copies = sum(s["ms"] for s in self.stages if s.get("kind") == "transform")
        if copies >= COPIES * predicted:
            return f"by the model, copies of its operands take {copies / predicted:.0%} of the program's time"
        return ""

    def _rest(self) -> str:
        """Why no other program would save more, or else what binds this one."""
        least, unfused = self.totals.get("bytes"), self.totals.get("bytes_unfused")
        if least and unfused and unfused <= NOTHING * least:
            return "the module has nothing to fuse, so that a program moves as many bytes as PyTorch"
        slow = longest([dict(s) for s in self.stages])
        if slow is None or not slow.get("bound_by"):
            return ""
        by = slow["bound_by"]
        return f"by the model, the program's stage {slow['name']} is bound by {BOUND.get(by, by)}"


def sentences(view: View, report: Mapping[str, Any] | None) -> str:
    """Why PyTorch stays in each class that has a program with a time, joined; "" if there is none."""
    losses = [loss(view, cls, number, report) for cls, number in view.fastest.items() if cls not in view.best]
    return " ".join(filter(None, (one.sentence() for one in losses)))


def loss(view: View, cls: str, number: int, report: Mapping[str, Any] | None) -> Loss:
    trial = view.trials[number]
    j = trial.judged
    stages = [s for s in trial.stages if s.get("ms")] if trial.region is None else []
    return of(cls, number, j, trial.roof or cls, stages, report)


def of(
    cls: str, number: int, judged: Any, roof: str, stages: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any] | None,
) -> Loss:  # fmt: skip
    """`judged`: the trial's verdict, of the log or of its view; `roof`: the class whose limit applies."""
    known = report or {}
    bound, totals = known.get("bounds", {}).get(roof, {}), known.get("totals", {})
    return Loss(cls, number, judged.ms, judged.speedup, judged.kind, judged.gap, bound, totals, stages)


__all__ = ["Loss", "of", "sentences"]
