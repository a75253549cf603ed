"""The plan of one convolution stage on sm_90a: an implicit product of pixels by filters.

A work tile of the kernel is rows of pixels by columns of filters, in one slab. The result leaves in one of three ways:

  linear   channels last: pixels of all images are the rows of one matrix, written by TMA; a slab is a group.
  image    channels first: each image is a slab whose rows are contiguous, written by TMA, column by column.
  direct   what TMA cannot write (rows that are no multiple of 16 bytes, phases of a transposed convolution): each
           thread stores its own elements. Full tensors of the epilogue that lie otherwise are read the same way.

A transposed convolution of stride s is s convolutions of stride 1 an axis, one for each phase of the output: the taps
that meet a phase are every s-th, in reverse. Their filters are packed by a kernel of its own before the first phase.
With stride 2 along w and a result in rows, both phases along w share a tile: its columns 2 c and 2 c + 1 are neighbours
in a row of channel c, which a thread stores together; a phase multiplies zeros at the taps that the other alone meets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise, product

from dsl.axes import SPATIAL, image_axes
from dsl.ir import NCHW, NHWC, Conv, DType, Load, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.epilogue import Leaf, Tree, Write, build, shared
from dsl.lower.cpp.gemm.gemm_3x import CUTLASS_GEMM
from dsl.lower.cpp.gemm.gemm_operands import COMPUTE
from dsl.lower.cpp.gemm.gemm_schedule import whole_groups
from dsl.lower.cpp.gemm.product import Product3x
from dsl.lower.cpp.names import aligned, identifier, storage
from dsl.rules.problem import phases_beside

CUTLASS_CONV = (
    *CUTLASS_GEMM,
    "cutlass/conv/collective/collective_builder.hpp",
    "cutlass/conv/convnd_problem_shape.hpp",
)

# im2col TMA walks a window whose corners, taps and strides have these limits, by number of spatial axes
# (CUDA driver API, cuTensorMapEncodeIm2col).
CORNER = {1: 32768, 2: 128, 3: 16}
TAP = {1: 65535, 2: 255, 3: 31}
MAX_STRIDE = 8
# Slabs of one image each end in a tile that may be nearly empty; above this share of waste the result goes out direct.
MAX_WASTE = 1.3


@dataclass(frozen=True)
class Phase:
    """A convolution that makes the outputs `origin + step * i`. One number an axis, outermost first.

    taps, lower, upper   of the window, and the padding before and after (negative: a crop)
    first, stride        the taps of the filter in memory, last first, that a transposed convolution's phase reads
    packed               where its packed filters begin, in elements
    """

    taps: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    out: tuple[int, ...]
    origin: tuple[int, ...]
    first: tuple[int, ...] = ()
    packed: int = 0
    empty: bool = False  # no tap meets this phase: a window of one zero

    @property
    def pixels(self) -> int:
        return math.prod(self.out)


@dataclass(frozen=True)
class ConvPlan(Product3x):
    name: str
    x: str
    w: str
    spatial: int
    batch: int
    channels: int
    filters: int
    groups: int
    input: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    step: tuple[int, ...]  # of the outputs of a phase
    tap_step: tuple[int, ...]
    phases: tuple[Phase, ...]
    transposed: bool
    filter_strides: tuple[int, ...]
    way: str  # linear | image | direct
    pixels: int
    element: str
    alignment: int
    store: DType
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    schedule: str
    stream_k: bool
    stages: int
    tree: Tree
    swizzle: int
    splits: int
    packed: int  # elements of packed filters
    beside: tuple[tuple[int, ...], ...] = ()  # of both phases along w that share a tile: taps in memory, -1 for none
    width: int = 1  # pixels of a row of the result
    kind: str = "conv"
    template: str = "conv_sm90.cu.j2"
    headers: tuple[str, ...] = CUTLASS_CONV
    turned: bool = False
    pairs: bool = False
    grouped: bool = False
    own_arguments: tuple[str, ...] = field(default=())
    own_values: tuple[str, ...] = field(default=())

    @property
    def tensors(self) -> tuple[str, ...]:
        """What the launch is given addresses of, in order."""
        return (self.x, self.w, self.name, *self.tree.tensors)

    @property
    def shared(self) -> tuple[str, ...]:
        return ("implicit.cu.j2", *(["node.cu.j2"] if self.tree.node else []))

    @property
    def layout_d(self) -> str:
        return "ColumnMajor" if self.way == "image" else "RowMajor"

    @property
    def across(self) -> int:
        """Columns of a filter: phases along w that share a tile."""
        return max(1, len(self.beside))

    @property
    def even(self) -> bool:
        """Whether pairs of pixels are whole, in rows that begin where a pair may be stored at once."""
        return self.width % 2 == 0

    @property
    def columns(self) -> int:
        """N of the product: of one group."""
        return self.filters // self.groups * self.across

    @property
    def pitch(self) -> str:
        if self.way == "image":
            return f"cute::Int<1>{{}}, int64_t({self.pixels})"
        return f"int64_t({self.filters}), cute::Int<1>{{}}"

    @property
    def slab(self) -> int:
        """Elements from one slab of the result to the next."""
        return self.columns * (self.pixels if self.way == "image" else 1)

    @property
    def slabs(self) -> int:
        return self.groups * (self.batch if self.way == "image" else 1)

    @property
    def schedule_tags(self) -> tuple[str, str]:
        if self.schedule == "pingpong":
            return "KernelTmaWarpSpecializedPingpong", "TmaWarpSpecialized"
        return "KernelTmaWarpSpecializedCooperative", "TmaWarpSpecializedCooperative"

    @property
    def note(self) -> str:
        parts = []
        if self.transposed:
            parts.append("a kernel packs the filters first")
        if self.beside:
            parts.append("both phases along w are neighbouring columns of one tile")
        if len(self.phases) > 1:
            parts.append(f"{len(self.phases)} launches, one for each phase of the output")
        return "; ".join(parts)


def plan_conv(program: Program, stage: Conv, types: dict[str, TensorType]) -> ConvPlan:
    """Everything the template says about `stage`. Raises Refusal with what to write instead."""
    config, name = stage.config, identifier(stage.name)
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages"):
        if getattr(config, clause) is None:
            raise Refusal(
                "cpp-unresolved", f"stage {name} leaves {clause} to auto", "resolve the program first (dsl.resolve)"
            )
    x, w, y = types[stage.x.name], types[stage.w.name], stage.type
    operand, element = _operands(stage, x, w)
    store = y.dtype
    storage(store, name)
    s, groups = stage.spatial, stage.groups
    channels, filters = x.shape[1], y.shape[1]
    beside: tuple[tuple[int, ...], ...] = ()
    if stage.transposed:
        phases, step, tap_step = _phases(stage, x, w, y)
        dilation = tuple(d // math.gcd(d, t) for d, t in zip(stage.dilation, stage.stride, strict=True))
        if phases_beside(stage) == 2:
            phases, apart, beside = _beside(stage, x, w, y)
            dilation = (*dilation[:-1], apart)
    else:
        phases, step, tap_step, dilation = _plain(stage, w, y), (1,) * s, (1,) * s, stage.dilation
    _window(stage, phases, dilation)
    pixels = math.prod(y.shape[2:])
    way = "direct" if beside else _way(stage, y, store, len(phases), pixels, types)
    inner = x.shape[1] // groups
    columns = filters * max(1, len(beside))
    packed = sum(columns * math.prod(p.taps) * inner for p in phases) if stage.transposed else 0
    tree, own_arguments, own_values = _epilogue(stage, types, y, way, groups, phases, step, bool(beside))
    rows = math.prod(phases[0].out) * (1 if way == "image" else x.shape[0])
    return ConvPlan(
        name, identifier(stage.x.name), identifier(stage.w.name), s, x.shape[0], channels, filters, groups, x.shape[2:],
        (1,) * s if stage.transposed else stage.stride,
        dilation, step, tap_step, phases, stage.transposed, w.strides, way, pixels, element, 128 // operand.bits, store,
        config.tile, config.cluster, config.schedule, config.scheduler.kind != "persistent", config.stages, tree,
        whole_groups(rows, columns // groups, config.tile, config.cluster, config.swizzle or 1),
        config.scheduler.splits if config.scheduler.kind == "split_k" else 1, packed, beside, y.shape[-1],
        own_arguments=own_arguments, own_values=own_values,
    )  # fmt: skip


def _operands(stage: Conv, x: TensorType, w: TensorType) -> tuple[DType, str]:
    compute = stage.config.compute
    if compute not in (DType.TF32, DType.F16, DType.BF16):
        raise Refusal(
            "cpp-conv-compute",
            f"the cpp back end convolves on tensor cores in tf32, f16 or bf16, not {compute.value}",
            "write compute tf32 for f32 operands, or transform them to f16",
        )
    operand, element = COMPUTE[compute]
    for side, kind in ((stage.x, x), (stage.w, w)):
        if kind.dtype is not operand:
            raise Refusal(
                "cpp-operand",
                f"compute {compute.value} reads {operand.value} operands, and {side.name} is {kind.dtype.value}",
                f"{side.name}_c = transform({side.name}) {{ to {operand.value} }}",
            )
    if x.layout != NHWC or (w.layout != NHWC and not stage.transposed):
        side = stage.x if x.layout != NHWC else stage.w
        raise Refusal(
            "cpp-conv-layout",
            f"tensor cores read channels last, and {side.name} is channels first",
            f"{side.name}_n = transform({side.name}) {{ layout nhwc }}",
        )
    inner = x.shape[1] // stage.groups
    if not aligned(inner, operand):
        step = 128 // operand.bits
        raise Refusal(
            "cpp-conv-channels",
            f"{stage.x.name} has {inner} channels{' a group' * (stage.groups > 1)}, {inner * operand.bits // 8} bytes; "
            "TMA reads multiples of 16 bytes",
            f"pad the channels of both operands to {-(-inner // step) * step}",
        )
    return operand, element


def _plain(stage: Conv, w: TensorType, y: TensorType) -> tuple[Phase, ...]:
    """A forward convolution: one phase, which is all of the output."""
    return (Phase(w.shape[2:], stage.padding, stage.padding, y.shape[2:], (0,) * stage.spatial),)


def _phases(
    stage: Conv, x: TensorType, w: TensorType, y: TensorType
) -> tuple[tuple[Phase, ...], tuple[int, ...], tuple[int, ...]]:
    """The phases of a transposed convolution, the step between their outputs and the step between their taps.

    Output o gets x[i] * w[r] where o + padding = i * stride + r * dilation. Of phase f = o mod stride those are the r
    with r * dilation = f + padding (mod stride): every (stride / gcd)-th from a first one, r_j. With o = f + stride q,
    i = q + base - j * dilation / gcd: a convolution whose taps go backwards.
    """
    every = tuple(t // math.gcd(t, d) for t, d in zip(stage.stride, stage.dilation, strict=True))
    return _combined(stage, x, y, [_ways(stage, x, w, y, axis) for axis in range(stage.spatial)]), stage.stride, every


def _ways(stage: Conv, x: TensorType, w: TensorType, y: TensorType, axis: int) -> list[tuple]:
    """Of each phase along an axis: the fields of Phase but the last two, and whether no tap meets it."""
    i, r, out = x.shape[2 + axis], w.shape[2 + axis], y.shape[2 + axis]
    t, d, p = stage.stride[axis], stage.dilation[axis], stage.padding[axis]
    apart, ways = d // math.gcd(t, d), []
    for f in range(min(t, out)):
        count = -(-(out - f) // t)
        meets = [k for k in range(r) if (f + p - k * d) % t == 0]
        taps = max(1, len(meets))
        base = (f + p - meets[0] * d) // t if meets else 0
        lower = (taps - 1) * apart - base
        upper = count - i - lower + (taps - 1) * apart
        ways.append((taps, lower, upper, count, f, meets[0] if meets else 0, not meets))
    return ways


def _combined(stage: Conv, x: TensorType, y: TensorType, ways: list[list[tuple]], across: int = 1) -> tuple[Phase, ...]:
    """A phase of the image for each combination of phases along its axes; `across`: columns of a filter."""
    inner, at, found = x.shape[1] // stage.groups, 0, []
    for combination in product(*ways):
        taps, lower, upper, count, f, first, none = zip(*combination, strict=True)
        found.append(Phase(taps, lower, upper, count, f, first, at, any(none)))
        at += y.shape[1] * across * math.prod(taps) * inner
    return tuple(found)


def _beside(stage: Conv, x: TensorType, w: TensorType, y: TensorType):
    """As _phases, with all phases along w in one: the phases, the step between the input pixels that it meets, and for
    each phase along w the tap in memory of each of those pixels, -1 for none."""
    i, r, out = x.shape[-1], w.shape[-1], y.shape[-1]
    t, d, p = stage.stride[-1], stage.dilation[-1], stage.padding[-1]
    met = {(f, (f + p - k * d) // t): k for f in range(t) for k in range(r) if (f + p - k * d) % t == 0}
    pixels = sorted({pixel for _, pixel in met})
    apart = math.gcd(*(b - a for a, b in pairwise(pixels))) or 1
    pixels = range(pixels[0], pixels[-1] + 1, apart)
    count = -(-out // t)
    way = (len(pixels), -pixels[0], count - i + pixels[-1], count, 0, 0, False)
    ways = [*(_ways(stage, x, w, y, axis) for axis in range(stage.spatial - 1)), [way]]
    beside = tuple(tuple(met.get((f, pixel), -1) for pixel in pixels) for f in range(t))
    return _combined(stage, x, y, ways, t), apart, beside


def _window(stage: Conv, phases: tuple[Phase, ...], dilation: tuple[int, ...]) -> None:
    """The limits of im2col TMA."""
    corner, tap = CORNER[stage.spatial], TAP[stage.spatial]
    stride = (1,) if stage.transposed else stage.stride
    if max(stride) > MAX_STRIDE:
        raise Refusal(
            "cpp-conv-window",
            f"stride {max(stride)} is more than TMA's {MAX_STRIDE}",
            "leave this convolution to the other back end",
        )
    for phase in phases:
        for t, d, low, up in zip(phase.taps, dilation, phase.lower, phase.upper, strict=True):
            span = (t - 1) * d
            if span > tap or not -corner <= -low < corner or not -corner <= up - span < corner:
                raise Refusal(
                    "cpp-conv-window",
                    f"{stage.name}'s window spans {span + 1} pixels with padding {low}; TMA's im2col mode takes "
                    f"offsets up to {min(tap, corner)} with {stage.spatial} spatial axes",
                    "leave this convolution to the other back end",
                )


def _way(stage: Conv, y: TensorType, store: DType, phases: int, pixels: int, types: dict[str, TensorType]) -> str:
    """How the result leaves; see the module's text."""
    tile = stage.config.tile[0]
    whole = aligned(pixels, store) and -(-pixels // tile) * tile <= MAX_WASTE * pixels
    if phases > 1:
        return "direct"
    if y.layout == NCHW and len(y.shape) > 2:
        return "image" if whole else "direct"
    return "linear" if aligned(y.shape[1] // stage.groups, store) else "direct"


class _Place:
    """Offsets of elements in tensors of the epilogue, from where the kernel stands."""

    def __init__(
        self, y: TensorType, way: str, groups: int, phases: tuple[Phase, ...], step: tuple[int, ...], beside: bool
    ):
        self.rank = len(y.shape)
        self.y, self.way, self.groups, self.step, self.beside = y, way, groups, step, beside
        self.phased = len(phases) > 1 or beside
        self.origin = len(phases) > 1
        self.out = phases[0].out if len({p.out for p in phases}) == 1 else ()  # () where it differs by phase
        self.whole = True  # the spatial axes are read together, as one pixel index
        self.names = SPATIAL[self.rank - 2]

    def offset(self, kind: TensorType, axes: tuple[str, ...]) -> str:
        strides = dict(zip(axes, kind.strides, strict=True))
        terms = []
        if not self.phased and set(self.names) <= set(axes):
            strides = {a: s for a, s in strides.items() if a not in self.names} | {"pixel": strides["w"]}
        elif set(self.names) & set(axes):
            self.whole = False
        for axis, stride in strides.items():
            terms.append(f"int64_t({axis})" if stride == 1 else f"int64_t({axis}) * {stride}")
        return " + ".join(terms) or "0"

    def declarations(self) -> tuple[str, ...]:
        """b, c, pixel and, where something reads them apart, d, h and w."""
        columns = self.y.shape[1] // self.groups
        lines = []
        pixels = math.prod(self.out) if self.out else "on.pixels"
        if self.way == "image":
            lines.append(
                f"int const b = l / {self.groups}, pixel = m;" if self.groups > 1 else "int const b = l, pixel = m;"
            )
            group = f"l % {self.groups}"
        else:
            lines.append(f"int const b = m / {pixels}, pixel = m - b * {pixels};")
            group = "l"
        filter_ = "n / 2" if self.beside else "n"
        lines.append(
            f"int const c = {filter_} + {group} * {columns};" if self.groups > 1 else f"int const c = {filter_};"
        )
        if not self.whole or self.phased:
            rest = "pixel"
            for i, axis in reversed(list(enumerate(self.names))):
                extent = self.out[i] if self.out else f"on.out[{i}]"
                at = f"{rest} % {extent}" if i else rest
                if self.beside and axis == "w":
                    at = f"({at}) * 2 + n % 2"
                elif self.phased:
                    origin = f" + on.origin[{i}]" if self.origin else ""
                    at = f"({at}) * {self.step[i]}{origin}"
                lines.append(f"int const {axis} = {at};")
                if i:
                    lines.append(f"int const after_{axis} = {rest} / {extent};")
                    rest = f"after_{axis}"
        if self.beside and self.y.shape[-1] % 2:
            lines.append(f"inside = inside && w < {self.y.shape[-1]};  // a row ends with a phase of its own")
        return tuple(lines)


def _epilogue(
    stage: Conv,
    types: dict[str, TensorType],
    y: TensorType,
    way: str,
    groups: int,
    phases: tuple[Phase, ...],
    step: tuple[int, ...],
    beside: bool,
) -> tuple[Tree, tuple[str, ...], tuple[str, ...]]:
    place = _Place(y, way, groups, phases, step, beside)
    every = tuple(image_axes(len(y.shape)))
    filters, pixels = y.shape[1], math.prod(y.shape[2:])
    columns = filters // groups

    def fetch(load: Load, have_source: bool) -> Leaf:
        name, kind, axes = identifier(load.name), types[load.name], load.axes
        storage(kind.dtype, name)
        if kind.elements == 1:
            return Leaf("scalar", name, kind.dtype)
        if axes == ("c",) and not beside and (way != "image" or groups == 1):
            return Leaf("row", name, kind.dtype, columns if groups > 1 else 0)
        if axes == ("b", "c") and way == "image" and groups == 1:
            return Leaf("row", name, kind.dtype, filters)
        if axes == ("b",) and way == "image" and groups == 1:
            return Leaf("scalar", name, kind.dtype, 1, varies=True)
        if axes == every and way != "direct" and kind.layout == y.layout:
            rows = pixels if way == "image" else columns
            if aligned(rows, kind.dtype):
                slab = columns * (pixels if way == "image" else 1)
                return Leaf("aux" if have_source else "source", name, kind.dtype, slab)
        return Leaf("direct", name, kind.dtype, offset=place.offset(kind, axes))

    main, also = shared(stage)
    writes = []
    if way == "direct":
        writes.append(Write(identifier(stage.name), y.dtype, place.offset(y, every), main))
    for extra, expr in zip(stage.also, also, strict=True):
        if extra.type is None or extra.type.shape != y.shape:
            raise Refusal(
                "cpp-conv-reduction",
                f"{extra.name} reduces {stage.name} while it is computed; the cpp back end does that for a gemm",
                f"write {extra.name} = reduce({stage.name}) as a stage of its own",
            )
        writes.append(Write(identifier(extra.name), extra.type.dtype, place.offset(extra.type, every), expr))
    tree = build(main, fetch, tuple(writes))
    if tree.node:
        tree = Tree(
            tree.leaves, tree.statements, tree.value, tree.functions, tree.outputs, place.declarations(), tree.indexed
        )
    if not tree.node or len(phases) == 1:
        return tree, (), ()
    s = len(y.shape) - 2
    return (
        tree,
        (f"int pixels; cute::array<int, {s}> out, origin;",),
        ("phase.pixels", "phase.out", "phase.origin"),
    )
