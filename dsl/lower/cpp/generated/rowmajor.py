"""Row-major (nchw) convolution on the tensor cores, by mma.sync and asynchronous copies.

For one image, y[filters, pixels] = w[filters, K] x[K, pixels]. A small kernel first rounds the weights and stores them
in the order of the instruction's fragments; for a transposed convolution it reverses them. The second kernel is
persistent: each block computes several tiles of filters x (rows x columns) and loops over K in steps of whole channels.
Meanwhile it copies the halo boxes of the next steps, of this tile or the next, to shared memory. Weights stay in shared
memory if they fit; else each step loads its own.
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
from dsl.rules.problem import checks_before

ROUND = {DType.TF32: "tf32", DType.F16: "f16", DType.BF16: "bf16"}
SHARED = ("own/common.cu.j2", "own/tensor.cu.j2")  # templates
WATCH = "own/watch.cu.j2"  # under a guard
PACK_THREADS = LOOK_THREADS = 256
LOOK_CHUNK = 512  # elements that a warp checks before it combines the result
COPIES = 8  # unrolled copies of results
FINDING = 6  # computing the address of the first copy takes as long as this number of copies
LOOKED = 16  # elements that a lane checks for the guard before its warp combines the result
# Up to this number of instructions along K the loop is unrolled, so that every offset is part of an instruction. With
# 23 (L1/50 in f16) and 27 (L1/61 in tf32) a loop takes 1.17 and 1.20 times as long.
UNROLLED = 40


@dataclass(frozen=True)
class Read:
    """A tensor that the epilogue reads. `each`: 0 one element for a row, 1 a pair, 2 one element for each pixel."""

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
    first: int  # offset of a filter's first tap in w, in elements; a transposed convolution starts at the last tap
    watches: bool  # it checks the range of the values that it rounds (dsl.guard)
    grid: tuple[int, ...]
    values: tuple[Value, ...] = ()
    threads: int = PACK_THREADS
    shared_bytes: int = 0
    template: str = "own/pack.cu.j2"


@dataclass(frozen=True)
class LookPart:
    """The kernel that checks the range of `elements` values before the product that rounds them (dsl.guard)."""

    label: str
    entry: str
    pointers: tuple
    x_type: str
    elements: int
    grid: tuple[int, ...]
    chunk: int = LOOK_CHUNK
    values: tuple[Value, ...] = ()
    threads: int = LOOK_THREADS
    shared_bytes: int = 0
    template: str = "own/look.cu.j2"


@dataclass(frozen=True)
class RowmajorPart:
    """The main kernel of a row-major convolution.

    `warp_m` x `warp_n`: a warp's part of the tile. `resident`: weights stay in shared memory. `buffers`: staging
    buffers of results, and `pair`: elements of one access to them. `suffix`: C++ suffix of constants that count
    elements. `watches`: it checks the range of the values that it rounds (dsl.guard). `leaves`: a kernel before it has
    checked them, and its blocks exit if the flag is set.
    """

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
    groups: int  # of a step's channels; different threads copy their boxes at the same time
    places_unrolled: int
    copies_unrolled: int
    runs_unrolled: int
    unrolled: bool
    watches: bool
    leaves: bool
    watched: tuple[int, ...]  # planes, rows, vectors of the box, groups of channels
    watched_last: tuple[int, ...]  # the same for tiles that are the last along an axis
    inner: str  # C++ condition of a tile that is not the last; empty if all tiles check the same
    looks: int  # vectors that a lane checks before its warp combines the result
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
    before = watches and checks_before(program, stage)
    if watches:
        builder.flag()
    if before:
        builder.parts.append(_look(stage, xt, builder.pointers(["x", FLAG])))
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
    if stage.transposed:  # [C, K, ...], with the taps in reverse
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
            watches=watches and not before,
            leaves=before,
            **_watching(layout, sizes["threads"]),
            **sizes,
        )
    )
    return builder.plan([r.value for r in results], main=len(builder.parts) - 1, shared=(*SHARED, *[WATCH] * watches))


def _look(stage: Conv, x: TensorType, pointers: tuple) -> LookPart:
    """The part that checks the range of the images before all else."""
    blocks = -(-x.elements // (LOOK_CHUNK * LOOK_THREADS // 32))
    return LookPart("part3", entry(2), pointers, CTYPE[x.dtype], x.elements, (min(blocks, 8 * MULTIPROCESSORS),))


def _fit(program: Program, stage: Conv, layout: Layout) -> dict:
    """The warps and the shared memory of a tile, as fields of RowmajorPart. Raises Refusal if it does not fit."""
    limit = ARCHS[program.arch or DEFAULT].smem_block
    block = fit(layout, stage.config.stages or 2, limit)
    if not block.splits:
        problem = f"{layout.rows} rows of {layout.columns} pixels cannot be divided among {block.warps} warps"
        raise Refusal("cpp-conv-rowmajor", problem, "use tile N 128")
    if block.shared_bytes > limit:
        problem = f"{block.shared_bytes:,} bytes of shared memory; {program.arch or DEFAULT} gives a block {limit:,}"
        raise Refusal(
            "cpp-conv-rowmajor",
            f"{stage.name} needs {problem}",
            "use fewer stages, a smaller tile or fewer channels a step",
        )
    along_m = layout.blocks[0]
    grid = MULTIPROCESSORS * block.blocks // along_m * along_m or along_m
    same = ("stages", "warps_m", "warp_m", "warp_n", "resident", "buffers", "blocks", "stage_words")
    return {
        **{name: getattr(block, name) for name in (*same, "shared_bytes")},
        "grid": (min(grid, layout.tiles),),
        "threads": 32 * block.warps,
    }


def _copies(layout: Layout, threads: int) -> dict:
    """How the threads of a block share the copies of a box, as fields of RowmajorPart.

    An address takes a chain of divisions. If each address serves few copies, several are computed at once.
    """
    places = layout.image.window[0] * layout.inner_rows * layout.pitch // layout.vector
    groups = _groups(places, layout.channels, threads)
    turns, copies = -(-groups * places // threads), -(-layout.channels // groups)
    return {
        "groups": groups,
        "places_unrolled": min(turns, max(1, COPIES // copies)),
        "copies_unrolled": 4,
    }


def _groups(places: int, channels: int, threads: int) -> int:
    """The number of groups of channels that different threads of a block copy at the same time.

    A thread computes one address in a channel's box, which costs FINDING copies, and uses it for every channel of its
    group.
    """

    def clocks(groups: int) -> int:
        return -(-groups * places // threads) * (FINDING + -(-channels // groups))

    return min(range(1, channels + 1), key=lambda g: (clocks(g), g))


def _watching(layout: Layout, threads: int) -> dict:
    """The part of a box that the guard checks, as fields of RowmajorPart; a later tile checks what its box contains."""
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
    """The strides along b, k, d, h, w of a tensor as an image of `size`: its own axes, or one long row."""
    space, lengths = strides[2:], shape[2:]
    if (*(1,) * (3 - len(space)), *lengths) == size:
        return (*strides[:2], *(0,) * (3 - len(space)), *space)
    steps = [(s, n) for s, n in zip(space, lengths, strict=True) if n > 1]
    if any(outer != inner * n for (outer, _), (inner, n) in pairwise(steps)):
        raise Refusal("cpp-conv-rowmajor", "a tensor's rows and columns are exchanged", "transform it first")
    return (*strides[:2], 0, 0, steps[-1][0] if steps else 0)


def _runs(image: Image, layout: Layout, strides: tuple[int, ...], name: str) -> None:
    """Raise Refusal for a result whose rows are not contiguous, or not adjacent if the tile has whole rows."""
    along_row, rows = image.out[2] == 1 or strides[4] == 1, min(layout.rows, image.out[1])
    if not along_row or (layout.whole_rows and rows > 1 and strides[3] != image.out[2]):
        raise Refusal("cpp-conv-rowmajor", f"{name}'s rows and columns are exchanged", "store it nchw")


def _read(a: Access, strides: tuple[int, ...], pair: int) -> Read:
    if strides[4] == 0:
        return Read(a.pointer, a.ctype, strides, 0)
    whole = strides[4] == 1 and not any(s % pair for s in strides[:4])
    return Read(a.pointer, a.ctype, strides, 1 if whole else 2)


def _extent(strides: tuple[int, ...], channels: int, size: tuple[int, int, int]) -> int:
    """The distance between the first and the last element of an image, in elements."""
    return sum((n - 1) * s for n, s in zip((channels, *size), strides[1:], strict=True))
