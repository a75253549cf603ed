"""Convolutions that read x and w as they lie (nchw) on the tensor cores: mma.sync, on every architecture since sm_80.

A tile is M filters x N pixels of one image x K, the depth of a step: channels at all their taps. `cpp` alone writes it,
as a kernel of our own (dsl.rules.image has its geometry); blocks have no clusters, schedules or order to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dsl.ir import Config
from dsl.rules.halo import WORD, Fit, fit, layout_of
from dsl.rules.image import Image, channels_of, depths, waste
from dsl.rules.problem import Objection, Problem, kib

MIN_STAGES, MAX_STAGES = 2, 4
MS = (16, 32, 48, 64, 96, 128)
NS = (64, 128, 224, 256, 512)  # always proposed; 224: rows of 28, 56, 112 and 224 pixels
N_STEP = 32  # four warps in pieces of eight pixels
TIGHTER = 1.05  # by which another N's boxes must cover an image better to be proposed
MAX_TILE = 128 * 256  # 128 accumulators a thread of 8 warps
# Clauses that mean nothing here.
WITHOUT = ("cluster", "schedule", "scheduler", "swizzle")

# What a multiprocessor does in a clock. mma.sync reaches half of the tensor peak (H200: 2,135 tf32 FLOPs a clock),
# shared memory gives 128 bytes, L2 half of its 64. The constants below are fitted to 95 configurations of 17
# convolutions of the suite, guarded ones among them, with plain epilogues, measured on an H200: the error's root mean
# square is 8%, its largest 17%. gelu, mish and their like cost what is not in it; they cost it under every tile.
PEAK_CLOCK = {8: 2135.0, 16: 4270.0}
MMA_SHARE = 0.406
L2_CLOCK = 33.0
RUN_CLOCKS = 4.6  # a run of results on its way out
STEP_CLOCKS = 450.0  # barriers and waiting, a step; other blocks work meanwhile
TILE_CLOCKS = 1570.0  # the same, where a tile ends
LOOK_CLOCKS = 0.088  # a word of a box that the guard looks at; other blocks work meanwhile
OVERLAP = 3.0  # order of the norm that joins a block's work and its loads, which run ahead of it
OVERLAP_MEMORY = 1.6  # of the one that joins both and device memory, which serves results and loads by turns
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
            message = f"a convolution that reads nchw has no {clause}; one of channels last has"
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
        made = fitted(p, c.tile, stages)
        if made.shared_bytes > p.arch.smem_block:
            total, limit = made.shared_bytes, p.arch.smem_block
            message = f"tile needs {total:,} bytes of shared memory; {p.arch.name} gives a block {limit:,}"
            count = made.layout.channels
            box = f"{count} channel{'s'[: count > 1]} of {made.layout.inner_rows}x{made.layout.pitch} of x"
            step = WORD * made.stage_words
            note = f"{stages} stages x {kib(step)} ({box}, {m}x{k} of w) + results {kib(total - stages * step)}"
            yield Objection("E204", "tile", message, (note,))
        elif not made.splits:
            rows, columns, warps = made.layout.rows, made.layout.columns, made.warps
            message = f"{warps} warps do not share {m} filters x {rows} rows of {columns} pixels in pieces of 8 pixels"
            yield Objection("E203", "tile", message, ("tile N 128 and 256 are always shared",))


def _either(values: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, values[:-1]))} or {values[-1]}"


def tiles(p: Problem) -> list[tuple[int, int, int]]:
    """Filters rounded up and half of them, any box of pixels that covers the image well, any depth."""
    rows = [m for m in MS if m < 2 * p.image.filters] or [MS[0]]
    found = [(m, n, k) for m in rows for n in (*NS, *_tighter(p.image)) if m * n <= MAX_TILE for k in depths(p.image)]
    return [t for t in found if fitted(p, t, MIN_STAGES).splits]


def _tighter(image: Image) -> list[int]:
    """Pixels of a block beside the usual ones: rows of 66, say, are one of 72 but two of 64."""
    least = min(waste(image, n) for n in NS[1:])
    return [n for n in range(NS[1], NS[-1], N_STEP) if TIGHTER * waste(image, n) <= least]


def schedules(p: Problem) -> tuple[str | None, ...]:
    return (None,)


def clusters(p: Problem) -> tuple[tuple[int, int, int] | None, ...]:
    return (None,)


def auto_stages(p: Problem, tile: tuple[int, int, int], schedule: str | None) -> int:
    """As many as there are steps, three at most, and as few as let two blocks stand on a multiprocessor; too few where
    nothing fits."""
    if channels_of(p.image, tile[2]) is None:
        return MIN_STAGES
    most = min(3, max(MIN_STAGES, layout_of(p.image, tile).chunks))
    for stages in range(most, MIN_STAGES - 1, -1):
        if fitted(p, tile, stages).blocks > 1:
            return stages
    return MIN_STAGES if fitted(p, tile, MIN_STAGES).shared_bytes <= p.arch.smem_block else 0


def fitted(p: Problem, tile: tuple[int, int, int], stages: int) -> Fit:
    """Raises ValueError for a K that is no whole channels."""
    return fit(layout_of(p.image, tile), stages, p.arch.smem_block)


@dataclass(frozen=True)
class Clocks:
    """Of one block on a multiprocessor alone. `mma`, `shared`, `load`: all its steps on the tensor cores, at the shared
    memory and at the L2; `rest`: barriers and the guard's looks, in which other blocks work; `store`: its results."""

    mma: float
    shared: float
    load: float
    rest: float
    store: float

    @property
    def busy(self) -> float:
        """What the multiprocessor works itself, whatever stands beside the block."""
        return (self.mma**4 + self.shared**4) ** 0.25 + self.store


