"""Shared memory of one thread block: mainloop stages + epilogue + barriers.

The arithmetic follows the allocations of both back ends and takes the larger of the two:

  mainloop   stages x (tile_m + tile_n) x tile_k x operand bytes: one A and one B tile a stage.
  epilogue   the result is stored through sub-tiles of (128 | 64) x 32 elements. Two of them are in flight (CUTLASS's
             StagesD = min(sub-tiles, 2); quack the same, or four if a sub-tile is 16 wide), and four for each full
             tensor that the epilogue reads (StagesC = min(sub-tiles, 4), and at least one more than in flight). A row
             or column vector takes one tile edge in f32.
  barriers   1 KiB for pipeline barriers and the tile scheduler, and 1 KiB more for alignment if the epilogue has
             operands or its sub-tiles have rows of 128 bytes (quack's reserve; CUTLASS needs less).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd

from dsl.functions import INDEXED, REDUCTIONS
from dsl.ir import Call, Expr, Stage, TensorType, expressions, loads


@dataclass(frozen=True)
class EpilogueUse:
    """The shared memory that an epilogue needs: bits of the stored element, and its operands by kind."""

    store_bits: int
    full_bits: tuple[int, ...] = ()  # one entry a tensor read at [m, n]
    rows: int = 0  # vectors along n
    cols: int = 0  # vectors along m
    batch_scalars: int = 0  # one value a batch, read at [l] alone
    whole: int = 0  # tensors read at [m, n]: full_bits without the results that it includes
    stored_bits: tuple[int, ...] = ()  # of every element-wise result, the stage's own first
    row_values: int = 0  # f32 values that row reductions need: two for a logsumexp
    columns: int = 0  # reductions over m
    reductions: int = 0
    pairs: bool = False
    indexed: bool = False  # the epilogue uses the indices of an element (triu, tril)

    @property
    def operands(self) -> int:
        return len(self.full_bits) + self.rows + self.cols + self.row_values + self.columns


_COLUMNS, _ROWS = {"n", "c"}, {"m", "b", "d", "h", "w"}  # in an implicit product channels are columns, pixels are rows


def epilogue_use(
    exprs: Expr | tuple[Expr, ...], types: Callable[[str], TensorType | None], store_bits: int
) -> EpilogueUse:
    """The shared memory that one or several expressions of a stage need."""
    full, rows, cols, scalars = [], 0, 0, 0
    exprs = exprs if isinstance(exprs, tuple) else (exprs,)
    for load in dict.fromkeys(x for e in exprs for x in loads(e)):
        axes = set(load.axes)
        if axes & _COLUMNS and axes & _ROWS:
            t = types(load.name)
            full.append(t.dtype.bits if t else 32)
        elif axes & _COLUMNS:
            rows += 1
        elif axes & _ROWS:
            cols += 1
        elif axes:
            scalars += 1
    return EpilogueUse(store_bits, tuple(full), rows, cols, scalars)


def stage_use(stage: Stage, types: Callable[[str], TensorType | None]) -> EpilogueUse:
    """The shared memory that all expressions of a stage need; a second full result is staged like an operand."""
    use = epilogue_use(expressions(stage), types, stage.type.dtype.bits)
    results = [(stage.epilogue, stage.type), *((x.expr, x.type) for x in stage.also)]
    reductions = [e.fn for e, _ in results if _reduction(e)]
    return replace(
        use,
        whole=len(use.full_bits),
        full_bits=use.full_bits + tuple(t.dtype.bits for e, t in results[1:] if not _reduction(e)),
        stored_bits=tuple(t.dtype.bits for e, t in results if not _reduction(e)),
        row_values=sum(2 if fn == "row_logsumexp" else 1 for fn in reductions if fn != "col_sum"),
        columns=reductions.count("col_sum"),
        reductions=len(reductions),
        pairs=getattr(stage, "pairs", False),
        indexed=any(map(indexed, expressions(stage))),
    )


def _reduction(e: Expr) -> bool:
    return isinstance(e, Call) and e.fn in REDUCTIONS


def indexed(e: Expr) -> bool:
    """Return True if an expression uses the indices of an element (triu, tril)."""
    return isinstance(e, Call) and (e.fn in INDEXED or any(map(indexed, e.args)))


@dataclass(frozen=True)
class Smem:
    """Bytes of shared memory by purpose. `stage` is one mainloop stage."""

    stage: int
    epilogue: int
    barriers: int

    def total(self, stages: int) -> int:
        return stages * self.stage + self.epilogue + self.barriers

    def max_stages(self, limit: int) -> int:
        """The largest number of stages that fits `limit` bytes; 0 or less if the epilogue alone does not fit."""
        return (limit - self.epilogue - self.barriers) // self.stage


def of_gemm(tile: tuple[int, int, int], schedule: str, operand_bits: int, use: EpilogueUse) -> Smem:
    """Shared memory of a GEMM collective with an MxNxK `tile`; `schedule` is cooperative or pingpong."""
    m, n, k = tile
    stage = (m + n) * k * operand_bits // 8
    sub_m = {192: 192, 320: 64}.get(m, min(m, 128)) if schedule == "cooperative" else min(m, 64)
    sub_n = gcd(32, n)
    sub_tiles = max(1, m * n // (sub_m * sub_n))
    epilogue = sub_m * sub_n * use.store_bits // 8 * min(sub_tiles, 4 if sub_n <= 16 else 2)
    # CUTLASS reads one sub-tile more ahead than it has in flight, even if the tile has only one.
    ahead = max(min(sub_tiles, 4), min(sub_tiles, 2) + 1)
    for bits in use.full_bits:
        epilogue += sub_m * sub_n * bits // 8 * ahead
    epilogue += 4 * (use.rows * n + use.cols * m)
    # Warps that share a column exchange their partial reductions; for M 192 and N > 128 also warps that share a row.
    groups = 1 if schedule == "pingpong" or m == 64 else (3 if m == 192 and n <= 128 else 1 if m == 192 else 2)
    epilogue += 4 * use.columns * n * (4 * groups - 1)
    if schedule == "cooperative" and m == 192 and n > 128:
        epilogue += 4 * use.row_values * m
    # A sub-tile with rows of 128 bytes is aligned to 1 KiB, and so is the allocation after it.
    wide = sub_n * use.store_bits >= 1024
    return Smem(stage, epilogue, 1024 + (1024 if use.operands or wide else 0))
