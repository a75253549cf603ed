"""Functions of the CUDA driver that PyTorch does not offer, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class DriverError(Exception):
    """A function failed, or there is no driver. The message says which and why."""


def library() -> Any:
    """The driver, with PyTorch's context current in this thread. Raises DriverError."""
    import torch

    torch.cuda.init()
    torch.cuda.current_stream()
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise DriverError(f"the CUDA driver cannot be loaded: {e}") from None


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a CUresult. Raises DriverError, torch.OutOfMemoryError."""
    code = getattr(library(), name)(*arguments)
    if code == OUT_OF_MEMORY:
        import torch

        raise torch.OutOfMemoryError(f"CUDA out of memory: {name} failed")
    if code:
        raise DriverError(f"{name} failed with CUDA's error {code}")


class Chain:
    """CUDA graphs (addresses of cudaGraph_t) that run one after the other, as one launch: what a graph leaves running
    on a stream of its own would not be in it, so nothing of one runs beside the next. Raises DriverError."""

    def __init__(self, graphs: Sequence[int]):
        whole, self._exec, last = ctypes.c_void_p(), ctypes.c_void_p(), None
        call("cuGraphCreate", ctypes.byref(whole), ctypes.c_uint(0))
        try:
            for graph in graphs:
                node = ctypes.c_void_p()
                before = None if last is None else ctypes.byref(last)
                many = ctypes.c_size_t(last is not None)
                call("cuGraphAddChildGraphNode", ctypes.byref(node), whole, before, many, ctypes.c_void_p(graph))
                last = node
            call("cuGraphInstantiateWithFlags", ctypes.byref(self._exec), whole, ctypes.c_ulonglong(0))
        finally:
            library().cuGraphDestroy(whole)
        self._launch = library().cuGraphLaunch

    def launch(self) -> None:
        """Run on PyTorch's current stream. Raises DriverError."""
        import torch

        if code := self._launch(self._exec, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)):
            raise DriverError(f"cuGraphLaunch failed with CUDA's error {code}")

    def close(self) -> None:
        """Free the graph. Not while it runs."""
        if self._exec.value:
            library().cuGraphExecDestroy(self._exec)
            self._exec = ctypes.c_void_p()
