"""What a timed program is asked besides its time: whose kernels ran, and whether the result is theirs.

The probes answer facts for engine.evaluate.integrity.trial, of a session's trial and of a program of the suite alike.
They cost a few calls. Needs torch; worker processes only.
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

LAUNCHES = 40  # names that are told of one call


def recorded(call: Callable[[], object], device: str) -> dict[str, Any]:
    """{kernels: CUPTI's list of one call, busy_us}, or {kernels: None, no_kernels: why}. Raises what ends the context
    of CUDA."""
    if device != "cuda":
        return {"kernels": None, "no_kernels": "nothing ran on a GPU"}
    try:
        found = cupti.record(call)
    except Exception as e:
        if cuda_code(e):
            raise
        return {"kernels": None, "no_kernels": f"CUPTI did not answer: {type(e).__name__}"}
    return {"kernels": found[: cupti.MOST], "busy_us": cupti.busy_us(found)}


def raised(runs: Sequence[Callable]) -> bool | None:
    """Whether the last call of a loaded program tripped its guard (dsl.guard); None where none of them has one."""
    told = [run.tripped() for run in runs if hasattr(run, "tripped")]
    return any(told) if told else None


def probed(
    silenced: AbstractContextManager[tuple[Callable, Launches]], inputs: Sequence[torch.Tensor],
    outputs: Sequence[Guarded], expected: Sequence[torch.Tensor],
) -> dict[str, Any]:  # fmt: skip
    """The same call with every kernel of the program left out, on poisoned outputs: {launches: names, same: whether
    all of `expected` lies in the outputs nevertheless, unwritten, elements}, or {left_out: why it could not be asked}.

    `silenced`: of engine.evaluate.candidate.noop_probe, or of a module with several programs. `expected`: the
    verified results, in the order of the outputs and of any shape; of the first ones, where the others were not
    verified. Raises what ends the context of CUDA.
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
