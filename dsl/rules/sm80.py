"""Products on sm_80 and sm_89: CUTLASS 2.x, cp.async pipelines, warps of 64 rows or columns. Only `cpp` writes them.

The tiles are those that CUTLASS's generator instantiates for Sm80 and Sm89. There are no clusters and no warp-group
schedules. The epilogue reuses the mainloop's shared memory.
"""

from __future__ import annotations

from dsl.ir import Config, DType
from dsl.rules.problem import MAX_SPLITS, Objection, Problem, dims, kib, swizzle

SIZES = (
    *((64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128)),
)  # fmt: skip
MIN_STAGES, MAX_STAGES = 3, 6
BARRIERS = 1024  # rounding of the epilogue's padded rows


def depths(compute: DType) -> tuple[int, int]:
    """K of a tile: 64 or 128 bytes of operand."""
    return 512 // compute.bits, 1024 // compute.bits


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a product on sm_80 or sm_89 that this configuration breaks."""
    out: list[Objection] = []
    name = p.arch.name
    if backend == "cute":
        out.append(Objection("E212", "backend", f"`cute` writes sm_90a; `cpp` writes {name}"))
    if p.compute not in p.arch.instruction_k:
        out.append(Objection("E202", "compute", f"{name} has no {p.compute.value} tensor cores; sm_89 and sm_90a have"))
        return out
    if p.kind != "gemm":
        description = "grouped products" if p.kind == "grouped_gemm" else "convolutions on the tensor cores"
        out.append(Objection("E201", "arch", f"{description} are written for sm_90a, not for {name}"))
        return out
    if p.epilogue.reductions:
        message = f"sums over rows or columns beside a product are written for sm_90a, not for {name}"
        out.append(Objection("E201", "arch", message, ("store the product, and write reduce as a stage of its own",)))
    if c.tile:
        m, n, k = c.tile
        known = depths(p.compute)
        if (m, n) not in SIZES:
            sizes = ", ".join(map(dims, SIZES))
            out.append(Objection("E203", "tile", f"tile {m}x{n} is none of {name}'s: {sizes}"))
        elif k not in known:
            message = f"tile K is {k}; {p.compute.value} on {name} takes {known[0]} or {known[1]}"
            out.append(Objection("E203", "tile", message))
        else:
            stages = c.stages if c.stages is not None else MIN_STAGES
            total = stages * stage_bytes(p, c.tile) + BARRIERS
            if total > p.arch.smem_block and MIN_STAGES <= stages <= MAX_STAGES:
                message = f"tile needs {total:,} bytes of shared memory; {name} gives a block {p.arch.smem_block:,}"
                note = f"mainloop {stages} stages x {kib(stage_bytes(p, c.tile))} + {kib(BARRIERS)}"
                out.append(Objection("E204", "tile", message, (note,)))
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        out.append(Objection("E210", "stages", f"stages {c.stages}: {name} takes {MIN_STAGES} to {MAX_STAGES}"))
    if c.cluster not in (None, (1, 1, 1)):
        out.append(Objection("E206", "cluster", f"{name} has no clusters; sm_90a has"))
    if c.schedule is not None:
        out.append(
            Objection("E207", "schedule", f"{c.schedule} is a schedule of sm_90a's warp groups; {name} has none")
        )
    s = c.scheduler
    if s and s.kind == "stream_k":
        out.append(Objection("E208", "scheduler", f"stream_k is for sm_90a; {name} has split_k"))
    elif s and s.kind == "split_k" and p.kind == "conv":
        out.append(Objection("E208", "scheduler", f"a convolution is scheduled persistent; {s.kind} is for gemm"))
    elif s and s.kind == "split_k" and not 2 <= s.splits <= MAX_SPLITS:
        out.append(Objection("E208", "scheduler", f"split_k({s.splits}): from 2 to {MAX_SPLITS} splits are possible"))
    elif s and s.kind == "split_k" and c.tile and s.splits > -(-p.shape.k // c.tile[2]):
        note = f"K = {p.shape.k:,} is {-(-p.shape.k // c.tile[2])} steps of {c.tile[2]}"
        out.append(Objection("E208", "scheduler", f"split_k({s.splits}) leaves splits with no work", (note,)))
    return out + swizzle(c)


def stage_bytes(p: Problem, tile: tuple[int, int, int]) -> int:
    """Bytes of one A and one B tile."""
    m, n, k = tile
    return (m + n) * k * p.compute.bits // 8


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    return [(m, n, k) for k in depths(p.compute) for m, n in SIZES]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return (None,)


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    return ((1, 1, 1),)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """Four stages if they fit; CUTLASS's defaults are three to five."""
    return min(4, (p.arch.smem_block - BARRIERS) // stage_bytes(p, tile))
