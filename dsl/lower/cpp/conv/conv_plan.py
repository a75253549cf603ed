"""The plan of one convolution stage on sm_90a: an implicit product of pixels by filters.

A work tile of the kernel is rows of pixels by columns of filters, in one slab. The result is stored in one of three
ways:

  linear   channels last: the pixels of all images are the rows of one matrix, written by TMA; a slab is a group.
  image    channels first: each image is a slab whose rows are contiguous, written by TMA, column by column.
  direct   each thread stores its own elements, where TMA cannot: rows that are no multiple of 16 bytes, and phases of a
           transposed convolution. Full tensors of the epilogue with another layout are read the same way.

A transposed convolution runs as one convolution for each phase of its output (conv_phases). A separate kernel packs the
filters before the first phase. With stride 2 along w and a result that is contiguous along w, both phases along w share
a tile: its columns 2 c and 2 c + 1 are neighbours in a row of channel c, and a thread stores them together. Each phase
then multiplies zeros at the taps that only the other phase needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dsl.ir import NCHW, NHWC, Conv, DType, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.conv.conv_epilogue import plan_epilogue
from dsl.lower.cpp.conv.conv_phases import Phase, phases_along_w, phases_of, whole_output
from dsl.lower.cpp.epilogue import Tree
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

# Limits of im2col TMA on the corners, taps and strides of a window, by number of spatial axes (CUDA driver API,
# cuTensorMapEncodeIm2col).
CORNER = {1: 32768, 2: 128, 3: 16}
TAP = {1: 65535, 2: 255, 3: 31}
MAX_STRIDE = 8
# A slab of one image ends in a tile that may be nearly empty. Above this ratio of computed to stored pixels the result
# is stored directly.
MAX_WASTE = 1.3


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
    step: tuple[int, ...]  # distance between the outputs of a phase
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
    beside: tuple[tuple[int, ...], ...] = ()  # for each phase along w that shares a tile: its taps in w, -1 for none
    width: int = 1  # pixels of a row of the result
    kind: str = "conv"
    template: str = "conv_sm90.cu.j2"
    headers: tuple[str, ...] = CUTLASS_CONV
    transposed_result: bool = False
    pairs: bool = False
    grouped: bool = False
    own_arguments: tuple[str, ...] = field(default=())
    own_values: tuple[str, ...] = field(default=())

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors whose addresses the launch passes, in order."""
        return (self.x, self.w, self.name, *self.tree.tensors)

    @property
    def shared(self) -> tuple[str, ...]:
        return ("implicit.cu.j2", *(["node.cu.j2"] if self.tree.node else []))

    @property
    def layout_d(self) -> str:
        return "ColumnMajor" if self.way == "image" else "RowMajor"

    @property
    def across(self) -> int:
        """Columns of the tile for each filter: the phases along w that share a tile."""
        return max(1, len(self.beside))

    @property
    def even(self) -> bool:
        """Return True if rows have an even number of pixels, so that a thread can store aligned pairs."""
        return self.width % 2 == 0

    @property
    def columns(self) -> int:
        """N of the product of one group."""
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
    """The plan of a convolution stage. Raises Refusal with what to write instead."""
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
        phases, step, tap_step = phases_of(stage, x, w, y)
        dilation = tuple(d // math.gcd(d, t) for d, t in zip(stage.dilation, stage.stride, strict=True))
        if phases_beside(stage) == 2:
            phases, apart, beside = phases_along_w(stage, x, w, y)
            dilation = (*dilation[:-1], apart)
    else:
        phases, step, tap_step, dilation = whole_output(stage, w, y), (1,) * s, (1,) * s, stage.dilation
    _window(stage, phases, dilation)
    pixels = math.prod(y.shape[2:])
    way = "direct" if beside else _way(stage, y, store, len(phases), pixels, types)
    inner = x.shape[1] // groups
    columns = filters * max(1, len(beside))
    packed = sum(columns * math.prod(p.taps) * inner for p in phases) if stage.transposed else 0
    tree, own_arguments, own_values = plan_epilogue(stage, types, y, way, groups, phases, step, bool(beside))
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


def _window(stage: Conv, phases: tuple[Phase, ...], dilation: tuple[int, ...]) -> None:
    """Raise Refusal if the window exceeds the limits of im2col TMA."""
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
    """How the result is stored: linear, image or direct; see the module's docstring."""
    tile = stage.config.tile[0]
    whole = aligned(pixels, store) and -(-pixels // tile) * tile <= MAX_WASTE * pixels
    if phases > 1:
        return "direct"
    if y.layout == NCHW and len(y.shape) > 2:
        return "image" if whole else "direct"
    return "linear" if aligned(y.shape[1] // stage.groups, store) else "direct"
