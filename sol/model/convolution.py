"""The time of a convolution on wgmma that loads boxes of pixels from channels-last x by TMA (the kernel of `cute`).

It differs from the time of the implicit product: each window position fetches a pixel again, but from L2, so x crosses
device memory once; TMA moves a box row by row, one pixel a row, however few channels it has; a step of K holds whole
boxes of channels, and the tensor cores multiply the padding beyond the last channel too; a tile is a box of one image's
pixels, and its full cost is paid at the image's edges. The kernel's plan (dsl.lower.cute.conv.conv_tiles) cuts the
tiles. Where weights and whole windows lie in shared memory (dsl.rules.cute.whole_window), weights are fetched once a
block and pixels once a tile, with the same constants: 12 such kernels were predicted within 15% on an H200, one of five
window positions a row 24% too fast and one of three window positions 54% too slow.

The constants are fitted to 141 trials of whole programs, 26 convolutions of the suite on an H200 (engine/results). The
median error is 10%, the root mean square 17%; with the model of the implicit product they are 22% and 38%. All of
them were in f16: in tf32 the kernel's machine code is the same, over half as many channels a box
(tests/engine/build/test_cute_builds.py), and none was measured yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from dsl import ir
from dsl.lower import Refusal
from dsl.lower.cute.conv.conv_launches import Launch
from dsl.lower.cute.conv.conv_tiles import Tiling, boxes, tiled
from dsl.rules import legal
from dsl.rules.cute.whole_window import TEAMS
from sol.hardware import Hardware
from sol.model.tiles import GAP_MS, LAUNCH_MS, PROLOGUE_CLOCKS, Product, TileTime

NARROW = 48  # an instruction takes as long for fewer columns
ISSUE = 0.81  # best share of the tensor peak
STEP_CLOCKS = 29.0  # barriers and address work per step of K
TILE_CLOCKS = 300.0  # the same at the end of a tile, while other blocks work
BOX_CLOCKS = 156.0  # TMA's fixed cost for a box of x and a box of w
PIXEL_CLOCKS, FILTER_CLOCKS = 1.86, 0.57  # TMA's cost for each of their rows of 64 bytes or less
# Factor for pixels of fewer than 64 bytes if window rows are read as one run: rows of a box overlap in memory.
SECTOR, OVERLAPPING = 64, 4.9
L2_CLOCK = 69.0  # bytes of boxes per clock and multiprocessor
ELEMENT_CLOCKS = 0.079  # per result: convert, reorder, store
ALONE, BESIDE = 0.58, 0.15  # exposed share of it with one resident block, and with more
OVERLAP = 5.7  # order of the norm over a multiprocessor's products and its boxes
OVERLAP_MEMORY = 1.2  # of the norm over those and device memory: tiles begin and end together


def implicit(program: ir.Program, stage: ir.Collective) -> bool:
    """Return True if this kernel takes a checked stage: a convolution with a tile, channels last, on sm_90a, in f16,
    bf16 or tf32. (In tf32 `cpp` has another kernel, for where the program asks for `cpp`.)"""
    if not isinstance(stage, ir.Conv) or stage.config.tile is None or program.arch not in (None, "sm_90a"):
        return False
    x = legal.types_of(program)[stage.x.name]
    if x.layout != ir.NHWC:
        return False
    if x.dtype is ir.DType.F32 and stage.config.compute is ir.DType.TF32:
        return "cute" in legal.backends(legal.program_problem(program, stage), stage.config)
    return x.dtype in (ir.DType.F16, ir.DType.BF16)


@dataclass(frozen=True)
class _Work:
    """Clocks of the busiest multiprocessor in one launch: products, TMA's rows, L2's bytes, results."""

    products: float
    rows: float
    bytes: float
    results: float
    tiles: int
    waves: int


def convolution_time(program: ir.Program, stage: ir.Conv, p: Product, hw: Hardware) -> TileTime | None:
    """Predicted time of all launches of a stage with a tile; `p`: its implicit product. None if the kernel does not
    take the stage (`cpp` may). Raises HardwareError when the device has no units of its class."""
    types = legal.types_of(program)
    x, w, y = types[stage.x.name], types[stage.w.name], stage.type
    try:
        launches, tile = tiled(stage, types)
    except Refusal:
        return None
    clock, full = hw.tensor_mhz * 1e6, float(p.l * p.m * p.n)
    moved = full * (p.out_bytes + p.extra_bytes)
    each = full / y.elements  # p counts per element of the product
    element = max(
        ELEMENT_CLOCKS,
        p.extra_flops * each / 128.0,
        p.extra_special * each * hw.sms * hw.boost_mhz * 1e6 / hw.sfu,
        moved / y.elements * hw.sms * clock / hw.l2_bandwidth,
    )
    works = [_work(launch, stage, tile, x.shape[0], element, p, hw) for launch in launches]
    products, rows, fetched, results = (_sum(works, n) / clock * 1e3 for n in ("products", "rows", "bytes", "results"))
    hbm = x.bytes + w.bytes + moved
    memory_ms = hbm / hw.copy_rate * 1e3
    main_ms, whole_ms = (
        _joined(_joined(busy, rows, fetched, order=OVERLAP), memory_ms, order=OVERLAP_MEMORY)
        for busy in (products, products + results)
    )
    launch_ms, fill_ms = LAUNCH_MS + GAP_MS * (len(works) - 1), len(works) * PROLOGUE_CLOCKS / clock * 1e3
    resources = {"tensor": products, "l2": max(rows, fetched), "memory": memory_ms, "epilogue": whole_ms - main_ms}
    by = max(resources, key=lambda r: resources[r])
    tiles, waves = sum(x.tiles for x in works), sum(x.waves for x in works)
    return TileTime(
        launch_ms + fill_ms + whole_ms,
        launch_ms,
        fill_ms,
        main_ms,
        whole_ms - main_ms,
        0.0,
        products,
        resources["l2"],
        memory_ms,
        hbm,
        fetched * 1e-3 * clock * L2_CLOCK * hw.sms + moved,
        tiles,
        waves,
        min(1.0, y.elements / (tile.pixels * tile.n) / (waves * _beside(tile) * hw.sms)),
        by,
        len(works),
    )


def _work(launch: Launch, stage: ir.Conv, tile: Tiling, images: int, element: float, p: Product, hw: Hardware) -> _Work:
    last = launch.strides[2] == 1  # results with channels innermost
    box = tile.whole.box if tile.whole else boxes(tile.pixels, launch.out, last)
    columns = stage.type.shape[1] // stage.groups * launch.phases
    around = prod(-(-size // edge) for size, edge in zip(launch.out, box, strict=True))
    tiles = images * around * -(-columns // tile.n) * stage.groups
    beside = _beside(tile)
    slots = hw.sms * beside
    turns = -(-tiles // slots)
    share = (turns - 1) * beside + ceil((tiles - (turns - 1) * slots) / hw.sms)
    run_box, parts = tile.run_box(launch.run, launch.taps)
    fetches = -(-launch.run // run_box) * launch.taps
    steps = -(-fetches // parts)
    flops = ISSUE * hw.peak(p.cls) / hw.sms / (hw.tensor_mhz * 1e6)  # a clock
    product = 2.0 * parts * run_box * tile.pixels * max(tile.n, NARROW) / flops
    results = share * tile.pixels * tile.n * element * (ALONE if beside == 1 else BESIDE)
    if tile.whole:  # weights come once a block, pixels once a tile, by eights of channels
        eights, pixels = launch.run // 8, prod(tile.whole.edges)
        return _Work(
            products=share * (steps * product + TILE_CLOCKS / beside) + 2 * tile.n * steps * tile.depth / L2_CLOCK,
            rows=share * eights * (BOX_CLOCKS / 2 + PIXEL_CLOCKS * pixels),
            bytes=share * eights * 16 * pixels / L2_CLOCK,
            results=results,
            tiles=tiles,
            waves=turns,
        )
    row = tile.unit * run_box  # bytes
    pitch = tile.unit * launch.views[0][2][1]  # bytes from a pixel to the next
    near = OVERLAPPING if pitch < min(SECTOR, row) else 1.0
    rows = (PIXEL_CLOCKS * near * tile.pixels + FILTER_CLOCKS * tile.n) * max(1.0, row / SECTOR)
    return _Work(
        products=share * (steps * (product + STEP_CLOCKS) + TILE_CLOCKS / beside),
        rows=share * fetches * (BOX_CLOCKS + rows),
        bytes=share * fetches * row * (tile.pixels + tile.n) / L2_CLOCK,
        results=results,
        tiles=tiles,
        waves=turns,
    )


def _beside(tile: Tiling) -> int:
    """Tiles in work at once on a multiprocessor: of blocks, or of the teams of one."""
    return TEAMS if tile.whole else tile.resident


def _sum(works: Sequence[_Work], name: str) -> float:
    return sum(getattr(x, name) for x in works)


def _joined(*times: float, order: float) -> float:
    return sum(t**order for t in times) ** (1 / order)
