"""How a row-major convolution on the tensor cores is cut: which pixels a block computes, and what it holds of x and w.

Of one image, y[filters, pixels] = w[filters, K] x[K, pixels], K = channels x taps in w's own order. A block has a tile
of M filters and N pixels, a box of rows and columns of one plane. It walks K in steps of whole channels: of each
channel it holds the part of x that its pixels' windows touch (the halo box), as x lies, and of w the M x K piece.
A tap is then an offset into the box, so that nothing is copied into another order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod

from dsl.ir import Conv, DType, TensorType, expressions, loads

Triple = tuple[int, int, int]  # along d, h, w; ones in front where there are fewer axes

WORD = 4  # bytes of an element of x and w in shared memory: they are rounded on the way from it to the tensor cores
ROW_PAD = 4  # words after a row of weights: the eight rows that a warp reads then lie in different banks
PLANE_PAD = 32  # words after a channel's box at most, for the same reason
MAX_THREADS = 256
ALIGN = 16  # bytes


@dataclass(frozen=True)
class Image:
    """The sizes of a convolution as the kernel sees them. `step`: K of one tensor-core instruction."""

    batch: int
    channels: int
    filters: int
    size: Triple
    out: Triple
    window: Triple
    stride: Triple
    padding: Triple
    dilation: Triple
    step: int

    @property
    def taps(self) -> int:
        return prod(self.window)

    @property
    def pixels(self) -> int:
        """Of one image of the result."""
        return prod(self.out)


def step_of(compute: DType) -> int:
    """K of one mma.sync: m16n8k8 of tf32, m16n8k16 of f16 and bf16."""
    return 8 if compute is DType.TF32 else 16


def image_of(stage: Conv, types: dict[str, TensorType | None]) -> Image:
    """The image of a checked row-major convolution; one that is a product of channels alone has one long row."""
    x, w, y = types[stage.x.name].shape, types[stage.w.name].shape, stage.type.shape

    def triple(values, fill: int) -> Triple:
        return (*(fill,) * (3 - stage.spatial), *values)

    found = Image(
        batch=x[0],
        channels=w[1],
        filters=w[0],
        size=triple(x[2:], 1),
        out=triple(y[2:], 1),
        window=triple(w[2:], 1),
        stride=triple(stage.stride, 1),
        padding=triple(stage.padding, 0),
        dilation=triple(stage.dilation, 1),
        step=step_of(stage.config.compute),
    )
    alone = found.taps == 1 and prod(found.stride) == 1 and not any(found.padding)
    if not alone or not _whole_planes(stage):
        return found
    row = (1, 1, prod(found.out))
    return replace(found, size=row, out=row, dilation=(1, 1, 1))


def _whole_planes(stage: Conv) -> bool:
    """Whether every tensor that the epilogue reads has all of space or nothing of it."""
    space = {"d", "h", "w"}
    read = [space & set(x.axes) for e in expressions(stage) for x in loads(e)]
    return all(not r or len(r) == stage.spatial for r in read)


@dataclass(frozen=True)
class Cut:
    """An image under a tile of M filters x N pixels x K, one step's depth: `channels` x taps, with zeros up to whole
    instructions. `rows` x `columns` = N; `inner_rows` x `inner_columns`: of x that they touch, in `planes`."""

    image: Image
    tile: tuple[int, int, int]
    rows: int
    columns: int
    channels: int

    @property
    def steps(self) -> int:
        """Of a block, over all channels."""
        return -(-self.image.channels // self.channels)

    @property
    def planes(self) -> int:
        """Of x under one plane of the result: those that taps read, whatever lies between them."""
        return self.image.window[0]

    @property
    def inner_rows(self) -> int:
        _, h, _ = self.image.window
        return (self.rows - 1) * self.image.stride[1] + (h - 1) * self.image.dilation[1] + 1

    @property
    def inner_columns(self) -> int:
        *_, w = self.image.window
        return (self.columns - 1) * self.image.stride[2] + (w - 1) * self.image.dilation[2] + 1

    @property
    def box_words(self) -> int:
        """Of one channel of x, as loaded: rows are rounded to 16 bytes."""
        return self.planes * self.inner_rows * _up(self.inner_columns, 4)

    @property
    def stage_bytes(self) -> int:
        """Of one step: a box of each of its channels, and its weights. At least what the kernel asks for."""
        m, _, k = self.tile
        return WORD * (self.channels * (self.box_words + PLANE_PAD) + m * (k + ROW_PAD))

    @property
    def fixed_bytes(self) -> int:
        """Where each tap and each pixel lies in the box."""
        _, n, k = self.tile
        return WORD * (k + n) + ALIGN

    def shared_bytes(self, stages: int) -> int:
        return stages * self.stage_bytes + self.fixed_bytes

    @property
    def warps(self) -> int:
        m, n, _ = self.tile
        return 8 if m * n > 64 * 64 else 4

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold results."""
        m, n, _ = self.tile
        return m * n // (32 * self.warps)

    @cached_property
    def blocks(self) -> tuple[int, int, int]:
        """Along filters, along pixels of one image, and images."""
        d, h, w = self.image.out
        return (
            -(-self.image.filters // self.tile[0]),
            d * -(-h // self.rows) * -(-w // self.columns),
            self.image.batch,
        )


def depth(image: Image, channels: int) -> int:
    """K of a step of so many channels."""
    return _up(channels * image.taps, image.step)


def channels_of(image: Image, k: int) -> int | None:
    """Channels of a step of depth K: all, or as many fours as have it, since instructions take K in fours of channels;
    None where it is no whole number of them."""
    fits = [c for c in range(1, min(image.channels, k // image.taps) + 1) if depth(image, c) == k]
    return max(fits, key=lambda c: (c == image.channels or c % 4 == 0, c), default=None)


def depths(image: Image, most: int = 512) -> list[int]:
    """Depths of a step worth proposing: of 1, 2, 4, ... channels and of all; of one channel even where it is deep."""
    counts = [c for c in (1, 2, 4, 8, 16, 32, 64, 128) if c < image.channels] + [image.channels]
    return list(dict.fromkeys(k for c in counts if (k := depth(image, c)) <= most)) or [depth(image, 1)]


@lru_cache(maxsize=4096)
def box(image: Image, n: int) -> tuple[int, int]:
    """Rows and columns of N pixels: the box that wastes least at the edges and reads least around it."""
    _, height, width = image.out
    found = []
    columns = n
    while columns >= 8 and columns % 8 == 0:
        rows = n // columns
        if rows == 1 or rows <= _up(height, 2):
            cut = Cut(image, (16, n, image.step), rows, columns, 1)
            pieces = -(-height // rows) * -(-width // columns)
            work = pieces * n / (height * width)
            read = pieces * cut.inner_rows * _up(cut.inner_columns, 8)
            around = read / (height * width * image.stride[1] * image.stride[2])
            found.append((2 * work + around, -columns, rows))
        columns //= 2
    _, columns, rows = min(found)
    return rows, -columns


def cut(image: Image, tile: tuple[int, int, int]) -> Cut:
    """Raises ValueError for a K that is no whole number of channels."""
    channels = channels_of(image, tile[2])
    if channels is None:
        raise ValueError(f"tile K {tile[2]} is no whole number of channels of {image.taps} taps")
    return Cut(image, tile, *box(image, tile[1]), channels)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
