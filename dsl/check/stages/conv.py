"""conv1d to conv3d and conv_transpose1d to conv_transpose3d: shapes, groups, layouts, and their configurations.

There are three kinds of kernels:

- On the tensor cores, channels last (nhwc): an implicit product whose channels are a multiple of 16 bytes.
- On the tensor cores, row-major (nchw): f32 operands with a `compute` clause, one group with any number of channels,
  and stride 1 if transposed.
- Direct, on the CUDA cores (`compute f32`): nchw. It is the default for few channels a group, such as depthwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from dsl import arch as arches
from dsl.axes import image_axes
from dsl.check.configure import check_config, read_config
from dsl.check.context import Clauses, Context, Typed, spans
from dsl.check.space import Space, shape_text
from dsl.check.stages.gemm import CONFIG
from dsl.check.tail import TAIL, read_tail
from dsl.fixes import Help, LeaveClauses, Rewrite, SetClauses, help_of, or_else, transform_first, write_clause
from dsl.ir import NCHW, NHWC, Conv, DType, TensorType, expressions, loads
from dsl.rules import legal
from dsl.tree import StageNode

CONV_CLAUSES = ("stride", "padding", "dilation", "groups", *CONFIG, *TAIL)
TRANSPOSED_CLAUSES = ("stride", "padding", "output_padding", "dilation", "groups", *CONFIG, *TAIL)
_DIRECT = help_of("compute f32 for a direct convolution", SetClauses((("compute", "f32"),)))


def conv(ctx: Context, node: StageNode, operands: list[Typed], clauses: Clauses) -> Conv:
    """The typed stage; `type` is None after an error."""
    (x, tx), (w, tw) = operands
    word = node.op.text
    transposed, spatial = "transpose" in word, int(word[-2])
    one, none = (1,) * spatial, (0,) * spatial
    stage = Conv(
        name=node.name.text,
        x=x,
        w=w,
        spatial=spatial,
        transposed=transposed,
        stride=ctx.sizes(clauses, "stride", spatial, 1, word) or one,
        padding=ctx.sizes(clauses, "padding", spatial, 0, word) or none,
        dilation=ctx.sizes(clauses, "dilation", spatial, 1, word) or one,
        output_padding=ctx.sizes(clauses, "output_padding", spatial, 0, word) or none,
        groups=ctx.count(clauses, "groups") or 1,
        config=read_config(clauses, ctx.error),
        span=node.span,
        clauses=spans(node),
    )
    for o in (x, w):
        if o.transposed:
            help = help_of(f"write {o.name}", Rewrite(o.name))
            ctx.error("E104", f"{word} reads its operands as they are, without .T", o.span, help)
    shape = None if tx is None or tw is None else _shape(ctx, stage, tx, tw)
    space = None if shape is None else Space(shape, image_axes(len(shape)), spoken="convolution")
    natural = None if shape is None else TensorType(tx.dtype, shape, tx.layout)
    tail = read_tail(ctx, node, clauses, space, natural)
    stage = replace(stage, **tail.fields)
    if stage.type is None or ctx.sized(stage.type, node.span) is None:
        return stage
    ready = all(ctx.types.get(n.name) is not None for e in expressions(stage) for n in loads(e))
    if _operands(ctx, stage, tx, tw) and ready and ctx.arch is not None:
        check_config(ctx.arch, stage, ctx.types, ctx.error)
    return stage


def _shape(ctx: Context, s: Conv, tx: TensorType, tw: TensorType) -> tuple[int, ...] | None:
    """The result's shape, or None with the reasons reported."""
    ok = True
    order = "[C, K / groups, window]" if s.transposed else "[K, C / groups, window]"
    for o, t, is_ in ((s.x, tx, "[b, C, space]"), (s.w, tw, order)):
        if len(t.shape) != s.spatial + 2:
            ctx.error("E108", f"{s.word} has {s.spatial + 2} axes, {is_}; {o.name} is {t}", o.span)
            ok = False
        elif t.dtype not in arches.FLOATS:
            ctx.error("E123", f"{s.word} multiplies f32, f16 and bf16; {o.name} is {t}", o.span)
            ok = False
    if ok and tx.dtype is not tw.dtype:
        message = f"{s.x.name} is {tx.dtype.value} and {s.w.name} is {tw.dtype.value}; both must be one type"
        wide, narrow = (s.x, tw) if tx.dtype.bits >= tw.dtype.bits else (s.w, tx)
        ctx.error("E107", message, s.w.span, transform_first(wide.name, ("to", narrow.dtype.value)))
        ok = False
    if not ok:
        return None
    channels, filters = tx.shape[1], tw.shape[0]
    out = tw.shape[1] * s.groups if s.transposed else filters
    for label, count in (("channels of " + s.x.name, channels), ("filters of " + s.w.name, filters)):
        if count % s.groups:
            ctx.error("E108", f"{count:,} {label} are not {s.groups:,} equal groups", s.clause_span("groups"),
                      f"a divisor of {count:,}")  # fmt: skip
            return None
    input_channels = channels if s.transposed else channels // s.groups
    weight_channels = filters if s.transposed else tw.shape[1]
    if input_channels != weight_channels:
        help: Help | str | None = None
        if not s.transposed and channels % tw.shape[1] == 0 and filters % (channels // tw.shape[1]) == 0:
            help = write_clause("groups", str(channels // tw.shape[1]))
        elif not s.transposed and filters == channels and tw.shape[1] != channels:
            help = f"conv_transpose{s.spatial}d keeps its weight as [C, K / groups, window]"
        notes = (f"{s.x.name} is {shape_text(tx.shape)}, {s.w.name} is {shape_text(tw.shape)}, {order}",)
        message = (
            f"{s.w.name} is for {weight_channels:,} channels"
            + ("" if s.transposed else " a group")
            + f"; {s.x.name} has {input_channels:,}"
        )
        ctx.error("E108", message, s.w.span, help, notes)
        return None
    sizes = []
    for i in range(s.spatial):
        reach = s.dilation[i] * (tw.shape[2 + i] - 1) + 1
        if s.transposed:
            if s.output_padding[i] >= max(s.stride[i], s.dilation[i]):
                message = f"output_padding {s.output_padding[i]} reaches past the stride of {s.stride[i]}"
                ctx.error(
                    "E109", message, s.clause_span("output_padding"), f"at most {max(s.stride[i], s.dilation[i]) - 1}"
                )
                return None
            size = (tx.shape[2 + i] - 1) * s.stride[i] - 2 * s.padding[i] + reach + s.output_padding[i]
            room = None
        else:
            room = tx.shape[2 + i] + 2 * s.padding[i]
            size = (room - reach) // s.stride[i] + 1
        if size < 1:
            axis = image_axes(s.spatial + 2)
            name = list(axis)[2 + i]
            message = f"nothing is left of axis {name}: it would have {size:,} elements"
            if room is not None:
                message = f"a window of {reach:,} does not fit axis {name} of {room:,}"
            note = f"{tx.shape[2 + i]:,} elements, padding {s.padding[i]:,} a side, "
            note += f"window {tw.shape[2 + i]:,}, dilation {s.dilation[i]:,}"
            ctx.error("E109", message, s.clause_span("padding"), None, (note,))
            return None
        sizes.append(size)
    return (tx.shape[0], out, *sizes)


def _operands(ctx: Context, s: Conv, tx: TensorType, tw: TensorType) -> bool:
    """Check layouts and channels for the kind of kernel. The help of an error names the transforms to write."""
    if legal.is_direct(s, ctx.types):
        if tw.layout != NCHW:
            tensor_cores = help_of("leave out compute f32 for the tensor cores", LeaveClauses(("compute",)))
            help = or_else(f"read {s.w.name} in nchw", tensor_cores)
            ctx.error("E115", f"a direct convolution reads its weight as nchw; {s.w.name} is {tw}", s.w.span, help)
            return False
        return True
    if legal.is_rowmajor(s, ctx.types):
        if s.type.layout != NCHW:
            message = f"a convolution that reads nchw on the tensor cores stores nchw; {s.name} would be {s.type}"
            help = or_else(write_clause("store", NCHW), f"transform({s.name}) below it")
            ctx.error("E115", message, s.clause_span("store"), help)
            return False
        return True
    first = {o.name for o, t in ((s.x, tx), (s.w, tw)) if t.layout != NHWC}
    for o, t in ((s.x, tx), (s.w, tw)):
        if o.name in first:
            pack = (("prepack", ""),) if o is s.w and o.name in ctx.params else ()
            message = f"{s.word} on the tensor cores reads channels last; {o.name} is {t}, channels first"
            if len(first) == 2 and s.config.compute is not None:
                reason = "has one group" if s.groups > 1 else "reads f32"
                if s.groups == 1 and _steps(s):
                    reason = f"is transposed with stride 1 alone, here {legal.dims(s.stride)}"
                message = f"a convolution that reads nchw on the tensor cores {reason}; {o.name} is {t}, channels first"
            nearest = transform_first(o.name, ("layout", NHWC), *pack)
            ctx.error("E115", message, o.span, or_else(nearest, *_as_it_lies(s, tx, first, o is s.x)))
    if first:
        return False
    ok = True
    step = 128 // tx.dtype.bits
    inner = tx.shape[1] // s.groups
    outer = s.type.shape[1] // s.groups
    # This also checks w's contiguous axis: C / groups, or K / groups when transposed.
    for count, side, o in ((inner, "in", s.x), (outer, "out", s.w)):
        if count % step:
            up = -(-count // step) * step
            each = " a group" if s.groups > 1 else ""
            message = (
                f"{count:,} channels {side}{each} are {count * tx.dtype.bits // 8:,} bytes; TMA moves multiples of 16"
            )
            padded = f"pad the channels to {up:,} with a transform" if s.groups == 1 else None
            note = f"{tx.dtype.value} channels are a multiple of {step}"
            ctx.error("E213", message, o.span, or_else(padded, _DIRECT), (note,))
            ok = False
    return ok


def _steps(s: Conv) -> bool:
    """Return True for a transposed convolution with a stride, which the row-major kernel does not support."""
    return s.transposed and prod(s.stride) != 1


def _as_it_lies(s: Conv, tx: TensorType, first: set[str], image: bool) -> Iterator[Help]:
    """The helps for channels-first operands: the kinds of convolution that read them without a transform."""
    if not image:
        return
    plain = s.groups == 1 and not _steps(s) and len(first) == 2 and s.config.compute is None
    if plain and tx.dtype is DType.F32:
        yield help_of("compute tf32 to read both as they are", SetClauses((("compute", "tf32"),)))
    yield _DIRECT
