"""Products on sm_100a: TMA and tcgen05 instructions of one or two SMs. Only `cpp` writes them, and none has run yet.

A tile is CUTLASS 3.x's MMA tile. One SM computes a tile of M 128 (two SMs if the cluster's M is even), two SMs compute
M 256. The limits are the narrower of `sm100_umma_builder.inl` and the epilogue's `sm100_builder.inl` (CUTLASS 4.2).
"""

from __future__ import annotations

from dsl.ir import Config
from dsl.rules.problem import Objection, Problem, dims, kib, swizzle

MIN_STAGES, MAX_STAGES = 2, 16
CLUSTERS = (1, 2, 4)
EPILOGUE = 40 * 1024  # bytes that CUTLASS's carve-out reserves for the result's sub-tiles
OPERAND = 32 * 1024  # bytes for each full operand of the epilogue
BARRIERS = 2048


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a product on sm_100a that this configuration breaks."""
    out: list[Objection] = []
    name = p.arch.name
    if backend == "cute":
        out.append(Objection("E212", "backend", f"`cute` writes sm_90a; `cpp` writes {name}"))
    if p.kind != "gemm":
        description = "grouped products" if p.kind == "grouped_gemm" else "convolutions on the tensor cores"
        out.append(Objection("E201", "arch", f"{description} are written for sm_90a, not for {name}"))
        return out
    if p.epilogue.pairs:
        out.append(Objection("E201", "arch", f"pairs of columns are written for sm_90a, not for {name}"))
    if p.epilogue.reductions:
        message = f"sums over rows or columns beside a product are written for sm_90a, not for {name}"
        out.append(Objection("E201", "arch", message, ("store the product, and write reduce as a stage of its own",)))
    atom = 1024 // p.compute.bits
    if c.tile:
        m, n, k = c.tile
        before = len(out)
        if m not in (128, 256):
            out.append(Objection("E203", "tile", f"tile M is {m}; on {name} it is 128, or 256 over two SMs"))
        elif m == 256 and c.cluster and c.cluster[0] % 2:
            message = f"tile M 256 is two SMs' work, and cluster {dims(c.cluster)} is odd along M"
            out.append(Objection("E206", "cluster", message))
        if n % 32 or not 32 <= n <= 256:
            out.append(Objection("E203", "tile", f"tile N is {n}; on {name} it is a multiple of 32 from 32 to 256"))
        if k not in (atom, 2 * atom):
            message = f"tile K is {k}; {p.compute.value} on {name} takes {atom} or {2 * atom}"
            out.append(Objection("E203", "tile", message))
        if len(out) == before:
            stages = c.stages if c.stages is not None else MIN_STAGES
            total = stages * stage_bytes(p, c.tile) + fixed_bytes(p)
            if total > p.arch.smem_block:
                message = f"tile needs {total:,} bytes of shared memory; {name} gives a block {p.arch.smem_block:,}"
                note = f"mainloop {stages} stages x {kib(stage_bytes(p, c.tile))} + epilogue {kib(fixed_bytes(p))}"
                out.append(Objection("E204", "tile", message, (note,)))
    if c.cluster:
        cm, cn, ck = c.cluster
        if ck != 1:
            out.append(
                Objection("E206", "cluster", f"cluster K is {ck}; blocks of one cluster share K, so it must be 1")
            )
        elif cm not in CLUSTERS or cn not in CLUSTERS or cm * cn > 8:
            out.append(Objection("E206", "cluster", f"cluster {dims(c.cluster)} is not made of 1, 2 and 4, 8 at most"))
        elif c.tile:
            for axis, count, size, t in (("M", cm, p.shape.m, c.tile[0]), ("N", cn, p.shape.n, c.tile[1])):
                blocks = -(-size // t) * (2 if axis == "M" and t == 256 else 1)
                if count > max(blocks, 2 if t == 256 and axis == "M" else 1):
                    note = f"{axis} = {size:,} is {blocks} block{'s'[: blocks > 1]} of a tile of {t}"
                    message = f"cluster {dims(c.cluster)} spans {count} blocks along {axis}"
                    out.append(Objection("E206", "cluster", message, (note,)))
    if c.schedule is not None:
        out.append(
            Objection("E207", "schedule", f"{c.schedule} is a schedule of sm_90a's warp groups; {name} has its own")
        )
    if c.scheduler and c.scheduler.kind != "persistent":
        out.append(Objection("E208", "scheduler", f"{c.scheduler.kind} is for sm_90a; {name} is scheduled persistent"))
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        out.append(Objection("E210", "stages", f"stages {c.stages}: from {MIN_STAGES} to {MAX_STAGES} are possible"))
    return out + swizzle(c)


def stage_bytes(p: Problem, tile: tuple[int, int, int]) -> int:
    """Bytes of a stage on one SM: its A and B tiles, without sharing between two SMs."""
    m, n, k = tile
    return (min(m, 128) + n) * k * p.compute.bits // 8 + 64


def fixed_bytes(p: Problem) -> int:
    return EPILOGUE + OPERAND * len(p.epilogue.full_bits) + 1024 * (p.epilogue.rows + p.epilogue.cols) + BARRIERS


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    k = 1024 // p.compute.bits
    return [(m, n, k) for m in (128, 256) for n in (32, 64, 96, 128, 192, 256)]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return (None,)


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    return ((2, 1, 1), (1, 1, 1))


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    return min(MAX_STAGES, (p.arch.smem_block - fixed_bytes(p)) // stage_bytes(p, tile))
