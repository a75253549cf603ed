"""A row-major convolution on the tensor cores as its kernel sees it: an image's sizes, and a block's box of pixels.

Of one image, y[filters, pixels] = w[filters, K] x[K, pixels], K = channels x taps. A block has a tile of M filters and
N pixels, a box of rows and columns of one plane, and walks K in steps of whole channels. dsl.rules.halo says what of x
and w it then holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from dsl.ir import Conv, DType, TensorType, expressions, loads

MANY = 16  # instructions along K, from which on the tensor cores are what a convolution waits for
Triple = tuple[int, int, int]  # along d, h, w; ones in front where there are fewer axes


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
    """The image of a checked row-major convolution; one that is a product of channels alone has one long row.

    A transposed one of stride 1 meets its taps in reverse, w being [C, K, ...]: it is the plain one whose filters are
    turned round, and what its padding takes from a window's reach is the padding of x, less than none where it takes
    more. `out` alone says how far rows go on the right, output_padding included.
    """
    x, w, y = types[stage.x.name].shape, types[stage.w.name].shape, stage.type.shape

    def triple(values, fill: int) -> Triple:
        return (*(fill,) * (3 - stage.spatial), *values)

    found = Image(
        batch=x[0],
        channels=x[1],
        filters=y[1],
        size=triple(x[2:], 1),
        out=triple(y[2:], 1),
        window=triple(w[2:], 1),
        stride=triple(stage.stride, 1),
        padding=triple(padding_of(stage, w[2:]), 0),
        dilation=triple(stage.dilation, 1),
        step=step_of(stage.config.compute),
    )
    alone = found.taps == 1 and prod(found.stride) == 1 and not any(found.padding) and found.size == found.out
    if not alone or not _whole_planes(stage):
        return found
    row = (1, 1, prod(found.out))
    return replace(found, size=row, out=row, dilation=(1, 1, 1))


def padding_of(stage: Conv, window: tuple[int, ...]) -> tuple[int, ...]:
    """Zeros before x along each axis of space, of a transposed one as of stride 1; fewer than none: elements that no
    result reads."""
    if not stage.transposed:
        return stage.padding
    return tuple(d * (k - 1) - p for d, k, p in zip(stage.dilation, window, stage.padding, strict=True))


def _whole_planes(stage: Conv) -> bool:
    """Whether every tensor that the epilogue reads has all of space or nothing of it."""
    space = {"d", "h", "w"}
    read = [space & set(x.axes) for e in expressions(stage) for x in loads(e)]
    return all(not r or len(r) == stage.spatial for r in read)


def depth(image: Image, channels: int) -> int:
    """K of a step of so many channels."""
    return _up(channels * image.taps, image.step)


@lru_cache(maxsize=4096)
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
    """Rows and columns of N pixels: the fewest rows, since long runs are what memory takes fastest, unless its tiles
    would be a quarter more than another box's; a tenth more where a tile's products take longer than its way out."""
    _, height, width = image.out
    found = []
    for columns in range(8, n + 1, 8):
        rows = n // columns
        if rows * columns == n:
            found.append((-(-height // rows) * -(-width // columns), rows, columns))
    fewest = min(tiles for tiles, _, _ in found)
    most = 1.1 if image.channels * image.taps > MANY * image.step else 1.25
    kept = [f for f in found if f[0] <= most * fewest]
    # Rows that are longer than the image's are no better than ones that just hold it.
    return min(kept, key=lambda f: (f[2] // 2 >= width and f[2] > 8, f[1]))[1:]


def waste(image: Image, n: int) -> float:
    """Pixels of all boxes of N over those of the image."""
    rows, columns = box(image, n)
    _, height, width = image.out
    return -(-height // rows) * rows * -(-width // columns) * columns / (height * width)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
