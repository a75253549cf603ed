"""Probes of a timed program besides its time: the kernels that ran, and whether they computed the result.

The probes return facts for engine.evaluate.integrity.trial, for trials of sessions and programs of the suite alike.
They cost a few calls. Needs torch; only for worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from engine.evaluate.candidate.faults import cuda_code
from engine.evaluate.candidate.guarded_outputs import Guarded, same_bits
from engine.evaluate.candidate.noop_probe import Launches
from engine.evaluate.timing import cupti

LAUNCHES = 40  # names reported for one call


def recorded(call: Callable[[], object], device: str) -> dict[str, Any]:
    """{kernels: CUPTI's list of one call, busy_us}, or {kernels: None, no_kernels: reason}. Raises errors that end the
    CUDA context."""
    if device != "cuda":
        return {"kernels": None, "no_kernels": "nothing ran on a GPU"}
    try:
        kernels = cupti.record(call)
    except Exception as e:
        if cuda_code(e):
            raise
        return {"kernels": None, "no_kernels": f"CUPTI did not answer: {type(e).__name__}"}
    return {"kernels": kernels[: cupti.MOST], "busy_us": cupti.busy_us(cupti.beside_libraries(kernels))}


def raised(runs: Sequence[Callable]) -> bool | None:
    """Whether the last call of a loaded program tripped its guard (dsl.guard); None if no run has one."""
    flags = [run.tripped() for run in runs if hasattr(run, "tripped")]
    return any(flags) if flags else None


def probed(
    silenced: AbstractContextManager[tuple[Callable, Launches]], inputs: Sequence[torch.Tensor],
    outputs: Sequence[Guarded], expected: Sequence[torch.Tensor],
) -> dict[str, Any]:  # fmt: skip
    """The same call with every kernel of the program skipped, on poisoned outputs: {launches: names, same: whether the
    outputs still hold all of `expected`, unwritten, elements}, or {left_out: why the probe failed}.

    `silenced`: of engine.evaluate.candidate.noop_probe, or of a module with several programs. `expected`: the verified
    results, in the order of the outputs and of any shape; only the first ones if the others were not verified. Raises
    errors that end the CUDA context.
    """
    try:
        with silenced as (run, launches):
            for o in outputs:
                o.poison()
            run(inputs, [o.tensor for o in outputs])
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    except Exception as e:
        if cuda_code(e) not in (None, "out_of_memory"):
            raise
        return {"left_out": f"its kernels could not be left out: {type(e).__name__}: {str(e)[:120]}"}
    verified = outputs[: len(expected)]
    return {
        "launches": launches.names[:LAUNCHES],
        "same": all(same_bits(o.tensor.reshape(w.shape), w) for o, w in zip(verified, expected, strict=True)),
        "unwritten": sum(o.unwritten() for o in verified),
        "elements": sum(o.tensor.numel() for o in verified),
    }  # fmt: skip
