"""A product that one normalize alone reads, whose groups may lie in a tile: `cpp` then makes one kernel of the two
(dsl.lower.cpp.gemm.normalized has the whole of its conditions)."""

from __future__ import annotations

from dsl.ir import Acc, Config, DType, Gemm, Normalize, Program, reads
from dsl.rules import sm90

# Of a thread. With 192 the epilogue spills: 1.2 ms where 0.74 were due, on an H200.
MAX_ACCUMULATORS = 128


def columns(norm: Normalize, n: int) -> int:
    """Columns of a row of n that are normalised together; 0 for what is no group of a row."""
    if norm.op == "groupnorm" and n % norm.groups == 0:
        return n // norm.groups
    return n if norm.op in ("layernorm", "rmsnorm") and norm.over == ("n",) else 0


def group(program: Program, gemm: Gemm) -> int:
    """Columns that the one reader of a product normalises together; 0 where there is none of that kind."""
    readers = [s for s in program.stages if gemm.name in reads(s)]
    if len(readers) != 1 or gemm.name in program.results or gemm.also or gemm.pairs or gemm.type is None:
        return 0
    norm, shape = readers[0], gemm.type.shape
    plain = isinstance(norm, Normalize) and isinstance(norm.of, Acc) and norm.x.name == gemm.name
    if not plain or len(shape) != 2 or norm.also or norm.x.transposed:
        return 0
    turned = gemm.config.compute in (None, DType.TF32) and not gemm.a.transposed and not gemm.b.transposed
    width = 0 if turned else columns(norm, shape[1])
    return width if width % 8 == 0 else 0


def fits(c: Config, width: int) -> bool:
    """Whether whole groups lie in a tile, and its accumulators leave room for their statistics."""
    return c.tile[1] % width == 0 and sm90.accumulators(c.tile, c.schedule) <= MAX_ACCUMULATORS


def preferred(width: int) -> tuple[tuple[tuple[int, int], str], ...]:
    """Tiles and schedules that fit, the fastest first: pingpong does the statistics behind the other tile's products
    (0.743 ms against 0.843 cooperatively, 32768 x 1024 x 4096 in tf32 on an H200)."""
    ways = (((128, 128), "pingpong"), ((256, 128), "cooperative"), ((128, 256), "cooperative"))
    return tuple((tile, schedule) for tile, schedule in ways if tile[1] % width == 0)
