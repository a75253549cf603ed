"""Convolutions on sm_90a's tensor cores: a tile is M output pixels x N output channels x K channels-at-positions.

`cute` generates its kernel (dsl.lower.cute.conv.conv_tiles has the arithmetic): a tile is a box of pixels of one image.
Two warp groups share a tile (`cooperative`), or one computes it while the other block stores (`pingpong`). `cpp` is
CUTLASS 3.x with im2col TMA, with the tiles of a GEMM. The rules of each back end are one function here.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.ir import Config, Conv, DType
from dsl.rules import sm90
from dsl.rules.problem import SCHEDULES, Objection, Problem, dims, kib, swizzle

BARRIERS = 1024
CUTE_STAGED = 16_384  # bytes of shared memory that stage results before the store (dsl.lower.cute.conv.conv_store)
CUTE_STAGES = 12
# Accumulators a thread may hold beside 64 registers of coordinates and operands. A thread has 255 registers, or 224
# with two warp groups, which already spill with 160 accumulators: in all 20 of the suite's trials on an H200 a 256x160
# tile took 1.9 to 14.6 times as long as the best tile.
CUTE_ACCUMULATORS = {"pingpong": 191, "cooperative": 144}
MOST_PHASES, MOST_ROWS = 4, 512  # most phases of a tile, and pixels in all of them, that the staging buffer holds
MULTIPROCESSOR = 233_472  # bytes of shared memory of an H100's or H200's SM; the system takes 1 KiB of it a block


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a convolution that this configuration breaks."""
    out = list(both(p, c))
    out += cute(p, c) if backend == "cute" else cpp(p, c)
    return out + swizzle(c)


def both(p: Problem, c: Config) -> Iterator[Objection]:
    atom = 1024 // p.compute.bits
    if c.tile and c.tile[2] > atom:
        message = f"a convolution's K tile is at most {atom} {p.compute.value} values; it is {c.tile[2]}"
        yield Objection("E203", "tile", message)
    if c.scheduler and c.scheduler.kind != "persistent":
        yield Objection("E208", "scheduler", f"a convolution is scheduled persistent; {c.scheduler.kind} is for gemm")


