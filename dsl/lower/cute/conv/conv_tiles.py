"""The tiles of a tensor-core convolution of the cute back end: output box, channels, steps of K, resident blocks.

A tile is M output pixels x N output channels x K channels-at-positions. M is a box of pixels of one image. With
`cooperative` two warp groups share its rows. With `pingpong` one warp group has all of them, and the blocks on an SM
alternate: the epilogue of one block overlaps the products of another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

from dsl.arch import ARCHS, DEFAULT
from dsl.ir import Conv, Pool, Reduce, TensorType
from dsl.lower import Refusal
from dsl.lower.cute.conv.conv_launches import Launch, launches_of
from dsl.rules.conv import auto_stages, phases_of
from dsl.rules.cute.whole_window import BLOCK, SMS, STAGES, Box, box_of, window_of
from dsl.rules.problem import problem_of

MULTIPROCESSOR = 233_472  # bytes of shared memory of an H100's or H200's SM; the system takes 1 KiB of it a block
REGISTERS = 65_536
EPILOGUE_REGISTERS = 64  # beside the accumulators: coordinates, addresses, operands of the expression
BARRIERS = 1024
STAGED = 16_384  # bytes of shared memory that stage results before the store
MAX_STAGES = 12
MOST_LAUNCHES = 16  # 25 took 65 s of a quiet core to build, and more than 120 s beside other builds
RUN_BOXES = (128, 64, 32, 16)  # bytes of the channels in a box


@dataclass(frozen=True)
class Tiling:
    """A convolution's tile. `resident`: resident blocks of an SM; `unit`: bytes of an element of x and w; `whole`: its
    box, if the weights and its whole window lie in shared memory (dsl.rules.cute.whole_window)."""

    pixels: int
    n: int
    depth: int
    warp_groups: int
    stages: int
    resident: int
    grouped: bool = False
    unit: int = 2
    whole: Box | None = None

    @property
    def grid(self) -> int:
        """Resident blocks of the device."""
        return self.resident * SMS

    def part(self, columns: int, phases: int, channels_last: bool, bits: int) -> int:
        """Channels of one pass through the staging buffer: the largest power of two that fits."""
        room = self.whole.staged if self.whole else STAGED
        channels = room * 8 // bits // self.pixels if channels_last else room // 4 // self.pixels // phases
        return min(1 << (channels.bit_length() - 1), max(8, 1 << (columns - 1).bit_length()))

    def run_box(self, run: int, taps: int) -> tuple[int, int]:
        """Channels in a box, and boxes in a step of K.

        TMA moves one row of a box (a pixel) at a time, whatever its width, and the tensor cores also multiply the zeros
        beyond the last channel. This chooses the box with the shortest predicted time.
        """
        if self.whole:
            return self.depth, 1
        best = None
        for box in (size // self.unit for size in RUN_BOXES):
            if self.depth % box or (self.grouped and run % box):
                continue
            blocks = -(-run // box) * taps
            steps = -(-blocks * box // self.depth)
            rows = blocks * (self.pixels + self.n) * max(1, box * self.unit // 64)
            cycles = steps * self.depth * self.unit * self.pixels * max(self.n, 48) / 4096
            cost = (max(rows, cycles), blocks, cycles)
            if best is None or cost < best[0]:
                best = (cost, box)
        box = best[1]
        return box, self.depth // box


@lru_cache(maxsize=4096)  # planning asks for the same few hundred again and again
def boxes(
    pixels: int, out: tuple[int, int, int], channels_last: bool = True, least: tuple[int, int, int] = (1, 1, 1)
) -> tuple[int, int, int]:
    """The box (w, h, d) of `pixels` pixels with the lowest cost, of `least` pixels along each axis.

    The cost counts the pixels wasted at the edges of `out` and the border that windows read again. With results that
    are contiguous along w it also counts short rows, because their ends share memory sectors with other tiles. The
    longest box along w wins a tie.
    """
    best = None
    powers = [1 << i for i in reversed(range(pixels.bit_length()))]
    for w, h in product(powers, powers):
        if pixels % (w * h):
            continue
        box = (w, h, pixels // (w * h))
        if max(box) > 256 or any(b < n for b, n in zip(box, least, strict=True)):
            continue
        tiles = prod(-(-o // b) for o, b in zip(out, box, strict=True))
        around = prod(b + 2 for b, o in zip(box, out, strict=True) if o > 1)
        cost = tiles * pixels * (1 + around / pixels / 50) * (1 if channels_last else 1 + 2 / w)
        if best is None or cost < best[0]:
            best = (cost, box)
    return best[1]


def stage_bytes(pixels: int, n: int, depth: int, unit: int) -> int:
    """Bytes of one stage: boxes of x and w."""
    return unit * depth * (pixels + n)


def registers_hold(pixels: int, n: int, warp_groups: int, resident: int) -> bool:
    threads = 128 * warp_groups + 32
    registers = min(255, REGISTERS // (threads * resident) // 8 * 8)
    return pixels * n // (128 * warp_groups) + EPILOGUE_REGISTERS <= registers


def fit(pixels: int, n: int, depth: int, unit: int, resident: int) -> int:
    """The number of stages that fit if `resident` blocks share an SM."""
    room = min(BLOCK, MULTIPROCESSOR // resident - 1024) - BARRIERS - STAGED
    return room // stage_bytes(pixels, n, depth, unit)


def tile_of(stage: Conv, x: TensorType, y: TensorType) -> tuple[int, int, int]:
    """Pixels, columns and depth of a tile, from the configuration or chosen here. Raises Refusal."""
    row = 1024 // x.dtype.bits  # channels in 128 bytes
    channels = y.shape[1] // stage.groups
    if stage.config.tile is not None:
        pixels, n, depth = stage.config.tile
    else:
        phases = phases_of(stage)
        most = 128 // phases // 8 * 8
        parts = range(1, 9)
        fitting = (channels // p for p in parts if channels % (8 * p) == 0 and channels // p <= most)
        pixels, n, depth = 128, phases * next(fitting, most), row
    fits = depth % (row // 4) == 0 and row // 4 <= depth <= 2 * row and n % 8 == 0 and 8 <= n <= 256
    if not fits or pixels not in (64, 128, 256):
        raise Refusal(
            "cute-config", f"stage {stage.name}: a convolution's tile is not {pixels}x{n}x{depth}", "tile 128x128x64"
        )
    return pixels, n, depth


def tiled(
    stage: Conv, types: dict[str, TensorType], reads=(), least: tuple[int, int, int] = (1, 1, 1)
) -> tuple[list[Launch], Tiling]:
    """The launches of a typed stage and their tile, from its configuration; what that leaves open is chosen here.
    `reads`: strides of the epilogue's tensors; `least`: pixels of a pool's window, which lies in one box. Raises
    Refusal."""
    x, w = types[stage.x.name], types[stage.w.name]
    y = getattr(stage, "sums", None) or stage.type
    whole = _whole(stage, types, y, least)
    launches = launches_of(stage, x, w, y, reads, tile_of(stage, x, y), runs=whole is None)
    if len(launches) > MOST_LAUNCHES:
        raise Refusal(
            "cute-conv-phases",
            f"{stage.name} has {len(launches)} phases with a kernel each, which take minutes to build; "
            f"{MOST_LAUNCHES} are the most",
            None,
        )
    return launches, whole or _streamed(stage, x, y, launches)


def _whole(stage: Conv, types: dict[str, TensorType], y: TensorType, least: tuple[int, int, int]) -> Tiling | None:
    """The tiling of a stage that keeps its weights and whole windows in shared memory (dsl.rules.cute.whole_window).
    None for one that streams them: they do not fit, or the program asks for two warp groups a tile or for a number of
    stages of its own."""
    c, x, reader = stage.config, types[stage.x.name], getattr(stage, "reader", None)
    window = window_of(stage, x, types[stage.w.name], y, stage.type)
    if window is None or c.schedule != "pingpong":
        return None
    if isinstance(reader, Reduce):  # one value a pixel
        window = replace(window, unit=0)
    if isinstance(reader, Pool) and window.unit:  # more blocks hide the folding of such rows
        return None
    pixels, n, depth = tile_of(stage, x, y)
    problem = problem_of(ARCHS[DEFAULT], stage, types)
    if c.stages not in (None, auto_stages(problem, (pixels, n, depth), c.schedule)):
        return None
    box = box_of(window, pixels, n, least)
    return box and Tiling(pixels, n, window.depth, 1, STAGES, 1, whole=box)


def _streamed(stage: Conv, x: TensorType, y: TensorType, launches: list[Launch]) -> Tiling:
    """The tiling of a stage that fetches the pixels and weights of each window position by itself."""
    c = stage.config
    pixels, n, depth = tile_of(stage, x, y)
    unit, row = x.dtype.bits // 8, 1024 // x.dtype.bits
    if c.cluster not in (None, (1, 1, 1)):
        raise Refusal("cute-config", f"stage {stage.name}: convolutions have cluster 1x1x1", "leave cluster to auto")
    if c.scheduler is not None and c.scheduler.kind != "persistent":
        raise Refusal(
            "cute-config", f"stage {stage.name}: convolutions are not split along K", "leave scheduler to auto"
        )
    schedule = c.schedule or ("cooperative" if pixels * n > 128 * 128 else "pingpong")
    groups = 2 if schedule == "cooperative" else 1
    if pixels < 64 * groups or not registers_hold(pixels, n, groups, 1):
        raise Refusal(
            "cute-config", f"stage {stage.name}: {pixels}x{n} does not fit the registers of {groups} warp groups",
            "take a smaller tile, or schedule cooperative",
        )  # fmt: skip
    steps = max(-(-one.taps * -(-one.run // min(depth, row)) // max(1, depth // row)) for one in launches)
    requested = c.stages or min(3, max(2, steps))
    resident = next(
        (
            blocks
            for blocks in (3, 2, 1)
            if registers_hold(pixels, n, groups, blocks) and fit(pixels, n, depth, unit, blocks) >= requested
        ),
        0,
    )
    if not resident:
        raise Refusal(
            "cute-config", f"stage {stage.name}: {requested} stages do not fit shared memory", "leave stages to auto"
        )
    stages = c.stages or min(MAX_STAGES, fit(pixels, n, depth, unit, resident), max(2, steps + 1))
    return Tiling(pixels, n, depth, groups, stages, resident, stage.groups > 1, unit)
