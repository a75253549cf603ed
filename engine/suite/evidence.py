"""What a program showed of itself after it was timed, at the cost of a few calls: the checks of a session's trial.

Its last timed result and one more on poisoned outputs equal the one that was verified; its kernels made that result;
CUPTI names whose kernels ran and on which streams; the harness's functions are what they were. The judgement from
these facts is engine.evaluate.integrity.trial's, the same as in a session. Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from engine.evaluate import cupti
from engine.evaluate.correctness import TOLERANCES
from engine.evaluate.faults import Wrong, cuda_code
from engine.evaluate.guarded import Guarded, same_bits
from engine.evaluate.integrity import trial
from engine.evaluate.integrity.tracing import Snapshot
from engine.evaluate.silent import silenced
from engine.suite.problem import compare


@dataclass
class Loaded:
    """A program as machine code with what it reads and writes. `snapshot`: taken before it was loaded."""

    module: Any
    artifact: str | None
    run: Callable
    inputs: list[torch.Tensor]
    outputs: list[Guarded]
    snapshot: Snapshot

    def call(self) -> None:
        self.run(self.inputs, [o.tensor for o in self.outputs])


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
    facts = {"patched": loaded.snapshot.changed(), **_kernels(loaded), "silent": _silent(loaded, first)}
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


def _kernels(loaded: Loaded) -> dict:
    if not torch.cuda.is_available():
        return {"kernels": None, "no_kernels": "nothing ran on a GPU"}
    try:
        found = cupti.record(loaded.call)
    except Exception as e:
        if cuda_code(e):
            raise
        return {"kernels": None, "no_kernels": f"CUPTI did not answer: {type(e).__name__}"}
    return {"kernels": found[: cupti.MOST], "busy_us": cupti.busy_us(found)}


def _silent(loaded: Loaded, first: torch.Tensor) -> dict:
    """The same call with every kernel of the program left out, on poisoned outputs."""
    out = loaded.outputs[0]
    try:
        with silenced(loaded.module, loaded.artifact) as (run, launches):
            out.poison()
            run(loaded.inputs, [o.tensor for o in loaded.outputs])
            _settle()
    except Exception as e:
        if cuda_code(e) not in (None, "out_of_memory"):
            raise
        return {"left_out": f"its kernels could not be left out: {type(e).__name__}: {str(e)[:120]}"}
    return {
        "launches": launches.names[:40], "same": same_bits(out.tensor.reshape(first.shape), first),
        "unwritten": out.unwritten(), "elements": out.tensor.numel(),
    }  # fmt: skip


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