def cute(p: Problem, c: Config) -> Iterator[Objection]:
    if p.compute is DType.TF32 and (p.columns or p.filters % 8):
        why = "a transposed convolution's weights lie along n" if p.columns else f"{p.filters} is no multiple of 8"
        message = f"`cute` convolves in tf32 what lies along the input channels, to output channels in eights; {why}"
        yield Objection("E212", "backend", message)
    if c.cluster not in (None, (1, 1, 1)):
        yield Objection("E206", "cluster", f"a convolution on `cute` has cluster 1x1x1, not {dims(c.cluster)}")
    if c.stages is not None and not 2 <= c.stages <= CUTE_STAGES:
        yield Objection("E210", "stages", f"stages {c.stages}: a convolution on `cute` takes 2 to {CUTE_STAGES}")
    if not c.tile:
        return
    m, n, k = c.tile
    if m not in (64, 128, 256):
        yield Objection("E203", "tile", f"tile M is {m}; a convolution's box of pixels has 64, 128 or 256")
        return
    if n % 16 or not 16 <= n <= 256:
        yield Objection("E203", "tile", f"tile N is {n}; it must be a multiple of 16 from 16 to 256")
        return
    if k % (step := 256 // p.compute.bits):
        yield Objection("E203", "tile", f"tile K is {k}; {p.compute.value} instructions take K in steps of {step}")
        return
    fits = [s for s in ([c.schedule] if c.schedule else SCHEDULES) if cute_holds(c.tile, s)]
    if not fits:
        if c.schedule == "cooperative" and m < 128:
            message = f"cooperative splits a tile between two warp groups of 64 rows; M is {m}"
            yield Objection("E207", "schedule", message)
            return
        used = min(
            m * n // (128 * (2 if s == "cooperative" else 1)) for s in ([c.schedule] if c.schedule else SCHEDULES)
        )
        most = CUTE_ACCUMULATORS[c.schedule or "cooperative"]
        message = f"a {m}x{n} tile needs {used} accumulator registers a thread; {most} can be kept"
        yield Objection("E209", "tile", message)
    stages = c.stages or 2
    total = stages * stage_bytes(p, c.tile) + BARRIERS + CUTE_STAGED
    if total > p.arch.smem_block:
        message = f"tile needs {total:,} bytes of shared memory; {p.arch.name} gives a block {p.arch.smem_block:,}"
        note = f"mainloop {stages} stages x {kib(stage_bytes(p, c.tile))} + results {kib(CUTE_STAGED)}"
        yield Objection("E204", "tile", message, (note,))


def phases_of(stage: Conv, pixels: int = 128, columns: int | None = None) -> int:
    """The number of phases along w of a transposed convolution that share a tile of `cute`; `columns` None means any
    number of columns."""
    phases = stage.stride[-1] if stage.transposed else 1
    fits = columns is None or columns % (8 * phases) == 0
    return phases if phases <= MOST_PHASES and phases * pixels <= MOST_ROWS and fits else 1


def cute_holds(tile: tuple[int, int, int], schedule: str) -> bool:
    """Return True if the accumulators of the tile fit the registers of a block's threads."""
    m, n, _ = tile
    groups = 2 if schedule == "cooperative" else 1
    return m >= 64 * groups and m * n // (128 * groups) <= CUTE_ACCUMULATORS[schedule]


def cpp(p: Problem, c: Config) -> Iterator[Objection]:
    """The rules of CUTLASS's convolution: those of a gemm with both operands along K."""
    yield from sm90.objections(p, c, "cpp")


def stage_bytes(p: Problem, tile: tuple[int, int, int]) -> int:
    m, n, k = tile
    return (m + n) * k * p.compute.bits // 8


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    """Tiles worth proposing: those of a gemm whose N is not far above the output channels.

    If the phases of a transposed convolution share a tile, N divides the columns of all of them.
    """
    gemm_tiles = [t for t in sm90.tiles(p) if t[2] <= 1024 // p.compute.bits]
    if p.compute is DType.TF32:  # only `cpp`, which launches most phases apart, so N is at most the output channels
        if p.beside > 1:  # two phases share a tile, so N divides the columns of both
            return [t for t in gemm_tiles if p.filters * p.beside % t[1] == 0] or gemm_tiles
        return [t for t in gemm_tiles if t[1] < p.filters + 32]
    whole = {p.columns // n for n in range(1, 9) if p.columns and p.columns % (16 * n) == 0}
    if not whole:
        return [t for t in gemm_tiles if t[1] < p.filters + 32] or gemm_tiles
    sizes = dict.fromkeys((m, k) for m, _, k in gemm_tiles)
    return [(m, n, k) for m, k in sizes for n in sorted(whole) if m * n <= 256 * CUTE_ACCUMULATORS["cooperative"]]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return SCHEDULES


def clusters(p: Problem) -> tuple[tuple[int, int, int], ...]:
    return ((1, 1, 1),)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """The default number of stages.

    It leaves room for a second or third block on an SM if that allows at least three stages. It is at most the number
    that fits a gemm of the same tile, so that both back ends take it.
    """
    fit = sm90.shared_memory(p, tile, schedule or "cooperative").max_stages(p.arch.smem_block)
    steps = -(-p.shape.k // tile[2])
    if p.columns and p.compute is DType.TF32:  # on `cpp` the window of a transposed convolution is part of K
        steps *= p.shape.n // p.filters
    for blocks in (3, 2, 1):
        room = (min(p.arch.smem_block, MULTIPROCESSOR // blocks - 1024) - BARRIERS - CUTE_STAGED) // stage_bytes(
            p, tile
        )
        if room >= min(3, max(2, steps)):
            return sm90.sliced(p, tile, max(2, min(CUTE_STAGES, room, fit, max(2, steps + 1))))
    return sm90.sliced(p, tile, max(0, fit))
