"""The `cute` back end: a resolved program becomes one Python module over CuTe DSL and quack-kernels for sm_90a.

Pure text: nothing here imports torch, CUTLASS or quack. expression.py words epilogues, gemm.py plans a GEMM stage
and refuses what quack cannot do, parts.py holds the text that does not depend on the program, emit.py puts the
module together and maps each program line to its lines.
"""

from __future__ import annotations

from dsl.lower.cute.emit import lower

__all__ = ["lower"]
