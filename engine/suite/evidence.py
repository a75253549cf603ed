"""What a program showed of itself after it was timed, at the cost of a few calls: the checks of a session's trial.

Its last timed result and one more on poisoned outputs equal the one that was verified; its kernels made that result;
CUPTI names whose kernels ran and on which streams; the harness's functions are what they were. The judgement from
these facts is engine.evaluate.integrity.trial's, the same as in a session. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from engine.evaluate.candidate.faults import Wrong
from engine.evaluate.candidate.guarded_outputs import Guarded, same_bits
from engine.evaluate.candidate.noop_probe import Launches, silenced
from engine.evaluate.candidate.probes import probed, raised, recorded
from engine.evaluate.correctness.tolerance import TOLERANCES
from engine.evaluate.integrity import trial
from engine.evaluate.integrity.process.tracing import Snapshot
from engine.suite.problem import compare


@dataclass
class Loaded:
    """A program as machine code with what it reads and writes. `snapshot`: taken before it was loaded; `runs`: what may
    have a guard; `quiet()`: the program with its kernels left out, as engine.evaluate.candidate.noop_probe makes it."""

    module: Any
    artifact: str | None
    run: Callable
    inputs: list[torch.Tensor]
    outputs: list[Guarded]
    snapshot: Snapshot

    def call(self) -> None:
        self.run(self.inputs, [o.tensor for o in self.outputs])

    def quiet(self) -> AbstractContextManager[tuple[Callable, Launches]]:
        return silenced(self.module, self.artifact)

    @property
    def runs(self) -> list[Callable]:
        return [self.run]


def checks(loaded: Loaded, first: torch.Tensor, cls: str, ms: float, timed: int) -> list[dict[str, str]]:
    """`first`: the verified result; what the last of `timed` calls gave still lies in the outputs. Raises Wrong."""
    out = loaded.outputs[0]
    _equal(out.tensor, first, cls, "timed_differs", "the last timed call gave another result")
    out.poison()
    loaded.call()
    _settle()
    if left := out.unwritten():
        raise Wrong("unwritten", f"when called again it left {left:,} of {out.tensor.numel():,} elements unwritten")
    again = _equal(out.tensor, first, cls, "repeat_differs", "called again it gave another result")
    facts = {
        "patched": loaded.snapshot.changed(),
        "guard": [raised(loaded.runs)],
        **recorded(loaded.call, "cuda" if torch.cuda.is_available() else "cpu"),
        "silent": probed(loaded.quiet(), loaded.inputs, loaded.outputs, [first]),
    }
    return [*trial.of_run(facts, ms, 1, timed), trial.check("repeated", trial.PASSED, again)]


def _equal(out: torch.Tensor, first: torch.Tensor, cls: str, code: str, words: str) -> str:
    """How they agree, in words. Sums of atomics come in any order, so bits may differ within the class's tolerance."""
    out = out.reshape(first.shape)
    if same_bits(out, first):
        return "a repeated call gave the same bits"
    found = compare(out, first)
    if found.unexpected or found.error > TOLERANCES[cls].error:
        raise Wrong(code, f"{words}: it differs from the verified one by {found.error:.2g}")
    return f"a repeated call differs by {found.error:.1e}: its sums come in another order"


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
