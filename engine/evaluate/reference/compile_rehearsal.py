"""Import what torch.compile imports when it is first called, which takes each process 3 to 5 s of a core.

A bench of KernelBench's modules spent 17 s a problem in compiling PyTorch's ways, on a machine whose cores were all
busy. A fork of a process that has imported Dynamo and Inductor has them already, so the fork server of modules on a GPU
does it once (engine.sandbox.forkserver.server). Nothing is compiled here: what is remembered of a compilation may
depend on the GPU, and no CUDA may start before a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator

MODULES = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.wrapper",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.kernel.conv",
    "torch._inductor.kernel.mm",
    "torch._inductor.runtime.triton_heuristics",
    "sympy.physics.units",
)
# As engine.evaluate.reference.compiling sets it: Inductor reads it when it is imported, and starts no processes then.
SETTINGS = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def before_forks() -> None:
    """Import. Raises ImportError where PyTorch's insides have moved."""
    with _there_is_a_gpu(), _environment():
        for name in MODULES:
            importlib.import_module(name)
        from torch._inductor import codecache
        from torch._inductor.runtime import triton_compat

        codecache.torch_key()  # a hash of PyTorch's own text
        if triton_compat.HAS_TRITON:
            triton_compat.triton_key()  # and of Triton's, with its libraries: 0.4 s


@contextlib.contextmanager
def _there_is_a_gpu() -> Iterator[None]:
    """Inductor asks while it is imported. The driver would have to start for the answer, which is known."""
    import torch

    asked = torch.cuda.is_available
    torch.cuda.is_available = lambda: True
    try:
        yield
    finally:
        torch.cuda.is_available = asked


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
