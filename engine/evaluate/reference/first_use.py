"""The first use of what every round runs on a GPU, on a few elements, before a session has the GPU's lane.

PyTorch loads the code of a kernel when it is first called, and unpacks it: the first comparison of a process took 0.31
to 0.39 s on an H200 and the next one 5 to 25 ms. Each session has two fresh processes, and all others of the GPU would
wait for that. (Kernels whose choice depends on shapes, as of large products, are still loaded when they are needed.)
"""

from __future__ import annotations

import contextlib

from engine.evaluate.correctness.inputs import FAMILIES, contraction_flops, fill
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


def of_module(graph: OpGraph, device: str) -> None:
    """What a reference and its baselines need besides, for a module with these operations: products and convolutions in
    its types and in float64."""
    import torch

    with torch.no_grad(), contextlib.suppress(RuntimeError):
        names = {op.op for op in graph.ops}
        if contraction_flops(graph):
            x = fill((SIDE, SIDE), "f32", "normal", 0, "first", device)
            for dtype in (torch.float64, torch.float32, torch.float16):
                torch.nn.functional.linear(x.to(dtype), x.to(dtype), x[0].to(dtype))
            with casting("f16", device):
                x @ x
        for axes, name in enumerate(CONVOLUTIONS, start=1):
            if name in names:
                x = fill((1, 8, *[8] * axes), "f32", "normal", 0, "first", device)
                for dtype in (torch.float64, torch.float32, torch.float16):
                    getattr(torch.nn.functional, name)(x.to(dtype), x[(..., *[slice(1)] * axes)].to(dtype))
