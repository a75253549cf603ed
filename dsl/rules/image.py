"""The geometry of a row-major convolution on the tensor cores: the sizes of an image, and a block's box of pixels.

For one image, y[filters, pixels] = w[filters, K] x[K, pixels] with K = channels x taps. A block computes a tile of M
filters and N pixels, which are a box of rows and columns of one plane, and loops over K in steps of whole channels.
dsl.rules.halo has the layout of x and w in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from dsl.ir import Conv, DType, TensorType, expressions, loads

MANY = 16  # instructions along K from which on the tensor cores limit a convolution
Triple = tuple[int, int, int]  # along d, h, w; with fewer spatial axes the first ones are 1


@dataclass(frozen=True)
class Image:
    """The sizes of a convolution for the kernel. `step`: K of one tensor-core instruction."""

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
        """Pixels of one image of the result."""
        return prod(self.out)


def step_of(compute: DType) -> int:
    """K of one mma.sync: m16n8k8 of tf32, m16n8k16 of f16 and bf16."""
    return 8 if compute is DType.TF32 else 16


def image_of(stage: Conv, types: dict[str, TensorType | None]) -> Image:
    """The image of a checked row-major convolution. A 1x1 convolution without padding becomes one long row.

    A transposed convolution of stride 1 (w is [C, K, ...]) equals the plain convolution with reversed filters. The
    padding of x is then the window's reach minus the stage's padding; it may be negative. `out` includes the
    output_padding.
    """
    x, w, y = types[stage.x.name].shape, types[stage.w.name].shape, stage.type.shape

    def triple(values, fill: int) -> Triple:
        return (*(fill,) * (3 - stage.spatial), *values)

    image = Image(
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
    alone = image.taps == 1 and prod(image.stride) == 1 and not any(image.padding) and image.size == image.out
    if not alone or not _whole_planes(stage):
        return image
    row = (1, 1, prod(image.out))
    return replace(image, size=row, out=row, dilation=(1, 1, 1))


def padding_of(stage: Conv, window: tuple[int, ...]) -> tuple[int, ...]:
    """Zeros before x along each spatial axis; a transposed convolution has stride 1.

    A negative number is a number of elements that no result reads.
    """
    if not stage.transposed:
        return stage.padding
    return tuple(d * (k - 1) - p for d, k, p in zip(stage.dilation, window, stage.padding, strict=True))


def _whole_planes(stage: Conv) -> bool:
    """Return True if every tensor that the epilogue reads has all spatial axes or none."""
    space = {"d", "h", "w"}
    read = [space & set(x.axes) for e in expressions(stage) for x in loads(e)]
    return all(not r or len(r) == stage.spatial for r in read)


def depth(image: Image, channels: int) -> int:
    """K of a step of `channels` channels, rounded up to whole instructions."""
    return _up(channels * image.taps, image.step)


@lru_cache(maxsize=4096)
def channels_of(image: Image, k: int) -> int | None:
    """The number of channels of a step of depth K; None if no number of channels has this depth.

    All channels, or a multiple of four, is preferred, because instructions take K in groups of four channels.
    """
    fits = [c for c in range(1, min(image.channels, k // image.taps) + 1) if depth(image, c) == k]
    return max(fits, key=lambda c: (c == image.channels or c % 4 == 0, c), default=None)


def depths(image: Image, most: int = 512) -> list[int]:
    """Step depths worth proposing: of 1, 2, 4, ... channels and of all, up to `most`; at least that of one channel."""
    counts = [c for c in (1, 2, 4, 8, 16, 32, 64, 128) if c < image.channels] + [image.channels]
    return list(dict.fromkeys(k for c in counts if (k := depth(image, c)) <= most)) or [depth(image, 1)]


@lru_cache(maxsize=4096)
def box(image: Image, n: int) -> tuple[int, int]:
    """The rows and columns of a box of N pixels.

    The box has the fewest rows, because memory is fastest with long runs, unless it needs 25% more tiles than another
    box; 10% if the products of a tile take longer than its stores.
    """
    _, height, width = image.out
    boxes = []
    for columns in range(8, n + 1, 8):
        rows = n // columns
        if rows * columns == n:
            boxes.append((-(-height // rows) * -(-width // columns), rows, columns))
    fewest = min(tiles for tiles, _, _ in boxes)
    most = 1.1 if image.channels * image.taps > MANY * image.step else 1.25
    good = [f for f in boxes if f[0] <= most * fewest]
    # Rows longer than the image have no advantage over rows that just cover it.
    return min(good, key=lambda f: (f[2] // 2 >= width and f[2] > 8, f[1]))[1:]


def waste(image: Image, n: int) -> float:
    """Pixels of all boxes of N pixels, divided by the pixels of the image."""
    rows, columns = box(image, n)
    _, height, width = image.out
    return -(-height // rows) * rows * -(-width // columns) * columns / (height * width)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
