"""The layout of x and w in shared memory, and the order of K, for a row-major convolution on the tensor cores.

A block loads a halo box of x: its output pixels and the border that their windows reach. A tap of a window is an
offset into the box, so x is never reordered. An instruction takes K in groups of four ("quads"): lane % 4 selects an
element of the quad, so the four elements are a constant distance apart. All other offsets are constants in the code.
A quad runs along channels (distance: one channel's plane) or along the window's columns (distance: the dilation),
whichever leaves fewer lanes without an element. A lane without one reads its neighbour's element and multiplies it by a
weight of zero.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod

from dsl.rules.image import Image, box, channels_of

WORD = 4  # bytes
REGISTERS = 65_536  # of an SM
BESIDE = 96  # registers of a thread beside its accumulators, so that nothing spills
LESS = 64  # the same for eight warps of 32 x 64, for which it is enough; two such blocks then fit on an SM
GAP = 8  # staged results keep their offset in memory modulo this number of elements
RESERVED = 1024  # bytes of shared memory of each block that the system takes


@dataclass(frozen=True)
class Quad:
    """Four elements of K.

    `offset`: of the first element in the box, in words; `first`: its (channel of the step, td, th, tw); `real`: how
    many of the four exist.
    """

    offset: int
    first: tuple[int, int, int, int]
    real: int


@dataclass(frozen=True)
class Layout:
    """The layout of a tile of `m` filters x (`rows` x `columns`) pixels, with `channels` of x in each step."""

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
        """Unused columns at the left of the box, because copies start at whole vectors."""
        return -self.image.padding[2] % self.vector

    @property
    def inner_rows(self) -> int:
        return (self.rows - 1) * self.image.stride[1] + (self.image.window[1] - 1) * self.image.dilation[1] + 1

    @property
    def pitch(self) -> int:
        """Distance between rows of the box, in words."""
        needed = (self.columns - 1) * self.image.stride[2] + (self.image.window[2] - 1) * self.image.dilation[2] + 1
        return -(-(self.left + needed) // self.vector) * self.vector

    @cached_property
    def plane(self) -> int:
        """Distance between channels of the box, in words: the smallest one with the fewest bank conflicts."""
        least = self.image.window[0] * self.inner_rows * self.pitch
        if self.along_columns:
            return least
        places = range(least, least + 32, self.vector)
        return min(places, key=lambda p: (conflicts(p, self.image.stride[2]), p))

    @property
    def lane_step(self) -> int:
        """Distance between the elements of a quad, in words."""
        return self.image.dilation[2] if self.along_columns else self.plane

    @cached_property
    def quads(self) -> tuple[Quad, ...]:
        """The quads of one step, padded to whole instructions with quads without real elements."""
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
            quads = [Quad(at(*f), f, min(4, w - f[3])) for f in firsts]
        else:
            firsts = [
                (c, td, th, tw)
                for td in range(d)
                for th in range(h)
                for tw in range(w)
                for c in range(0, self.channels, 4)
            ]
            quads = [Quad(at(*f), f, min(4, self.channels - f[0])) for f in firsts]
        empty = Quad(0, (0, 0, 0, 0), 0)
        return (*quads, *[empty] * (-len(quads) % self.quads_step))

    @property
    def quads_step(self) -> int:
        """Quads of one instruction."""
        return self.image.step // 4

    @cached_property
    def steps(self) -> int:
        """Instructions along K of one step of channels."""
        return -(-min(quads(self.image, self.channels)) // self.quads_step)

    @property
    def tail(self) -> int:
        """Real elements of the incomplete quads; 4 if every quad is complete."""
        return min((q.real for q in self.quads if q.real), default=4)

    @property
    def chunks(self) -> int:
        """The number of channel steps."""
        return -(-self.image.channels // self.channels)

    @property
    def box_words(self) -> int:
        return -(-self.channels * self.plane // 4) * 4

    @property
    def own(self) -> tuple[int, int, int]:
        """The first planes, rows and columns of a channel's box that no later tile's box contains.

        The counts are for a tile that is not the last along any axis with several tiles; the last tile counts its
        whole box.
        """
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
        """Words of weights of one channel step: 128 for each instruction and 16 filters; two f16 or bf16 a word."""
        return self.steps * (self.m // 16) * 128

    @property
    def whole_rows(self) -> bool:
        """Return True if a filter's results in a tile are contiguous: the tile's rows are whole rows of the image."""
        return self.columns >= self.image.out[2]

    @property
    def run(self) -> int:
        """Words of a contiguous run of results in shared memory, with room for its offset modulo GAP."""
        return GAP + (self.n if self.whole_rows else self.columns)

    @property
    def line(self) -> int:
        """Distance between the results of two filters, in words.

        It is GAP more than a multiple of the 32 banks, so that the eight filters of a warp use all banks.
        """
        used = self.run if self.whole_rows else self.run * self.rows
        return -(-(used - GAP) // 32) * 32 + GAP

    @cached_property
    def blocks(self) -> tuple[int, int, int, int, int]:
        """The number of tiles along filters, columns, rows, depth and images."""
        d, h, w = self.image.out
        return -(-self.image.filters // self.m), -(-w // self.columns), -(-h // self.rows), d, self.image.batch

    @property
    def tiles(self) -> int:
        return prod(self.blocks)


@lru_cache(maxsize=4096)
def conflicts(plane: int, stride: int) -> int:
    """Accesses to the busiest bank when each lane reads one word; lane / 4 selects a pixel, lane % 4 a plane."""
    words = {q * plane + g * stride for q in range(4) for g in range(8)}
    return max(Counter(word % 32 for word in words).values())


def quads(image: Image, channels: int) -> tuple[int, int]:
    """The number of quads of a step, if they run along channels and if they run along the window's columns."""
    d, h, w = image.window
    return -(-channels // 4) * image.taps, channels * d * h * -(-w // 4)


@lru_cache(maxsize=4096)
def layout_of(image: Image, tile: tuple[int, int, int]) -> Layout:
    """The layout for a tile of M filters x N pixels x K. Raises ValueError if K is no whole number of channels."""
    m, n, k = tile
    channels = channels_of(image, k)
    if channels is None:
        raise ValueError(f"tile K {k} is no whole number of channels of {image.taps} taps")
    return Layout(image, m, *box(image, n), channels)


@dataclass(frozen=True)
class Fit:
    """How the warps of a block share a tile, and the block's shared memory.

    `warp_m` x `warp_n`: the part of one warp. `resident`: all weights of the block stay in shared memory. `buffers`:
    staging buffers, each for the results of eight filters of a row of warps; with two, warps synchronise once.
    `shared_bytes`: shared memory of the block. `blocks`: resident blocks on an SM.
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
        """Words of shared memory of one step."""
        return self.layout.box_words + (0 if self.resident else self.layout.weight_words)

    @property
    def splits(self) -> bool:
        """Return True if the warps can share the tile.

        A warp's part is then a whole number of pieces of eight pixels, and either whole rows or an equal part of one.
        """
        columns = self.layout.columns
        whole = self.layout.n * self.warps_m % (8 * self.warps) == 0
        return whole and (self.warp_n % columns == 0 or columns % self.warp_n == 0)


@lru_cache(maxsize=4096)
def fit(layout: Layout, stages: int, limit: int) -> Fit:
    """The warps and shared memory of a tile with `stages` stages; `limit`: bytes of shared memory a block may have.

    The result may need more than `limit`; compare its `shared_bytes`. Measured on an H200: tiles of 16,384 results or
    more use eight warps, but four warps of 64 x 64 are faster if two such blocks fit on an SM. Smaller tiles use four
    warps, so that more blocks fit. Weights are resident unless two blocks fit only without them: the 48 x 288 tile of
    L1/61 takes 1.13 ms with weights loaded in each step and 1.33 ms with resident ones.
    """
    size, deep = layout.m * layout.n, layout.m > 64 and layout.m % 32 == 0
    if size <= 128 * 128:
        four = _fit(layout, stages, limit, 4, 1 + deep)
        if size < 128 * 128 or (four.blocks > 1 and (four.warp_m, four.warp_n) == (64, 64)):
            return four
    return _fit(layout, stages, limit, 8, 1 + deep)


def _fit(layout: Layout, stages: int, limit: int, warps: int, warps_m: int) -> Fit:
    weights, lines = layout.chunks * layout.weight_words, 8 * warps_m * layout.line

    def bytes_of(resident: bool, buffers: int) -> int:
        step = layout.box_words + (0 if resident else layout.weight_words)
        return WORD * (stages * step + resident * weights + buffers * lines)

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
