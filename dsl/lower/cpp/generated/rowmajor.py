"""Convolution on the tensor cores that reads x and w as they lie (nchw), by mma.sync and asynchronous copies.

One image is y[filters, pixels] = w[filters, K] x[K, pixels]. A first, small kernel writes the weights once in the order
of the instruction's fragments, rounded, and those of a transposed convolution turned round. The second is persistent:
each block takes tiles of filters x (rows x columns) in turn and walks K in steps of whole channels, the halo boxes of
the next steps (of this tile or the next) on their way into shared memory meanwhile. Weights that fit stay there; else
each step brings its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dsl.arch import ARCHS, DEFAULT
from dsl.axes import axes_of
from dsl.guard import watched
from dsl.ir import NCHW, Conv, DType, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.direct import Seen
from dsl.lower.cpp.generated.mapping import results_of
from dsl.lower.cpp.generated.parts import FLAG, MULTIPROCESSORS, Builder, OwnPlan, access, entry
from dsl.lower.cpp.generated.space import CTYPE, Access, grid_of
from dsl.lower.cpp.generated.values import Reader, Value
from dsl.rules.halo import WORD, Layout, fit, layout_of
from dsl.rules.image import Image, Triple, image_of

ROUND = {DType.TF32: "tf32", DType.F16: "f16", DType.BF16: "bf16"}
SHARED = ("own/common.cu.j2", "own/tensor.cu.j2")  # templates
WATCH = "own/watch.cu.j2"  # under a guard
PACK_THREADS = 256
COPIES = 8  # of results that are written out in the text, one after the other
FINDING = 6  # copies that take as long as to find the place of the first
LOOKED = 16  # elements that a lane of the guard looks at before its warp speaks
# Instructions along K that are written out, so that every offset is part of an instruction: of 23 (L1/50 in f16) and 27
# (L1/61 in tf32) a loop takes 1.17 and 1.20 times as long.
UNROLLED = 40


@dataclass(frozen=True)
class Read:
    """A tensor that the epilogue reads. `each`: 0 one element for a row, 1 a pair, 2 an element for each pixel."""

    pointer: str
    ctype: str
    strides: tuple[int, ...]
    each: int


@dataclass(frozen=True)
class PackPart:
    label: str
    entry: str
    pointers: tuple
    layout: Layout
    w: Seen
    w_type: str
    round: str
    words: int
    groups: int  # quads of a tap, or of a window's row
    first: int  # the place of a filter's first tap in w, elements: a transposed one's are walked from the last
    watches: bool  # the range of what it rounds (dsl.guard)
    grid: tuple[int, ...]
    values: tuple[Value, ...] = ()
    threads: int = PACK_THREADS
    shared_bytes: int = 0
    template: str = "own/pack.cu.j2"


@dataclass(frozen=True)
class RowmajorPart:
    """`warp_m` x `warp_n`: a warp's part of the tile. `resident`: weights stay in shared memory. `buffers`: there, of
    results. `pair`: elements of one access to those. `suffix`: of constants that count elements. `watches`: the range
    of what it rounds (dsl.guard)."""

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    layout: Layout
    x: Seen
    x_type: str
    reads: tuple[Read, ...]
    outputs: tuple[Seen, ...]
    round: str
    stages: int
    warps_m: int
    warp_m: int
    warp_n: int
    resident: bool
    buffers: int
    pair: int
    blocks: int
    stage_words: int
    suffix: str
    groups: int  # of a step's channels, whose boxes are copied beside each other
    places_unrolled: int
    copies_unrolled: int
    runs_unrolled: int
    unrolled: bool
    watches: bool
    watched: tuple[int, ...]  # planes, rows, vectors of the box, groups of channels
    watched_last: tuple[int, ...]  # of tiles that are the last along an axis
    inner: str  # whether a tile is none of those; empty where all tiles look at the same
    looks: int  # vectors that a lane looks at before its warp speaks
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int
    template: str = "own/rowmajor.cu.j2"


def plan_rowmajor(program: Program, stage: Conv, types: dict[str, TensorType]) -> OwnPlan:
    """Raises Refusal for what the kernel cannot read, and for a tile that does not fit."""
    xt, wt = types[stage.x.name], types[stage.w.name]
    if xt.layout != NCHW or wt.layout != NCHW or stage.type.layout != NCHW or xt.dtype is not DType.F32:
        raise Refusal(
            "cpp-conv-rowmajor",
            f"on the tensor cores {stage.name} reads row-major f32 and writes row-major; {stage.x.name} is {xt}",
            "leave the layouts out, or use channels last throughout",
        )
    image = image_of(stage, types)
    layout = layout_of(image, stage.config.tile)
    builder = Builder(stage.name, "conv", types)
    rank = stage.spatial + 2
    reader = Reader(axes_of(stage, rank), types, rank)
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name)
    builder.tensor("w", stage.w.name)
    builder.reads(reader)
    watches = program.guard and watched(stage, xt)
    flag = [FLAG] if watches else []
    if watches:
        builder.flag()
    words = layout.blocks[0] * layout.chunks * layout.weight_words
    builder.room("packed", WORD * words)
    shape = stage.type.shape

    def seen(a: Access, expression: str = "") -> Seen:
        return Seen(a.pointer, a.ctype, spatial(a.strides, shape, image.out), expression)

    written = tuple(seen(o, r.value.call("acc", "e_{}")) for r, o in zip(results, outputs, strict=True))
    sizes = _fit(program, stage, layout)
    for o in written:
        _runs(image, layout, o.strides, stage.name)
    pair = 1 if image.out[2] % 2 or any(n % 2 for o in written for n in o.strides[:4]) else 2
    reads = tuple(_read(a, spatial(a.strides, shape, image.out), pair) for a in reader.accesses())
    k_step, c_step, *taps = access("w", wt).strides
    if stage.transposed:  # [C, K, ...], its taps in reverse
        k_step, c_step, taps = c_step, k_step, [-s for s in taps]
    first = sum((n - 1) * -s for n, s in zip(wt.shape[2:], taps, strict=True) if s < 0)
    builder.parts.append(
        PackPart(
            label="part2",
            entry=entry(1),
            pointers=builder.pointers(["packed", "w", *flag]),
            layout=layout,
            w=Seen("w", CTYPE[wt.dtype], (k_step, c_step, *(0,) * (3 - len(taps)), *taps)),
            w_type=CTYPE[wt.dtype],
            round=ROUND[stage.config.compute],
            words=words,
            groups=-(-image.window[2] // 4) if layout.along_columns else -(-layout.channels // 4),
            first=first,
            watches=watches,
            grid=(grid_of(-(-words // PACK_THREADS), stage.name),),
        )
    )
    runs = 8 * sizes["warps_m"] * (1 if layout.whole_rows else layout.rows)
    far = max(_extent(o.strides, image.filters, image.out) for o in (*written, *reads))
    x = spatial(access("x", xt).strides, xt.shape, image.size)
    builder.parts.append(
        RowmajorPart(
            label="part1",
            entry=entry(0),
            pointers=builder.pointers(["x", "packed", *reader.names, *(r.pointer for r in results), *flag]),
            values=tuple(r.value for r in results),
            layout=layout,
            x=Seen("x", CTYPE[xt.dtype], x),
            x_type=CTYPE[xt.dtype],
            reads=reads,
            outputs=written,
            round=ROUND[stage.config.compute],
            pair=pair,
            suffix="ll" if max(far, _extent(x, layout.channels, image.size)) >= 2**31 else "",
            **_copies(layout, sizes["threads"]),
            runs_unrolled=min(COPIES, runs // (sizes["threads"] // 32)),
            unrolled=layout.steps <= UNROLLED,
            watches=watches,
            **_watching(layout, sizes["threads"]),
            **sizes,
        )
    )
    return builder.plan([r.value for r in results], main=1, shared=(*SHARED, *[WATCH] * watches))


def _fit(program: Program, stage: Conv, layout: Layout) -> dict:
    """How a tile is shared among warps and what of it lies in shared memory. Raises Refusal where it does not fit."""
    limit = ARCHS[program.arch or DEFAULT].smem_block
    made = fit(layout, stage.config.stages or 2, limit)
    if not made.splits:
        what = f"{layout.rows} rows of {layout.columns} pixels are no whole pieces of {made.warps} warps"
        raise Refusal("cpp-conv-rowmajor", what, "use tile N 128")
    if made.shared_bytes > limit:
        what = f"{made.shared_bytes:,} bytes of shared memory; {program.arch or DEFAULT} gives a block {limit:,}"
        raise Refusal(
            "cpp-conv-rowmajor",
            f"{stage.name} needs {what}",
            "use fewer stages, a smaller tile or fewer channels a step",
        )
    along_m = layout.blocks[0]
    grid = MULTIPROCESSORS * made.blocks // along_m * along_m or along_m
    same = ("stages", "warps_m", "warp_m", "warp_n", "resident", "buffers", "blocks", "stage_words")
    return {
        **{name: getattr(made, name) for name in (*same, "shared_bytes")},
        "grid": (min(grid, layout.tiles),),
        "threads": 32 * made.warps,
    }


def _copies(layout: Layout, threads: int) -> dict:
    """How a block's threads share the copies of a box. Where a place has few of them, several places are found at once:
    each is a chain of divisions."""
    places = layout.image.window[0] * layout.inner_rows * layout.pitch // layout.vector
    groups = _groups(places, layout.channels, threads)
    turns, copies = -(-groups * places // threads), -(-layout.channels // groups)
    return {
        "groups": groups,
        "places_unrolled": min(turns, max(1, COPIES // copies)),
        "copies_unrolled": 4,
    }


def _groups(places: int, channels: int, threads: int) -> int:
    """Groups of channels that a block's threads take beside each other: a thread finds its place in a channel's part of
    the box, which takes it as long as some copies, and then the same of every such channel."""

    def clocks(groups: int) -> int:
        return -(-groups * places // threads) * (FINDING + -(-channels // groups))

    return min(range(1, channels + 1), key=lambda g: (clocks(g), g))


def _watching(layout: Layout, threads: int) -> dict:
    """What of a box the guard looks at: what a later tile's box holds too is left to that one."""
    image = layout.image
    whole, own = (image.window[0], layout.inner_rows, layout.pitch), layout.own

    def sizes(planes: int, rows: int, columns: int) -> tuple[int, ...]:
        vectors = columns // layout.vector
        return planes, rows, vectors, _groups(planes * rows * vectors, layout.channels, threads)

    reach = (image.window[0] - 1) * image.dilation[0] // image.stride[0]
    last = zip(("d", "row", "column"), (reach, layout.rows, layout.columns), image.out, own, whole, strict=True)
    return {
        "watched": sizes(*own),
        "watched_last": sizes(*whole),
        "inner": " && ".join(f"place.{name} + {step} < {n}" for name, step, n, part, all_ in last if part < all_),
        "looks": LOOKED // layout.vector,
    }


