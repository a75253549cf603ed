"""float32 on the CUDA cores (`compute f32`): the tiles of CUTLASS 2.x's SIMT kernels, on every architecture."""

from __future__ import annotations

from dsl.ir import Config
from dsl.rules.problem import Objection, Problem, dims, swizzle

TILES = ((128, 128, 8), (256, 128, 8), (128, 256, 8), (64, 128, 8), (128, 64, 8), (64, 64, 8))
MIN_STAGES, MAX_STAGES = 2, 5


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a SIMT product that this configuration breaks."""
    out = []
    if backend == "cute":
        out.append(Objection("E212", "backend", "`cute` multiplies on the tensor cores; `cpp` has compute f32"))
    if p.kind == "grouped_gemm":
        out.append(Objection("E202", "compute", "grouped products run on the tensor cores, in tf32, f16 or bf16"))
    if p.epilogue.reductions or p.epilogue.pairs:
        description = "sums over rows or columns beside" if p.epilogue.reductions else "pairs of columns of"
        out.append(Objection("E202", "compute", f"{description} a product run on the tensor cores; write compute tf32"))
    if c.tile and c.tile not in TILES:
        known = ", ".join(map(dims, TILES))
        out.append(Objection("E203", "tile", f"tile {dims(c.tile)} is none of compute f32's: {known}"))
    if c.cluster not in (None, (1, 1, 1)):
        out.append(Objection("E206", "cluster", f"compute f32 has no clusters; this one is {dims(c.cluster)}"))
    if c.schedule is not None:
        message = f"{c.schedule} is a schedule of warp groups on the tensor cores; compute f32 has none"
        out.append(Objection("E207", "schedule", message))
    if c.scheduler and c.scheduler.kind != "persistent":
        out.append(Objection("E208", "scheduler", f"{c.scheduler.kind} is for the tensor cores, not for compute f32"))
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        message = f"stages {c.stages}: compute f32 takes {MIN_STAGES} to {MAX_STAGES}"
        out.append(Objection("E210", "stages", message))
    return out + swizzle(c)


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    return list(TILES)


def schedules(p: Problem) -> tuple[str | None, ...]:
    return (None,)


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    return ((1, 1, 1),)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    return 4
