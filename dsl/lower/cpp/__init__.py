"""The `cpp` back end: it generates CUDA C++ over CUTLASS, with a plain C entry point, from a resolved program.

Products on sm_90a and sm_100a use CUTLASS 3.x collectives. Products on sm_80 and sm_89 and on the CUDA cores use
CUTLASS 2.x mainloops. Channels-last convolutions on the tensor cores need sm_90a. The kernels of the other stages are
generated here (generated/).

Nothing here imports torch or CUTLASS. One module plans each kernel family, one Jinja2 template writes it (templates/),
and emit.py assembles the program.
"""

from __future__ import annotations

from dsl.lower.cpp.emit import lower

__all__ = ["lower"]