def spatial(strides: tuple[int, ...], shape: tuple[int, ...], size: Triple) -> tuple[int, ...]:
    """Strides along b, k, d, h, w of a tensor seen as an image of that size: as it is, or one long row."""
    space, lengths = strides[2:], shape[2:]
    if (*(1,) * (3 - len(space)), *lengths) == size:
        return (*strides[:2], *(0,) * (3 - len(space)), *space)
    steps = [(s, n) for s, n in zip(space, lengths, strict=True) if n > 1]
    if any(outer != inner * n for (outer, _), (inner, n) in pairwise(steps)):
        raise Refusal("cpp-conv-rowmajor", "a tensor's rows and columns are exchanged", "transform it first")
    return (*strides[:2], 0, 0, steps[-1][0] if steps else 0)


def _runs(image: Image, layout: Layout, strides: tuple[int, ...], name: str) -> None:
    """Raises Refusal for a result whose rows are not as the kernel writes them: runs of memory, whole ones in a row."""
    along_row, rows = image.out[2] == 1 or strides[4] == 1, min(layout.rows, image.out[1])
    if not along_row or (layout.whole_rows and rows > 1 and strides[3] != image.out[2]):
        raise Refusal("cpp-conv-rowmajor", f"{name}'s rows and columns are exchanged", "store it nchw")


def _read(a: Access, strides: tuple[int, ...], pair: int) -> Read:
    if strides[4] == 0:
        return Read(a.pointer, a.ctype, strides, 0)
    whole = strides[4] == 1 and not any(s % pair for s in strides[:4])
    return Read(a.pointer, a.ctype, strides, 1 if whole else 2)


def _extent(strides: tuple[int, ...], channels: int, size: tuple[int, int, int]) -> int:
    """Elements from the first of an image to the last."""
    return sum((n - 1) * s for n, s in zip((channels, *size), strides[1:], strict=True))
