"""The cost of building a program, in builds of nvcc over CUTLASS's headers (40 s each).

`cute` builds in two seconds and counts as zero. A `cpp` program with only kernels of our own includes none of those
headers and takes about a fifth. One product on CUTLASS's collectives makes it a whole build.
"""

from __future__ import annotations

from dsl.ir import Program
from dsl.rules import legal

WHOLE, OWN = 1.0, 0.2
CPP_TRIALS = 4  # the cost that one search may have in a session, 40 s each on a device
LIGHT = 0.5  # below this cost a search may build as freely as on `cute`


def cost(program: Program, backend: str) -> float:
    """The cost of a checked program on a back end (cute | cpp)."""
    if backend == "cute":
        return 0.0
    types = legal.types_of(program)
    collectives = any(legal.configured(s, types) and not legal.is_rowmajor(s, types) for s in program.stages)
    return WHOLE if collectives else OWN
