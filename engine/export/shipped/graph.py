"""The calls of an optimised module as one CUDA graph: captured at the first call, and again where the module's own
tensors are others, or were written."""

import torch

from . import _compose
from ._captured import CapturedCall

MOST = 8  # captures of one module, after which its tensors change too often for a graph


class Graph:
    """Of one instance of the module of `whole`, the composition."""

    def __init__(self, whole):
        self._state = _compose.function(*_compose.Writer(whole, {}, direct=True).state(), "<its own tensors>")
        self._call, self._marks, self._left = None, None, MOST

    def run(self, forward, module, inputs):
        """`forward(module, *inputs)`."""
        if not self._left or torch.cuda.is_current_stream_capturing():
            return forward(module, *inputs)
        if self._call is None or self._marks != self._marked(module, inputs):
            results = forward(module, *inputs)  # refuses other inputs; builds the programs
            self._capture(forward, module, inputs)
            return results
        return self._call(inputs)

    def _capture(self, forward, module, inputs):
        self._call, self._left = None, self._left - 1
        try:
            self._call = CapturedCall(lambda own: forward(module, *own), inputs)
        except RuntimeError:  # an operation that waits for the GPU, or too little memory
            torch.cuda.synchronize()  # raises what ended the context
            self._left = 0
        self._marks = self._marked(module, inputs)

    def _marked(self, module, inputs):
        """What a captured call depends on."""
        own = [(t.data_ptr(), 0 if t.is_inference() else t._version) for t in self._state(module)]
        return own, [(x.shape, x.dtype, x.device) for x in inputs], torch.is_autocast_enabled("cuda")


__all__ = ["Graph"]
