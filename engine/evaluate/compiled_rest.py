"""What stays PyTorch beside a module's programs, compiled by Inductor: each run of operations becomes one call.

    rest = CompiledRest()                       # of one problem
    rest.into(runtime)                          # RegionRuntime: its runs are single calls from now on

The shapes and strides at each operation are found with fake tensors, so nothing runs on the GPU while it is compiled.
Needs torch; only for workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.evaluate.candidate.faults import Wrong
from engine.evaluate.candidate.region_runtime import RegionRuntime
from engine.evaluate.fused_calls import Fused
from engine.evaluate.reference.pytorch_classes import casting, permitted

# In the process itself: Inductor's own pool of compilers would be one for each session.
OPTIONS = {"compile_threads": 1}
UNKNOWN = "its sizes depend on values"
Call = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


@dataclass(frozen=True)
class Told:
    """How many runs, with how many operations, were compiled, in how many seconds; what Inductor refused, in words."""

    runs: int
    operations: int
    seconds: float
    refused: tuple[str, ...] = ()


class CompiledRest:
    """`options`: of Inductor. What was compiled once is used by every runtime of the problem that has the same run."""

    def __init__(self, **options: Any):
        self.options = options
        self._calls: dict[tuple, Call | str] = {}
        self._examples: dict[tuple, dict[str, torch.Tensor]] = {}

    def into(self, runtime: RegionRuntime) -> Told:
        """Raises Wrong("not_compiled") if nothing could be compiled."""
        started = time.perf_counter()
        key = (runtime.cls, *((place.ops, repr(place.outputs)) for place in runtime.places))
        if key not in self._examples:  # each is a walk through the whole module, and a load has the lane
            self._examples[key] = runtime.examples()
        examples = self._examples[key]
        compiled, refused = [], []

        def make(fused: Fused) -> Call | None:
            call: Call | str = UNKNOWN
            if all(name in examples for row in fused.rows for name in (*row.reads, *row.makes)):
                call = self._call(fused, runtime, [examples[name] for name in fused.reads])
            if isinstance(call, str):
                refused.append(call)
                return None
            compiled.append(len(fused.rows))
            return call

        runtime.fuse(make)
        if not compiled:
            why = refused[0] if refused else "there are no two of them in a row"
            raise Wrong("not_compiled", f"Inductor compiles none of PyTorch's operations: {why}")
        return Told(len(compiled), sum(compiled), time.perf_counter() - started, tuple(refused))

    def _call(self, fused: Fused, runtime: RegionRuntime, examples: Sequence[torch.Tensor]) -> Call | str:
        """The compiled run, or why there is none."""
        forms = tuple((tuple(x.shape), x.stride(), x.dtype) for x in examples)
        key = (runtime.cls, fused.meaning(), forms)
        if key not in self._calls:
            try:
                with permitted(runtime.cls), casting(runtime.cls, runtime.device):
                    self._calls[key] = fused.compile(examples, **OPTIONS | self.options)
            except torch.OutOfMemoryError:
                raise
            except Exception as e:  # a compiler may fail in any way, and the operations run without it
                self._calls[key] = _first(e)
        return self._calls[key]


def _first(e: Exception) -> str:
    line = next((line.strip() for line in str(e).splitlines() if line.strip()), "")
    return f"{type(e).__name__}: {line}"[:300]


__all__ = ["CompiledRest", "Told"]
