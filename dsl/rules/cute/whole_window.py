"""Convolutions of `cute` that keep their weights and a tile's whole window in shared memory.

In the kernel that streams (dsl.lower.cute.conv.conv_text) every window position fetches its pixels of x and its weights
again, from L2. A 3x3 window of 64 channels fetches 2.3 GB of x where x has 0.27 GB, and as much of the weights, and TMA
is as busy as the tensor cores. Here the weights come once a block, and of x comes one box a tile, which has the pixels
of all positions. Two teams of one warp group each take the tiles by turns: one multiplies while the other stores.

The box lies by eights of channels, [channel // 8][d][h][w][8], without a swizzle. So the pixels that a position reads
begin at some multiple of 16 bytes, which a descriptor of warp-group MMA can say. It also says one distance between
groups of 8 pixels, so a group lies along w and the groups of 64 pixels lie along one axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from dsl.ir import NHWC, Conv, DType, TensorType

BLOCK = 232_448  # most bytes of shared memory of one block
BARRIERS, ALIGNED = 1024, 1024
TEAMS, STAGES = 2, 2  # a box of x for each team
STAGED = (16_384, 8_192)  # bytes of shared memory of a team that stage its results: the first that fits
ACCUMULATORS = 144  # of a thread, as with two warp groups that share a tile
DEPTHS = (64, 32, 16)  # channels of a step of K
LEAST_TILES = 4  # of a team, for which the weights are worth their loading
SMS = 132
PIXEL, EIGHT = 1.86, 78.0  # clocks of TMA for a row of 16 bytes, and for a box (sol.model.convolution)
FLOPS = 0.81 * 4096  # of the tensor cores of a multiprocessor in a clock
NARROW = 48  # an instruction takes as long for fewer columns
RESULT = 0.079  # clocks per result
# Clocks of a multiprocessor for neighbouring results of a row that a tile stores, where channels lie apart: if they are
# whole sectors of memory, and if not. On an H200 16.8 million rows of 8 aligned f32 took 0.11 ms more than the same
# results with channels innermost, and 33 million rows of 8 that began anywhere 1.8 ms more.
SECTOR, ROW, CUT_ROW = 32, 1.5, 11.0
CUT_COLUMNS = 64  # with more of them the streaming kernel hides such rows as well, behind more blocks


@dataclass(frozen=True)
class Window:
    """What a convolution reads, along w, h and d. `reach`: pixels of x beyond a box of results. `unit`: bytes of a
    result; 0: results are stored with their channels innermost, or one value a pixel."""

    images: int
    channels: int
    filters: int
    taps: tuple[int, int, int]
    reach: tuple[int, int, int]
    out: tuple[int, int, int]
    unit: int

    @property
    def depth(self) -> int:
        """Channels of a step of K."""
        return next(d for d in DEPTHS if self.channels % d == 0)

    @property
    def steps(self) -> int:
        return prod(self.taps) * self.channels // self.depth

    @property
    def eights(self) -> int:
        return self.channels // 8


@dataclass(frozen=True)
class Box:
    """The box of results of a tile, the box of x that it reads (`edges`), elements from one eight of channels of that
    to the next, and bytes that stage a team's results."""

    box: tuple[int, int, int]
    edges: tuple[int, int, int]
    pitch: int
    staged: int


def window_of(stage: Conv, x: TensorType, w: TensorType, y: TensorType, stored: TensorType) -> Window | None:
    """What a typed convolution of result `y` reads whose kernel stores `stored`; None for one that this kernel does not
    take."""
    halves = (DType.F16, DType.BF16)
    if stage.transposed or stage.groups != 1 or any(s != 1 for s in stage.stride) or x.dtype not in halves:
        return None
    if x.layout != NHWC or w.layout != NHWC or w.dtype is not x.dtype or x.shape[1] % DEPTHS[-1]:
        return None
    taps = three(w.shape[2:], 1)
    dilation = three(stage.dilation, 1)
    if prod(taps) == 1:
        return None
    reach = tuple((n - 1) * d for n, d in zip(taps, dilation, strict=True))
    unit = 0 if stored.layout == NHWC else stored.dtype.bits // 8
    return Window(x.shape[0], x.shape[1], w.shape[0], taps, reach, three(y.shape[2:], 1), unit)


@lru_cache(maxsize=4096)  # planning asks for the same few again and again
def box_of(window: Window, pixels: int, n: int, least: tuple[int, int, int] = (1, 1, 1)) -> Box | None:
    """The box of a tile of `pixels` and `n` columns that takes the least time; None if nothing fits shared memory, or
    the weights are not worth their loading. `least`: pixels of a pool's window, which lies in one box."""
    if n < window.filters or n % 16 or pixels * n // 128 > ACCUMULATORS:
        return None
    best = None
    for box in _boxes(pixels):
        if any(edge % one for edge, one in zip(box, least, strict=True)):
            continue
        tiles = window.images * prod(-(-o // b) for o, b in zip(window.out, box, strict=True))
        fitting = _fitting(window, box, n)
        if fitting is None or tiles < LEAST_TILES * TEAMS * SMS:
            continue
        if _cuts(window, box) and (n > CUT_COLUMNS or box[0] == 8):
            continue
        clocks = tiles * clocks_of(window, fitting, n)
        if best is None or clocks < best[0]:
            best = clocks, fitting
    return best and best[1]


def clocks_of(window: Window, box: Box, n: int) -> float:
    """Clocks of a multiprocessor for a tile: products, or the fetching of x, or results."""
    pixels = prod(box.box)
    products = 2.0 * window.steps * window.depth * pixels * max(n, NARROW) / FLOPS
    fetches = window.eights * (EIGHT + PIXEL * prod(box.edges))
    rows = pixels * n / min(box.box[0], window.out[0]) if window.unit else 0
    return max(products, fetches, pixels * n * RESULT) + rows * (CUT_ROW if _cuts(window, box.box) else ROW)


def _cuts(window: Window, box: tuple[int, int, int]) -> bool:
    """Return True if the rows of results that a tile stores begin or end within a sector of memory."""
    return any(n * window.unit % SECTOR for n in (window.out[0], box[0]))


def _boxes(pixels: int) -> list[tuple[int, int, int]]:
    """Boxes whose groups of 64 pixels lie along one axis: along w, or eights of it along h."""
    rest = pixels // 64
    splits = [(w, h, rest // (w * h)) for w in (1, 2, 4) for h in (1, 2, 4) if rest % (w * h) == 0]
    return [(64 * w, h, d) for w, h, d in splits] + [(8, 8 * h, d) for w, h, d in splits if w == 1]


def _fitting(window: Window, box: tuple[int, int, int], n: int) -> Box | None:
    edges = tuple(b + r for b, r in zip(box, window.reach, strict=True))
    if max(edges) > 256:
        return None
    pitch = -(-prod(edges) * 8 // 64) * 64  # TMA writes to multiples of 128 bytes
    weights, boxes = 2 * n * window.depth * window.steps, 2 * STAGES * window.eights * pitch
    room = BLOCK - BARRIERS - sum(-(-size // ALIGNED) * ALIGNED for size in (weights, boxes))
    staged = next((s for s in STAGED if TEAMS * s <= room), 0)
    return Box(box, edges, pitch, staged) if staged else None


def three(values, fill: int) -> tuple[int, int, int]:
    """Spatial values, outermost first, as (w, h, d)."""
    inner = tuple(reversed(tuple(values)))
    return (*inner, *(fill,) * (3 - len(inner)))


__all__ = ["BLOCK", "SMS", "Box", "Window", "box_of", "three", "window_of"]
