"""A call on tensors as one CUDA graph, which the host starts at once instead of launch by launch.

    captured = CapturedCall(call, inputs)     # runs call(inputs) three times
    captured.into(inputs, outputs)            # the same on other tensors of these shapes: copied in, run, copied out

A graph works on the memory that it was captured with, so inputs are copied into memory of its own, and results out of
it. Needs torch and nothing else of ours: exported packages contain this file unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

WARM_UP = 2  # calls before the capture: libraries and compilers do there what they may not do while it runs


class CapturedCall:
    """`call(inputs)` returns its results, and changes no other tensor that a later call reads. Tensors that it reads
    besides its inputs must stay where they are. Raises what the call raises, and RuntimeError if it cannot be
    captured."""

    def __init__(self, call: Callable[[list[torch.Tensor]], Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]):
        self._inputs = [x.clone() for x in inputs]
        beside, here = torch.cuda.Stream(), torch.cuda.current_stream()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UP):
                call(self._inputs)
        here.wait_stream(beside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._results = list(call(self._inputs))

    def into(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Compute the results on `inputs`, and copy them into `outputs`."""
        if self._inputs:
            torch._foreach_copy_(self._inputs, list(inputs))
        self._graph.replay()
        torch._foreach_copy_(list(outputs), self._results)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results on `inputs`, in new tensors."""
        outputs = [torch.empty_like(r) for r in self._results]
        self.into(inputs, outputs)
        return outputs


__all__ = ["CapturedCall"]
