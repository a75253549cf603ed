"""What building a program costs, in builds of nvcc over CUTLASS's headers (40 s each).

`cute` builds in two seconds and counts nothing. A program for `cpp` whose every kernel is our own reads none of those
headers and takes about a fifth; one product on CUTLASS's collectives makes it a whole one.
"""

from __future__ import annotations

from dsl.ir import Program
from dsl.rules import legal

WHOLE, OWN = 1.0, 0.2
LIGHT = 0.5  # below it a search may build as freely as on `cute`


def cost(program: Program, backend: str) -> float:
    """Of a checked program on a back end (cute | cpp)."""
    if backend == "cute":
        return 0.0
    types = legal.types_of(program)
    collectives = any(legal.configured(s, types) and not legal.is_rowmajor(s, types) for s in program.stages)
    return WHOLE if collectives else OWN
