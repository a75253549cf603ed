"""Rules of quack's product on sm_90a beyond those that it shares with CUTLASS (sm90.py).

They match the refusals of dsl.lower.cute.gemm.quack_gemm, so that a program that passes the checks builds.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.ir import Config, DType
from dsl.rules.problem import Objection, Problem, dims

MAX_REDUCTIONS = 6


def objections(p: Problem, c: Config, accumulators: int | None, most: int) -> Iterator[Objection]:
    """The broken rules. `accumulators`: registers of the tile's sums or None if unknown; at most `most` are allowed."""
    use = p.epilogue
    if use.pairs:
        yield from _pairs(p, c)
    if p.kind == "grouped_gemm" and use.whole:
        yield Objection(
            "E212", "backend", "`cute` reads vectors alone in a grouped product, not whole tensors at [m, n]"
        )
    if p.kind == "grouped_gemm" and use.indexed:
        yield Objection("E212", "backend", "`cute` does not know an element's place in a grouped product")
    if use.reductions > MAX_REDUCTIONS:
        yield Objection("E212", "backend", f"`cute` keeps at most {MAX_REDUCTIONS} reductions in one launch")
    if c.scheduler and c.scheduler.kind == "split_k" and (use.pairs or not use.stored_bits):
        yield Objection(
            "E208", "scheduler", "`cute` splits K only where a whole result is stored, not pairs of columns"
        )
    if p.compute in (DType.E4M3, DType.E5M2) and accumulators is not None and 2 * accumulators > most:
        note = "fp8 sums are added to f32 ones after each K tile, as the tensor cores keep 14 bits of them"
        yield Objection(
            "E209", "tile", f"a {dims(c.tile[:2])} tile of {p.compute.value} needs {2 * accumulators} accumulator "
            f"registers a thread; {most} can be kept", (note,),
        )  # fmt: skip


def _pairs(p: Problem, c: Config) -> Iterator[Objection]:
    use = p.epilogue
    wide = [b for b in use.stored_bits if b != 16]
    if wide:
        yield Objection("E212", "backend", "`cute` stores pairs of columns as f16 or bf16")
    if use.whole:
        yield Objection("E212", "backend", "`cute` reads vectors alone beside pairs of columns, not tensors at [m, n]")
    if use.indexed:
        yield Objection("E212", "backend", "`cute` does not know an element's place among pairs of columns")
    if c.tile and c.tile[1] % 32:
        yield Objection("E203", "tile", f"pairs of columns need a tile N in steps of 32; N is {c.tile[1]}")
    if c.tile and c.tile[0] == 192:
        # On an H200 192x160 stored results that differed from run to run: three halves of M on two warp groups.
        yield Objection("E203", "tile", "pairs of columns need a tile M of 64, 128 or 256")
