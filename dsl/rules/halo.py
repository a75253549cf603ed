"""Where x and w lie in shared memory for a row-major convolution on the tensor cores, and in which order K is walked.

A tap of a window is an offset into the halo box, so x is never copied into another order. An instruction takes K in
fours ("quads"): lane % 4 chooses one of a quad, so a quad's four elements must lie one constant step apart, and every
other offset is a constant of the text. They lie along channels (a step of one channel's plane) or along the window's
columns (a step of the dilation), whichever leaves fewer lanes without an element. Those read their neighbour's, which
meets a weight of zero.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod

from dsl.rules.image import Image, box, channels_of

WORD = 4  # bytes
REGISTERS = 65_536  # of a multiprocessor
BESIDE = 96  # registers of a thread beside its accumulators, so that nothing spills
LESS = 64  # what eight warps of 32 x 64 are content with, so that two blocks of them stand together
GAP = 8  # results are staged at their place within so many elements of memory
RESERVED = 1024  # bytes of shared memory a block that are the system's


@dataclass(frozen=True)
class Quad:
    """Four of K: `offset` of the first in the box (words), its (channel of the step, td, th, tw), how many are real."""

    offset: int
    first: tuple[int, int, int, int]
    real: int


@dataclass(frozen=True)
class Layout:
    """`m` filters x (`rows` x `columns`) pixels, `channels` of x a step."""

    image: Image
    m: int
    rows: int
    columns: int
    channels: int

    @property
    def n(self) -> int:
        return self.rows * self.columns

    @property
    def along_columns(self) -> bool:
        by_channels, by_columns = quads(self.image, self.channels)
        return by_columns < by_channels

    @property
    def vector(self) -> int:
        """Elements of one copy into the box."""
        return gcd(4, self.image.size[2])

    @property
    def left(self) -> int:
        """Columns of the box before the first that is needed: copies start at whole vectors."""
        return -self.image.padding[2] % self.vector

    @property
    def inner_rows(self) -> int:
        return (self.rows - 1) * self.image.stride[1] + (self.image.window[1] - 1) * self.image.dilation[1] + 1

    @property
    def pitch(self) -> int:
        """Words from a row of the box to the next."""
        needed = (self.columns - 1) * self.image.stride[2] + (self.image.window[2] - 1) * self.image.dilation[2] + 1
        return -(-(self.left + needed) // self.vector) * self.vector

    @cached_property
    def plane(self) -> int:
        """Words from a channel's part of the box to the next: the least for which a warp's reads meet fewest banks
        twice."""
        least = self.image.window[0] * self.inner_rows * self.pitch
        if self.along_columns:
            return least
        places = range(least, least + 32, self.vector)
        return min(places, key=lambda p: (conflicts(p, self.image.stride[2]), p))

    @property
    def lane_step(self) -> int:
        """Words between a quad's elements."""
        return self.image.dilation[2] if self.along_columns else self.plane

    @cached_property
    def quads(self) -> tuple[Quad, ...]:
        """One step's, whole instructions of them; what fills up the last has no real element."""
        (d, h, w), dilation = self.image.window, self.image.dilation

        def at(c: int, td: int, th: int, tw: int) -> int:
            rows = td * self.inner_rows + th * dilation[1]
            return c * self.plane + rows * self.pitch + tw * dilation[2]

        if self.along_columns:
            firsts = [
                (c, td, th, tw)
                for c in range(self.channels)
                for td in range(d)
                for th in range(h)
                for tw in range(0, w, 4)
            ]
            found = [Quad(at(*f), f, min(4, w - f[3])) for f in firsts]
        else:
            firsts = [
                (c, td, th, tw)
                for td in range(d)
                for th in range(h)
                for tw in range(w)
                for c in range(0, self.channels, 4)
            ]
            found = [Quad(at(*f), f, min(4, self.channels - f[0])) for f in firsts]
        empty = Quad(0, (0, 0, 0, 0), 0)
        return (*found, *[empty] * (-len(found) % self.quads_step))

    @property
    def quads_step(self) -> int:
        """Quads of one instruction."""
        return self.image.step // 4

    @property
    def steps(self) -> int:
        """Instructions along K of one step of channels."""
        return len(self.quads) // self.quads_step

    @property
    def tail(self) -> int:
        """Real elements of a quad that has fewer than four; 4 where none has."""
        return min((q.real for q in self.quads if q.real), default=4)

    @property
    def chunks(self) -> int:
        """Steps of channels."""
        return -(-self.image.channels // self.channels)

    @property
    def box_words(self) -> int:
        return -(-self.channels * self.plane // 4) * 4

    @property
    def own(self) -> tuple[int, int, int]:
        """Planes, rows and columns of a channel's part of the box, its first ones, that no later tile's box holds: of a
        tile that is the last along no axis where there are several. The last tile's box has all to itself."""
        d, h, w = self.image.window[0], self.inner_rows, self.pitch
        stride, dilation = self.image.stride, self.image.dilation
        _, columns, rows, planes, _ = self.blocks
        return (
            1 if planes > (d - 1) * dilation[0] // stride[0] and dilation[0] % stride[0] == 0 else d,
            min(h, self.rows * stride[1]) if rows > 1 else h,
            min(w, self.columns * stride[2]) if columns > 1 else w,
        )

    @property
    def weight_words(self) -> int:
        """Of one step of channels: 128 words an instruction and 16 filters, f16 and bf16 two in a word."""
        return self.steps * (self.m // 16) * 128

    @property
    def whole_rows(self) -> bool:
        """Whether a filter's results in a tile are one run of memory, its rows being the image's."""
        return self.columns >= self.image.out[2]

    @property
    def run(self) -> int:
        """Words of a run of results in shared memory, with room for its place within GAP."""
        return GAP + (self.n if self.whole_rows else self.columns)

    @property
    def line(self) -> int:
        """Words from a filter's results to the next's: GAP more than whole banks, so that a warp's eight filters meet
        all of them."""
        used = self.run if self.whole_rows else self.run * self.rows
        return -(-(used - GAP) // 32) * 32 + GAP

    @cached_property
    def blocks(self) -> tuple[int, int, int, int, int]:
        """Tiles along filters, columns, rows, depth and images."""
        d, h, w = self.image.out
        return -(-self.image.filters // self.m), -(-w // self.columns), -(-h // self.rows), d, self.image.batch

    @property
    def tiles(self) -> int:
        return prod(self.blocks)


def conflicts(plane: int, stride: int) -> int:
    """How often a warp's read of one word a lane meets its busiest bank: lane / 4 chooses a pixel, lane % 4 a plane."""
    words = {q * plane + g * stride for q in range(4) for g in range(8)}
    return max(Counter(word % 32 for word in words).values())


def quads(image: Image, channels: int) -> tuple[int, int]:
    """Quads of a step along channels, and along the window's columns."""
    d, h, w = image.window
    return -(-channels // 4) * image.taps, channels * d * h * -(-w // 4)


@lru_cache(maxsize=4096)
def layout_of(image: Image, tile: tuple[int, int, int]) -> Layout:
    """An image under a tile of M filters x N pixels x K. Raises ValueError for a K that is no whole channels."""
    m, n, k = tile
    channels = channels_of(image, k)
    if channels is None:
        raise ValueError(f"tile K {k} is no whole number of channels of {image.taps} taps")
    return Layout(image, m, *box(image, n), channels)


@dataclass(frozen=True)
class Fit:
    """How a block's warps share a tile, and what of it lies in shared memory.

    `warp_m` x `warp_n`: a warp's part. `resident`: all weights of a block stay. `buffers`: of eight filters' results a
    row of warps, on their way out; with two, warps wait once for each other. `shared_bytes`: what the block asks for.
    `blocks`: that stand on a multiprocessor at once.
    """

    layout: Layout
    stages: int
    warps: int
    warps_m: int
    resident: bool
    buffers: int
    shared_bytes: int
    blocks: int

    @property
    def warp_m(self) -> int:
        return self.layout.m // self.warps_m

    @property
    def warp_n(self) -> int:
        return self.layout.n * self.warps_m // self.warps

    @property
    def stage_words(self) -> int:
        """One step's, of shared memory."""
        return self.layout.box_words + (0 if self.resident else self.layout.weight_words)

    @property
    def splits(self) -> bool:
        """Whether warps' parts are whole pieces of eight pixels in whole rows, or rows whole parts."""
        columns = self.layout.columns
        whole = self.layout.n * self.warps_m % (8 * self.warps) == 0
        return whole and (self.warp_n % columns == 0 or columns % self.warp_n == 0)


@lru_cache(maxsize=4096)
def fit(layout: Layout, stages: int, limit: int) -> Fit:
    """A tile in a block of so many stages; `limit`: bytes of shared memory that a block may ask for, which it needs
    more than where `shared_bytes` says so.

    Measured on an H200: eight warps have 16,384 results or more, but four of 64 x 64 are faster where two blocks of
    them stand together; smaller tiles are better shared by four, of which more blocks do. Weights stay unless two
    blocks stand together without them (48 x 288 of L1/61: 1.13 ms where they come by steps, 1.33 where they stay).
    """
    size, deep = layout.m * layout.n, layout.m > 64 and layout.m % 32 == 0
    if size <= 128 * 128:
        four = _fit(layout, stages, limit, 4, 1 + deep)
        if size < 128 * 128 or (four.blocks > 1 and (four.warp_m, four.warp_n) == (64, 64)):
            return four
    return _fit(layout, stages, limit, 8, 1 + deep)


def _fit(layout: Layout, stages: int, limit: int, warps: int, warps_m: int) -> Fit:
    kept, lines = layout.chunks * layout.weight_words, 8 * warps_m * layout.line

    def bytes_of(resident: bool, buffers: int) -> int:
        step = layout.box_words + (0 if resident else layout.weight_words)
        return WORD * (stages * step + resident * kept + buffers * lines)

    part = layout.m * layout.n // warps
    less = warps == 8 and part <= 32 * 64 and layout.m // warps_m <= 32
    registers = 32 * warps * (part // 32 + (LESS if less else BESIDE))

    def blocks_of(needed: int) -> int:
        return max(1, min((limit + RESERVED) // (needed + RESERVED), REGISTERS // registers, 8))

    ways = [(resident, buffers) for resident in (True, False) for buffers in (2, 1)]
    fits = [w for w in ways if bytes_of(*w) <= limit] or ways[-1:]
    resident, buffers = max(fits, key=lambda w: min(2, blocks_of(bytes_of(*w))))
    needed = bytes_of(resident, buffers)
    return Fit(layout, stages, warps, warps_m, resident, buffers, needed, blocks_of(needed))