def clocks(made: Fit, *, flops_clock: float, l2_clock: float = L2_CLOCK, watched: bool = False) -> Clocks:
    """What a block costs where a multiprocessor multiplies `flops_clock` a clock and L2 gives it `l2_clock` bytes.
    `watched`: under a guard; the blocks of different filters take turns to look at the box that they share.

    Shared memory, 32 words a clock: of each instruction along K a warp reads 128 words for 16 filters, 32 for 4 of K at
    8 pixels.
    """
    layout = made.layout
    n, step = layout.n, layout.image.step
    pieces = 4 * (made.warp_m // 16) + step // 4 * (made.warp_n // 8)
    looks = LOOK_CLOCKS * layout.channels * prod(layout.own) / layout.blocks[0] if watched else 0.0
    return Clocks(
        mma=layout.chunks * layout.steps * 2.0 * layout.m * n * step / flops_clock,
        shared=float(layout.chunks * layout.steps * made.warps * pieces),
        load=layout.chunks * made.stage_words * WORD / l2_clock,
        rest=layout.chunks * (STEP_CLOCKS + looks) + TILE_CLOCKS,
        store=layout.m * (1 if layout.whole_rows else layout.rows) * RUN_CLOCKS,
    )


def joined(work: float, load: float, memory: float) -> float:
    """What a block's work, its loads and device memory take together, side by side but waiting for each other."""
    alone = (work**OVERLAP + load**OVERLAP) ** (1 / OVERLAP)
    return (alone**OVERLAP_MEMORY + memory**OVERLAP_MEMORY) ** (1 / OVERLAP_MEMORY)


def seconds(p: Problem, c: Config, sm_count: int = 132) -> float:
    """Expected time of a whole configuration on an H200's multiprocessors; sol.model.rowmajor is the same at any
    device's rates."""
    made = fitted(p, c.tile, c.stages or MIN_STAGES)
    image = p.image
    written = (p.epilogue.store_bits + sum(p.epilogue.full_bits)) / 8
    of = clocks(made, flops_clock=MMA_SHARE * PEAK_CLOCK[image.step], watched=p.watched)
    each = shared_out(made, sm_count) / CLOCK
    x, y = image.channels * prod(image.size) * WORD, image.filters * image.pixels * written
    return joined(each * (of.busy + of.rest / made.blocks), each * of.load, image.batch * (x + y) / HBM)


def shared_out(made: Fit, sm_count: int) -> int:
    """Tiles of the multiprocessor that has most: the last turn may leave some without one."""
    slots = sm_count * made.blocks
    turns = -(-made.layout.tiles // slots)
    return (turns - 1) * made.blocks + -(-(made.layout.tiles - (turns - 1) * slots) // sm_count)
