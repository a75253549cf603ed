"""The `cpp` back end: a resolved program becomes CUDA C++ over CUTLASS, behind a plain C entry.

Products on sm_90a and sm_100a are CUTLASS 3.x's collectives, those of sm_80 and sm_89 and those on the CUDA cores
CUTLASS 2.x's mainloops; convolutions on the tensor cores are for sm_90a; the other stages are kernels of our own.

Pure text: nothing here imports torch or CUTLASS. One module plans a kernel family (gemm.py, transform.py), one
Jinja2 template writes it (templates/), emit.py puts the program together.
"""

from __future__ import annotations

from dsl.lower.cpp.emit import lower

__all__ = ["lower"]
