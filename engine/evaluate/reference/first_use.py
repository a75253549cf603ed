"""The first use of what every round runs on a GPU, on a few elements, before a session has the GPU's lane.

PyTorch loads the code of a kernel when it is first called, and unpacks it: the first comparison of a process took 0.31
to 0.39 s on an H200 and the next one 5 to 25 ms. Each session has two fresh processes, and all others of the GPU would
wait for that. So processes do this before they have a session, and convolutions when the module is known. (Kernels that
are chosen by shapes, as of large products, are still loaded when they are needed.)
"""

from __future__ import annotations

import contextlib

from engine.evaluate.correctness.inputs import FAMILIES, fill
from engine.evaluate.correctness.tolerance import compare
from engine.evaluate.reference.pytorch_classes import casting
from sol.graph import OpGraph

SIDE = 64  # rows and columns of what is computed
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def of_rounds(device: str) -> None:
    """Draw inputs of each family and compare results."""
    with contextlib.suppress(RuntimeError):  # too little memory, which the session itself will report
        for family in FAMILIES[1:]:
            x = fill((SIDE, SIDE), "f32", family, 0, "first", device)
            compare(x, x.double())


def of_products(device: str) -> None:
    """Multiply matrices in float64, in float32 and in float16, also as torch.autocast does."""
    import torch

    with torch.no_grad(), contextlib.suppress(RuntimeError):
        x = fill((SIDE, SIDE), "f32", "normal", 0, "first", device)
        for dtype in (torch.float64, torch.float32, torch.float16):
            torch.nn.functional.linear(x.to(dtype), x.to(dtype), x[0].to(dtype))
        with casting("f16", device):
            x @ x


def of_convolutions(graph: OpGraph, device: str) -> None:
    """Convolve in the same types, if a module with this graph does."""
    import torch

    names = {op.op for op in graph.ops}
    with torch.no_grad(), contextlib.suppress(RuntimeError):
        for axes, name in enumerate(CONVOLUTIONS, start=1):
            if name in names:
                x = fill((1, 8, *[8] * axes), "f32", "normal", 0, "first", device)
                for dtype in (torch.float64, torch.float32, torch.float16):
                    getattr(torch.nn.functional, name)(x.to(dtype), x[(..., *[slice(1)] * axes)].to(dtype))
