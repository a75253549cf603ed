"""Rules of a product that `cpp` fuses with the normalize that reads it (dsl.lower.cpp.gemm.normalized).

The two become one kernel if only that normalize reads the product and whole groups of its columns fit in a tile.
"""

from __future__ import annotations

from dsl.ir import Acc, Config, DType, Gemm, Normalize, Program, reads
from dsl.rules import sm90

# Accumulators of a thread. With 192 the epilogue spills: 1.2 ms instead of the expected 0.74 on an H200.
MAX_ACCUMULATORS = 128


def columns(norm: Normalize, n: int) -> int:
    """The number of columns, of a row of n, that are normalised together; 0 if the norm is not over parts of a row."""
    if norm.op == "groupnorm" and n % norm.groups == 0:
        return n // norm.groups
    return n if norm.op in ("layernorm", "rmsnorm") and norm.over == ("n",) else 0


def group(program: Program, gemm: Gemm) -> int:
    """The number of columns that the only reader of a product normalises together; 0 if the two cannot be fused."""
    readers = [s for s in program.stages if gemm.name in reads(s)]
    if len(readers) != 1 or gemm.name in program.results or gemm.also or gemm.pairs or gemm.type is None:
        return 0
    norm, shape = readers[0], gemm.type.shape
    plain = isinstance(norm, Normalize) and isinstance(norm.of, Acc) and norm.x.name == gemm.name
    if not plain or len(shape) != 2 or norm.also or norm.x.transposed:
        return 0
    transposed = gemm.config.compute in (None, DType.TF32) and not gemm.a.transposed and not gemm.b.transposed
    width = 0 if transposed else columns(norm, shape[1])
    return width if width % 8 == 0 else 0


def fits(c: Config, width: int) -> bool:
    """Return True if a tile holds whole groups of `width` columns, and registers for their statistics remain."""
    return c.tile[1] % width == 0 and sm90.accumulators(c.tile, c.schedule) <= MAX_ACCUMULATORS


def preferred(width: int) -> tuple[tuple[tuple[int, int], str], ...]:
    """Tiles (M, N) and schedules that fit, the fastest first.

    pingpong hides the statistics behind the products of the other tile: 0.743 ms, against 0.843 ms for cooperative, for
    32768 x 1024 x 4096 in tf32 on an H200.
    """
    ways = (((128, 128), "pingpong"), ((256, 128), "cooperative"), ((128, 256), "cooperative"))
    return tuple((tile, schedule) for tile, schedule in ways if width and tile[1] % width == 0)
