"""Rules and cost model of row-major (nchw) convolutions on the tensor cores: mma.sync, since sm_80.

A tile is M filters x N pixels of one image x K, the depth of a step: a number of channels at all their taps. Only `cpp`
generates this kernel (dsl.rules.image has its geometry). It has no clusters, schedules or schedulers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from dsl.ir import Config
from dsl.rules.halo import WORD, Fit, fit, layout_of
from dsl.rules.image import Image, channels_of, depths, waste
from dsl.rules.problem import Objection, Problem, kib

MIN_STAGES, MAX_STAGES = 2, 4
MS = (16, 32, 48, 64, 96, 128)
NS = (64, 128, 224, 256, 512)  # always proposed; 224 suits rows of 28, 56, 112 and 224 pixels
N_STEP = 32  # four warps in pieces of eight pixels
TIGHTER = 1.05  # another N is proposed if its boxes waste less of an image by this factor
MAX_TILE = 128 * 256  # 128 accumulators a thread of 8 warps
# Clauses that this kernel does not have.
WITHOUT = ("cluster", "schedule", "scheduler", "swizzle")

# Rates of an SM in each clock. mma.sync reaches half of the tensor peak (H200: 2,135 tf32 FLOPs a clock), shared memory
# gives 128 bytes, L2 half of its 64. The constants below are fitted to 95 configurations of 17 convolutions of the
# suite (some of them guarded) with plain epilogues, measured on an H200: the root mean square error is 8%, the largest
# error 17%. The model leaves out the cost of functions such as gelu and mish, which is the same for every tile.
PEAK_CLOCK = {8: 2135.0, 16: 4270.0}
MMA_SHARE = 0.406
L2_CLOCK = 33.0
RUN_CLOCKS = 4.6  # storing a contiguous run of results
STEP_CLOCKS = 450.0  # barriers and waiting in each step, while other blocks run
TILE_CLOCKS = 1570.0  # the same at the end of a tile
LOOK_CLOCKS = 0.088  # the guard's check of one word of a box, while other blocks run
OVERLAP = 3.0  # order of the norm that combines a block's work and its loads, which run ahead
OVERLAP_MEMORY = 1.6  # order of the norm that combines these with device memory, which serves stores and loads in turn
HBM = 4.3e12  # bytes a second
CLOCK = 1.755e9


def objections(p: Problem, c: Config, backend: str) -> list[Objection]:
    """Every rule of a row-major convolution on the tensor cores that this configuration breaks."""
    return [*_back_end(backend), *_without(c), *_tile(p, c), *_stages(c)]


def _back_end(backend: str) -> Iterator[Objection]:
    if backend == "cute":
        message = "`cute` reads channels last on the tensor cores; `cpp` has the convolution that reads nchw there"
        yield Objection("E212", "backend", message)


def _without(c: Config) -> Iterator[Objection]:
    for clause in WITHOUT:
        if getattr(c, clause) is not None:
            message = f"a convolution that reads nchw has no {clause}; a channels-last one has"
            yield Objection("E216", clause, message)


def _stages(c: Config) -> Iterator[Objection]:
    if c.stages is not None and not MIN_STAGES <= c.stages <= MAX_STAGES:
        message = f"stages {c.stages}: a convolution that reads nchw takes {MIN_STAGES} to {MAX_STAGES}"
        yield Objection("E210", "stages", message)


def _tile(p: Problem, c: Config) -> Iterator[Objection]:
    if c.tile is None:
        return
    (m, n, k), image = c.tile, p.image
    if m not in MS:
        yield Objection("E203", "tile", f"tile M is {m}; filters of a block are {_either(MS)}")
    elif n % N_STEP or not NS[0] <= n <= NS[-1]:
        known = f"a multiple of {N_STEP}, {NS[0]} to {NS[-1]}"
        yield Objection("E203", "tile", f"tile N is {n}; pixels of a block are {known}")
    elif m * n > MAX_TILE:
        message = f"a {m}x{n} tile needs {m * n // 256} accumulator registers a thread; {MAX_TILE // 256} can be kept"
        yield Objection("E209", "tile", message)
    elif channels_of(image, k) is None:
        message = f"tile K is {k}; a step is whole channels of {image.taps} tap{'s'[: image.taps > 1]}"
        known = ", ".join(map(str, depths(image)))
        note = f"in instructions of {image.step}: {known}"
        yield Objection("E203", "tile", message, (note,))
    else:
        stages = c.stages if c.stages in range(MIN_STAGES, MAX_STAGES + 1) else MIN_STAGES
        block = fitted(p, c.tile, stages)
        if block.shared_bytes > p.arch.smem_block:
            total, limit = block.shared_bytes, p.arch.smem_block
            message = f"tile needs {total:,} bytes of shared memory; {p.arch.name} gives a block {limit:,}"
            count = block.layout.channels
            box = f"{count} channel{'s'[: count > 1]} of {block.layout.inner_rows}x{block.layout.pitch} of x"
            step = WORD * block.stage_words
            note = f"{stages} stages x {kib(step)} ({box}, {m}x{k} of w) + results {kib(total - stages * step)}"
            yield Objection("E204", "tile", message, (note,))
        elif not block.splits:
            rows, columns, warps = block.layout.rows, block.layout.columns, block.warps
            message = f"{warps} warps do not share {m} filters x {rows} rows of {columns} pixels in pieces of 8 pixels"
            yield Objection("E203", "tile", message, ("tile N 128 and 256 are always shared",))


def _either(values: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, values[:-1]))} or {values[-1]}"


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    """Tiles worth proposing: M up to the next size above the filters, boxes that cover the image well, any depth."""
    return list(_tiles(p.image, p.arch.smem_block))


@lru_cache(maxsize=1024)  # hundreds of tiles, and a search asks about the same few convolutions again and again
def _tiles(image: Image, limit: int) -> tuple[tuple[int, int, int], ...]:
    rows = [m for m in MS if m < 2 * image.filters] or [MS[0]]
    candidates = [(m, n, k) for m in rows for n in (*NS, *_tighter(image)) if m * n <= MAX_TILE for k in depths(image)]
    return tuple(t for t in candidates if fit(layout_of(image, t), MIN_STAGES, limit).splits)


def _tighter(image: Image) -> list[int]:
    """Values of N beside NS that waste less of the image; for example one row of 72 pixels covers 66, two of 64 do."""
    least = min(waste(image, n) for n in NS[1:])
    return [n for n in range(NS[1], NS[-1], N_STEP) if TIGHTER * waste(image, n) <= least]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return (None,)


def clusters(p: Problem) -> tuple[tuple[int, int, int] | None, ...]:
    return (None,)


@lru_cache(maxsize=8192)
def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """The number of steps, at most three, or fewer so that two blocks fit on an SM; 0 if the tile does not fit."""
    if channels_of(p.image, tile[2]) is None:
        return MIN_STAGES
    most = min(3, max(MIN_STAGES, layout_of(p.image, tile).chunks))
    for stages in range(most, MIN_STAGES - 1, -1):
        if fitted(p, tile, stages).blocks > 1:
            return stages
    return MIN_STAGES if fitted(p, tile, MIN_STAGES).shared_bytes <= p.arch.smem_block else 0


def fitted(p: Problem, tile: tuple[int, int, int], stages: int) -> Fit:
    """The warps and shared memory of a tile. Raises ValueError if K is no whole number of channels."""
    return fit(layout_of(p.image, tile), stages, p.arch.smem_block)


@dataclass(frozen=True)
class Clocks:
    """Clocks of one block that has an SM to itself.

    `mma`, `shared` and `load`: all steps on the tensor cores, in shared memory and in L2. `rest`: barriers and the
    guard's checks, during which other blocks run. `store`: storing the results.
    """

    mma: float
    shared: float
    load: float
    rest: float
    store: float

    @property
    def busy(self) -> float:
        """Clocks in which the block occupies the SM, so that no other block can run."""
        return (self.mma**4 + self.shared**4) ** 0.25 + self.store


def clocks(block: Fit, *, flops_clock: float, l2_clock: float = L2_CLOCK, watched: bool = False) -> Clocks:
    """The clocks of a block on an SM with `flops_clock` FLOPs and `l2_clock` bytes from L2 in each clock.

    `watched`: under a guard; blocks of different filters share a box and each checks a part of it. Shared memory serves
    32 words a clock. For each instruction along K a warp reads 128 words for 16 filters, and 32 words for 4 of K at 8
    pixels.
    """
    layout = block.layout
    n, step = layout.n, layout.image.step
    pieces = 4 * (block.warp_m // 16) + step // 4 * (block.warp_n // 8)
    looks = LOOK_CLOCKS * layout.channels * prod(layout.own) / layout.blocks[0] if watched else 0.0
    return Clocks(
        mma=layout.chunks * layout.steps * 2.0 * layout.m * n * step / flops_clock,
        shared=float(layout.chunks * layout.steps * block.warps * pieces),
        load=layout.chunks * block.stage_words * WORD / l2_clock,
        rest=layout.chunks * (STEP_CLOCKS + looks) + TILE_CLOCKS,
        store=layout.m * (1 if layout.whole_rows else layout.rows) * RUN_CLOCKS,
    )


def joined(work: float, load: float, memory: float) -> float:
    """The time of a block's work, its loads and device memory together, which overlap in part."""
    alone = (work**OVERLAP + load**OVERLAP) ** (1 / OVERLAP)
    return (alone**OVERLAP_MEMORY + memory**OVERLAP_MEMORY) ** (1 / OVERLAP_MEMORY)


def seconds(p: Problem, c: Config, sm_count: int = 132) -> float:
    """The predicted time of a complete configuration on an H200, in seconds.

    sol.model.rowmajor is the same model with the rates of any device.
    """
    block = fitted(p, c.tile, c.stages or MIN_STAGES)
    image = p.image
    written = (p.epilogue.store_bits + sum(p.epilogue.full_bits)) / 8
    of = clocks(block, flops_clock=MMA_SHARE * PEAK_CLOCK[image.step], watched=p.watched)
    each = shared_out(block, sm_count) / CLOCK
    x, y = image.channels * prod(image.size) * WORD, image.filters * image.pixels * written
    return joined(each * (of.busy + of.rest / block.blocks), each * of.load, image.batch * (x + y) / HBM)


def shared_out(block: Fit, sm_count: int) -> int:
    """The number of tiles on the SM with the most tiles; the last wave may leave some SMs idle."""
    slots = sm_count * block.blocks
    turns = -(-block.layout.tiles // slots)
    return (turns - 1) * block.blocks + -(-(block.layout.tiles - (turns - 1) * slots) // sm_count)
