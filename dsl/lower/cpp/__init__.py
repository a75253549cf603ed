"""The `cpp` back end: a resolved program becomes CUDA C++ over CUTLASS 3.x for sm_90a, behind a plain C entry.

Pure text: nothing here imports torch or CUTLASS. One module plans a kernel family (gemm.py, transform.py), one
Jinja2 template writes it (templates/), emit.py puts the program together.
"""

from __future__ import annotations

from dsl.lower.cpp.emit import lower

__all__ = ["lower"]
