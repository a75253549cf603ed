"""Direct convolution on the CUDA cores in f32: depthwise, grouped, and few channels, in row-major layout.

A thread computes `filters` output channels at `rows` neighbouring rows of one column. It uses a weight from shared
memory for all rows, and an element of x for every filter and every tap of its column. The threads of a warp have
neighbouring columns, so each read of x is coalesced.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dsl.axes import axes_of
from dsl.ir import NCHW, Conv, DType, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.generated.mapping import results_of
from dsl.lower.cpp.generated.parts import Builder, OwnPlan, access, entry
from dsl.lower.cpp.generated.space import CTYPE, grid_of
from dsl.lower.cpp.generated.values import Reader, Value
from dsl.rules.image import padding_of

ROOM = 48 << 10  # bytes of shared memory of a block without an opt-in
SHARED = 40 << 10  # bytes of weights in shared memory at a time
FLOATS = (DType.F32, DType.F16, DType.BF16)


@dataclass(frozen=True)
class Seen:
    """A tensor that is read or written at each output: its strides along b, k, d, h, w."""

    pointer: str
    ctype: str
    strides: tuple[int, ...]
    expression: str = ""


@dataclass(frozen=True)
class DirectPart:
    """The part of a direct convolution.

    Spatial tuples are (d, h, w); with fewer axes the first ones are 1. `spaced`: with one spatial axis, the rows of a
    thread are columns one block apart. `image_first`: consecutive blocks have the same channel, else the same pixels.
    """

    label: str
    entry: str
    pointers: tuple
    values: tuple[Value, ...]
    x_type: str
    w_type: str
    x: Seen
    w: Seen
    first: int  # offset of a filter's first tap in w, in elements; a transposed convolution starts at the last tap
    reads: tuple[Seen, ...]
    outputs: tuple[Seen, ...]
    batch: int
    channels: int  # of one group
    filters_group: int
    size: tuple[int, int, int]
    out: tuple[int, int, int]
    window: tuple[int, int, int]
    stride: tuple[int, int, int]
    padding: tuple[int, int, int]
    beyond: tuple[bool, bool, bool]  # whether windows reach over the edges of x
    dilation: tuple[int, int, int]
    filters: int
    rows: int
    span: int
    chunk: int
    spaced: bool
    places: int
    blocks_place: int
    blocks_filter: int
    image_first: bool
    unrolled: bool
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int = 0
    template: str = "own/direct.cu.j2"


def plan_direct(program: Program, stage: Conv, types: dict[str, TensorType]) -> OwnPlan:
    """The plan of a direct convolution. Raises Refusal for a stage that needs the tensor cores or another layout."""
    xt, wt, yt = types[stage.x.name], types[stage.w.name], stage.type
    if stage.transposed and (stage.groups != 1 or any(s != 1 for s in stage.stride)):
        message = f"{stage.name} is transposed with a stride or groups, which has no direct kernel"
        raise Refusal("cpp-conv-direct", message, "use layout nhwc")
    if xt.layout != NCHW or xt.dtype not in FLOATS or wt.dtype not in FLOATS:
        raise Refusal(
            "cpp-conv-direct",
            f"direct convolution reads row-major f32, f16 or bf16; {stage.x.name} is {xt}, {stage.w.name} {wt}",
            "leave the layout out, or use multiples of 16 bytes of channels for the tensor cores",
        )
    builder = Builder(stage.name, "conv", types)
    n = stage.spatial
    rank = n + 2
    reader = Reader(axes_of(stage, rank), types, rank)
    results, outputs = results_of(builder, stage, reader)
    builder.tensor("x", stage.x.name)
    builder.tensor("w", stage.w.name)
    builder.reads(reader)

    def spatial(values, fill: int) -> tuple[int, int, int]:
        return (*(fill,) * (3 - n), *(tuple(values) or (fill,) * n))

    def seen(a, expression: str = "") -> Seen:
        s = a.strides
        return Seen(a.pointer, a.ctype, (s[0], s[1], *(0,) * (3 - n), *s[2:]), expression)

    out, window = spatial(yt.shape[2:], 1), spatial(wt.shape[2:], 1)
    stride, dilation = spatial(stage.stride, 1), spatial(stage.dilation, 1)
    padding, more = spatial(padding_of(stage, wt.shape[2:]), 0), spatial(stage.output_padding, 0)
    (outer, inner), (k_step, c_step, *taps) = wt.shape[:2], access("w", wt).strides
    if stage.transposed:  # w is [C, K, ...] and its taps are met in reverse
        outer, inner, k_step, c_step, taps = inner, outer, c_step, k_step, [-s for s in taps]
    first = sum((size - 1) * -s for size, s in zip(wt.shape[2:], taps, strict=True) if s < 0)
    filters_group, channels = outer // stage.groups, inner
    filters = _filters(filters_group, prod(window))
    spaced = n == 1
    rows = max(1, min(8, 64 // filters))
    rows = rows if spaced else min(rows, out[1])
    threads = 128
    if spaced:
        places, blocks_place = out[2], -(-out[2] // (threads * rows))
    else:
        places = out[0] * -(-out[1] // rows) * out[2]
        blocks_place = -(-places // threads)
    chunk = max(1, min(channels, SHARED // (4 * prod(window) * filters)))
    blocks_filter = outer // filters
    if prod(window) * filters * 4 > ROOM:
        raise Refusal("cpp-conv-direct", f"{stage.w.name} has windows of {prod(window)} taps", "use the tensor cores")
    names = ["x", "w", *reader.names, *(r.pointer for r in results)]
    builder.parts.append(
        DirectPart(
            label="part1",
            entry=entry(0),
            pointers=builder.pointers(names),
            values=tuple(r.value for r in results),
            x_type=CTYPE[xt.dtype],
            w_type=CTYPE[wt.dtype],
            x=seen(access("x", xt)),
            w=Seen("w", CTYPE[wt.dtype], (k_step, c_step, *(0,) * (3 - n), *taps)),
            first=first,
            reads=tuple(seen(a) for a in reader.accesses()),
            outputs=tuple(seen(o, r.value.call("acc", "e_{}")) for r, o in zip(results, outputs, strict=True)),
            batch=xt.shape[0],
            channels=channels,
            filters_group=filters_group,
            size=spatial(xt.shape[2:], 1),
            out=out,
            window=window,
            stride=stride,
            padding=padding,
            beyond=tuple(p != 0 or m > 0 for p, m in zip(padding, more, strict=True)),
            dilation=dilation,
            filters=filters,
            rows=rows,
            span=(rows - 1) * stride[1] + (window[1] - 1) * dilation[1] + 1,
            chunk=chunk,
            spaced=spaced,
            places=places,
            blocks_place=blocks_place,
            blocks_filter=blocks_filter,
            image_first=filters_group == 1,
            unrolled=window[2] * window[1] * filters * rows <= 2048,
            grid=(grid_of(xt.shape[0] * blocks_place * blocks_filter, stage.name),),
            threads=threads,
        )
    )
    return builder.plan([r.value for r in results])


def _filters(of_group: int, taps: int) -> int:
    """Output channels of a thread: the largest divisor of `of_group` up to 16 whose weights of one channel fit.

    A multiple of four is preferred.
    """
    fits = [k for k in range(1, 17) if of_group % k == 0 and (k == 1 or 4 * taps * k <= ROOM)]
    return max((k for k in fits if k % 4 == 0), default=max(fits))
