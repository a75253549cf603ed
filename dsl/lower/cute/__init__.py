"""The `cute` back end: it generates one Python module over CuTe DSL and quack-kernels for sm_90a; attention is a kernel
of flash-attn-4.

Nothing here imports torch, CUTLASS or quack. emit.py assembles the module and maps the lines of the program to its
lines. stage.py has the table of lowerings, names.py the tensors' names in Python, expression.py the text of
expressions. gemm/ uses quack's products. The other kernels are generated: generated_kernels.py has their shared text,
space.py axes, strides and index functions, walk.py, pointwise.py, tiled_kernel.py and transform.py the element-wise
ones, reduce/ reductions, norms and pools, conv/ convolutions (with window.py), attention/ attention.
"""

from __future__ import annotations

from dsl.lower.cute.emit import lower

__all__ = ["lower"]
