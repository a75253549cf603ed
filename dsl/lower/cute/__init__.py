"""The `cute` back end: a resolved program becomes one Python module over CuTe DSL and quack-kernels for sm_90a.

Pure text: nothing here imports torch, CUTLASS or quack. emit.py puts the module together and maps each program line to
its lines; stage.py has the table of who writes which stage kind; names.py keeps tensors' names out of the module's way;
expression.py words expressions. Products are quack's (gemm.py, gemm_text.py). Kernels of our own: space.py (axes,
strides, index functions), own.py (what they share), pointwise.py, transform.py, reduce.py with folds.py, normalize.py,
pool.py, and direct.py with window.py.
"""

from __future__ import annotations

from dsl.lower.cute.emit import lower

__all__ = ["lower"]
