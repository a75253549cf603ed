"""torch.compile beside what a search made: where it is faster, it is the result."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch

from engine.evaluate.timing.samples import interval, paired_ratio
from engine.trace.writes.state import State

from .report import COMPILED, Report

ROUNDS = 15
WARM_UP = 3


class Clock(Protocol):
    """See engine.evaluate.timing.samples.Timer."""

    def sample(self, call: Callable[[], object]) -> float:
        """Milliseconds of one call."""


def compiled(
    module: torch.nn.Module,
    arguments: tuple[Any, ...],
    backend: str | Callable = "inductor",
    named: Mapping[str, Any] | None = None,
) -> torch.nn.Module:
    """A copy of a module that has its parameters and runs by torch.compile, compiled for these arguments. Raises what
    torch.compile raises."""
    fast = copy.copy(module)
    fast.compile(backend=backend)
    fast(*arguments, **(named or {}))
    return fast


def fastest(
    module: torch.nn.Module, ours: torch.nn.Module, arguments: tuple[Any, ...], clock: Callable[[], Clock],
    backend: str | Callable = "inductor", named: Mapping[str, Any] | None = None,
) -> torch.nn.Module:  # fmt: skip
    """`ours`, or the module by torch.compile if that is faster on these arguments, with its `.report`. Both are timed
    in turn with eager PyTorch, each as this process has set PyTorch. What the module writes is put back."""
    before, buffers = State(module), [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        with torch.no_grad():
            try:
                theirs = compiled(module, arguments, backend, named)
            except Exception as e:  # whatever torch.compile cannot do, ours stays
                why = str(e).strip().splitlines()
                note = f"torch.compile refused the module: {type(e).__name__}: {why[0][:200] if why else ''}"
                return _with(ours, replace(ours.report, notes=(*ours.report.notes, note.rstrip(": "))))
            samples = _in_turn([lambda m=m: m(*arguments, **(named or {})) for m in (module, ours, theirs)], clock())
    finally:
        before.restore()
        for buffer, values in buffers:
            buffer.copy_(values)
    eager, own, other = samples
    report: Report = replace(ours.report, compiled_ms=interval(other)[0])
    _, low, _ = paired_ratio(list(zip(own, other, strict=True)))
    if low <= 1.0:
        return _with(ours, report)
    over_eager = paired_ratio(list(zip(eager, other, strict=True)))[0]
    note = "" if not report.cls else f"our best program takes {interval(own)[0]:.4g} ms there ({report.cls})"
    report = replace(
        report, way=COMPILED, cls="", ms=report.compiled_ms, pytorch_ms=interval(eager)[0], baseline="PyTorch eager",
        speedup=over_eager, programs=(), pytorch=(), notes=(*report.notes, note) if note else report.notes,
    )  # fmt: skip
    return _with(theirs, report)


def _in_turn(calls: list[Callable[[], object]], clock: Clock) -> list[list[float]]:
    """Milliseconds of ROUNDS samples of each."""
    for call in calls:
        for _ in range(WARM_UP):
            call()
    rounds = [[clock.sample(call) for call in calls] for _ in range(ROUNDS)]
    return [list(samples) for samples in zip(*rounds, strict=True)]


def _with(module: torch.nn.Module, report: Report) -> torch.nn.Module:
    module.__dict__["report"] = report
    return module


__all__ = ["compiled", "fastest"]
