"""A convolution on the tensor cores as one or more launches of the generated kernel of conv_text.py.

Forward, an output pixel q meets the input pixel q * stride + s * dilation - padding at window position s. TMA has no
steps between pixels, so a stride becomes one view of x for each remainder that occurs: x[remainder::stride].

Where the window's innermost positions lie side by side (dilation 1, no padding along w) a row of the window is one run
of positions x channels contiguous elements, which few channels need to fill a step of K.

Transposed, output pixel o meets input pixel i where o = i * stride + s * dilation - padding. All o with one remainder
of the stride see the same window positions, so each remainder (phase) is a forward convolution of stride 1 with some
of the positions, and writes every stride-th pixel of the result: stride ** spatial launches, one where stride is 1.
The weight lies as [C, window, K]: its n is contiguous, which warp-group MMA takes as it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from dsl.ir import NHWC, Conv, DType, Load, Program, TensorType, inlined, loads
from dsl.lower import Refusal
from dsl.lower.cute import conv_text, expression
from dsl.lower.cute.conv_tiles import Tiling, boxes, tiling

CUTE = {DType.F32: "Float32", DType.F16: "Float16", DType.BF16: "BFloat16"}


@dataclass(frozen=True)
class Axis:
    """One axis of a window, as the kernel takes it (conv_text.CONV): fields in its order."""

    count: int
    start: int
    advance: int
    stride: int = 1
    weight: int = 0
    w_start: int = 0
    w_advance: int = 1
    w_distance: int = 0

    def text(self) -> str:
        return (
            f"({self.count}, {self.start}, {self.advance}, {self.stride}, {self.weight}, "
            f"{self.w_start}, {self.w_advance}, {self.w_distance})"
        )


@dataclass(frozen=True)
class Launch:
    """One launch: everything that ConvKernel is told. `run` channels meet at one window position."""

    axes: tuple[Axis, Axis, Axis]
    run: int
    views: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    remainders: tuple[int, ...]
    out: tuple[int, int, int]
    strides: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]

    @property
    def taps(self) -> int:
        return prod(a.count for a in self.axes)


@dataclass(frozen=True)
class ConvPlan:
    """What the emitter says of a stage. `arguments`: the tensors of a call, in order: x, w, results, tensors read."""

    name: str
    arguments: tuple[str, ...]
    lines: tuple[str, ...]
    clauses: tuple[tuple[str, int], ...]  # clause and the position in `lines` that it decides
    imports: frozenset[tuple[str, str]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def plan_conv(program: Program, stage: Conv) -> ConvPlan:
    """The text of a tensor-core convolution. Raises Refusal."""
    types = _types(program)
    x, w, y = types[stage.x.name], types[stage.w.name], stage.type
    _refuse(stage, x, w, y)
    outs = (stage.name, *(a.name for a in stage.also))
    exprs = [inlined(stage, e) for e in (stage.epilogue, *(a.expr for a in stage.also))]
    found = tuple(dict.fromkeys(load for e in exprs for load in loads(e)))
    names = _argument_names(found)
    reads = tuple(_read_strides(load, types[load.name], y) for load in found)
    launches = _launches(stage, x, w, y, reads)
    tile = tiling(stage, x, w, y, [(launch.run, launch.taps, launch.out) for launch in launches])
    lines: list[str] = []
    clauses: list[tuple[str, int]] = []
    imports: set[tuple[str, str]] = set()

    def add(text: str, *marks: str) -> None:
        lines.append(text)
        clauses.extend((mark, len(lines) - 1) for mark in marks)

    add(f"def {stage.name}_epilogue({', '.join(['acc', *names])}):", "epilogue")
    values, notes, body = [], [], []
    taken = {*names, "acc", "cute", "Float32", "fmax", "fmin"}
    for e in exprs:
        written = expression.write(e, dict(zip(((f.name, f.axes) for f in found), names, strict=True)), taken)
        # Each expression counts its temporaries from t1: what the ones before named is taken.
        taken |= {line.split(" = ")[0] for line in written.lines}
        body += written.lines
        values.append(f"cutlass.Float32({written.value})")
        notes += written.notes
        imports |= written.imports
    for line in (*(f"# {note}" for note in dict.fromkeys(notes)), *body):
        add(f"    {line}", "epilogue")
    add(f"    return ({', '.join(values)},)", "epilogue")
    add("")
    add("")
    for number, launch in enumerate(launches):
        for text, mark in _kernel_text(stage, w, y, launch, tile, number):
            add(text, *mark)
    add("")
    add("")
    reads_text = [f"read{i}" for i in range(len(found))]
    outs_text = [f"out{i}" for i in range(len(outs))]
    add("@cute.jit")
    add(f"def {stage.name}_launch({', '.join(['x', 'w', *outs_text, *reads_text])}, stream: CUstream):")
    for number in range(len(launches)):
        kernel = f"{stage.name.upper()}_{number}"
        add(f"    {kernel}.launch(x, w, {_tuple(outs_text)}, {_tuple(reads_text)}, stream)")
    dtypes = [CUTE[t.dtype] for t in (x, w, *([y] * len(outs)), *(types[f.name] for f in found))]
    version = hashlib.sha256("\n".join([conv_text.VERSION, *lines]).encode()).hexdigest()[:16]
    add("")
    add("")
    listed = ", ".join(f"cutlass.{d}" for d in dtypes)
    add(f'{stage.name.upper()} = ConvStage("{stage.name}_launch", ({listed}), "{version}")', "compute", "store")
    tensors = (stage.x.name, stage.w.name, *outs, *(f.name for f in found))
    return ConvPlan(stage.name, tensors, tuple(lines), tuple(clauses), frozenset(imports | set(conv_text.IMPORTS)))


def _types(program: Program) -> dict[str, TensorType]:
    found = {x.name: x.type for x in (*program.params, *program.stages)}
    for s in program.stages:
        found |= {a.name: a.type for a in s.also}
    return found


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"


def _refuse(stage: Conv, x: TensorType, w: TensorType, y: TensorType) -> None:
    if x.dtype not in (DType.F16, DType.BF16) or w.dtype is not x.dtype:
        raise Refusal(
            "cute-conv-dtype",
            f"the cute back end convolves f16 and bf16 on sm_90a; {stage.name} has {x.dtype.value} and {w.dtype.value}",
            f"transform {stage.x.name} and {stage.w.name} to f16",
        )
    if x.layout != NHWC or w.layout != NHWC:
        raise Refusal(
            "cute-conv-layout",
            f"{stage.name} reads {stage.x.name} {x.layout} and {stage.w.name} {w.layout}; tensor cores take nhwc",
            f"transform {stage.x.name} and {stage.w.name} with layout nhwc",
        )
    for what, count in (("input", x.shape[1] // stage.groups), ("output", y.shape[1] // stage.groups)):
        if count % 8:
            raise Refusal(
                "cute-conv-channels",
                f"{stage.name} has {count} {what} channels a group; TMA needs a multiple of 8",
                "pad the channels, or write compute f32 for a direct convolution",
            )
    if y.dtype not in CUTE:
        raise Refusal("cute-dtype", f"convolutions store f32, f16 and bf16, not {y.dtype.value}", "store f16")
    if stage.config.compute not in (None, x.dtype):
        raise Refusal(
            "cute-conv-compute", f"{stage.name} computes {stage.config.compute.value} from {x.dtype.value}", None
        )
    for t in (x, w, y):
        if t.elements // t.shape[0] >= 2**31:
            raise Refusal("cute-size", f"an image of {stage.name} has 2^31 elements or more", None)


def _argument_names(found: tuple[Load, ...]) -> list[str]:
    names: list[str] = []
    for load in found:
        name = f"{load.name}_{''.join(load.axes)}" if load.axes else load.name
        while name in names or name in ("acc", "cute", "Float32", "fmax", "fmin", "cutlass"):
            name += "_"
        names.append(name)
    return names


# ---- coordinates ----------------------------------------------------------------------------------------------

_SPATIAL = ("w", "h", "d")


def _three(values, fill: int) -> tuple[int, int, int]:
    """Spatial values, outermost first, as (w, h, d)."""
    inner = tuple(reversed(tuple(values)))
    return (*inner, *(fill,) * (3 - len(inner)))


def _strides(t: TensorType) -> tuple[int, int, int, int, int]:
    """Strides over (image, channel, w, h, d)."""
    b, c, *space = t.strides
    return (b, c, *_three(space, 0))


def _read_strides(load: Load, t: TensorType, y: TensorType) -> tuple[int, ...]:
    """A tensor read by the epilogue: first element, then strides over (image, channel, w, h, d)."""
    names = ("b", "c", *reversed(_SPATIAL[: len(y.shape) - 2]))
    by_axis = {a: 0 if n == 1 else s for a, n, s in zip(load.axes, t.shape, t.strides, strict=True)}
    unknown = set(by_axis) - set(names)
    if unknown:
        raise Refusal("cute-load", f"{load.name} is read at {', '.join(load.axes)}", f"axes are {', '.join(names)}")
    return (0, by_axis.get("b", 0), by_axis.get("c", 0), *(by_axis.get(a, 0) for a in _SPATIAL))


def _launches(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads) -> list[Launch]:
    if stage.transposed:
        return _transposed(stage, x, w, y, reads)
    return [_forward(stage, x, w, y, reads)]


def _forward(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads) -> Launch:
    images, channels = x.shape[:2]
    size, window = _three(x.shape[2:], 1), _three(w.shape[2:], 1)
    stride, dilation, padding = _three(stage.stride, 1), _three(stage.dilation, 1), _three(stage.padding, 0)
    out = _three(y.shape[2:], 1)
    run = w.shape[1]
    pitch = (channels, channels * size[0], channels * size[0] * size[1])
    image = channels * prod(size)
    merged = run < 64 and stage.groups == 1 and window[0] > 1 and dilation[0] == 1 and padding[0] == 0
    if merged:  # a row of the window is contiguous: one run, at one position
        run *= window[0]
        size = ((size[0] - window[0]) // stride[0] + 1, *size[1:])
        pitch = (pitch[0] * stride[0], *pitch[1:])
        window, stride = (1, *window[1:]), (1, *stride[1:])
    axes, distance, weight, occurring = [], 1, 1, []
    for i in range(3):
        axes.append(Axis(window[i], -padding[i], dilation[i], stride[i], weight, 0, 1, distance))
        occurring.append(sorted({(s * dilation[i] - padding[i]) % stride[i] for s in range(window[i])}))
        weight *= stride[i]
        distance *= window[i]
    views, remainders = [], []
    for found in product(*reversed(occurring)):
        r = tuple(reversed(found))
        extents = tuple(max(1, -(-(n - o) // s)) for n, o, s in zip(size, r, stride, strict=True))
        views.append((
            sum(o * p for o, p in zip(r, pitch, strict=True)),
            (run if merged else channels, *extents, images),
            (1, *(p * s for p, s in zip(pitch, stride, strict=True)), image),
        ))  # fmt: skip
        remainders.append(sum(o * a.weight for o, a in zip(r, axes, strict=True)))
    return Launch(tuple(axes), run, tuple(views), tuple(remainders), out, (0, *_strides(y)), reads)


def _transposed(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads) -> list[Launch]:
    images, channels = x.shape[:2]
    size, window = _three(x.shape[2:], 1), _three(w.shape[2:], 1)
    stride, dilation, padding = _three(stage.stride, 1), _three(stage.dilation, 1), _three(stage.padding, 0)
    out = _three(y.shape[2:], 1)
    pitch = (channels, channels * size[0], channels * size[0] * size[1])
    view = (0, (channels, *size, images), (1, *pitch, channels * prod(size)))
    launches = []
    for phase in product(*(range(s) for s in reversed(stride))):
        p = tuple(reversed(phase))
        extents = tuple(-(-(n - o) // s) for n, o, s in zip(out, p, stride, strict=True))
        if min(extents) < 1:
            continue
        axes, distance, empty = [], 1, False
        for i in range(3):
            met = [s for s in range(window[i]) if (p[i] + padding[i] - s * dilation[i]) % stride[i] == 0]
            empty = empty or not met
            first = met[0] if met else 0
            apart = met[1] - met[0] if len(met) > 1 else 1
            start = (p[i] + padding[i] - first * dilation[i]) // stride[i] if met else 0
            step = -(apart * dilation[i]) // stride[i] if len(met) > 1 else 0
            axes.append(Axis(len(met), start, step, 1, 0, first, apart, distance))
            distance *= window[i]
        if empty:
            # No window position reaches these pixels: they are the epilogue of 0, by one position far outside.
            axes = [replace(a, count=1, start=2**20, advance=0) for a in axes]
        strides = _phase(_strides(y), p, stride)
        launches.append(
            Launch(tuple(axes), channels // stage.groups, (view,), (0,), extents, strides,
                   tuple(_phase(r[1:], p, stride) for r in reads))
        )  # fmt: skip
    return launches


def _phase(strides: tuple[int, ...], p: tuple[int, int, int], stride: tuple[int, int, int]) -> tuple[int, ...]:
    """A tensor over the output as seen from one phase: its first element there, and every stride-th pixel."""
    b, c, *space = strides
    return (sum(o * s for o, s in zip(p, space, strict=True)), b, c,
            *(s * n for s, n in zip(space, stride, strict=True)))  # fmt: skip


# ---- text -----------------------------------------------------------------------------------------------------


def _kernel_text(stage: Conv, w: TensorType, y: TensorType, launch: Launch, tile: Tiling, number: int):
    """The lines of one ConvKernel, with the clauses that decide them."""
    channels = y.shape[1] // stage.groups
    taps_w = prod(w.shape[2:])
    if stage.transposed:
        per_group = w.shape[1]
        # Groups follow each other along C, the weight's outermost axis.
        extents = (per_group, taps_w, w.shape[0], 1)
        strides = (1, per_group, per_group * taps_w, 0)
    else:
        # A merged run takes the place of the window's innermost axis.
        taps = taps_w * w.shape[1] // launch.run
        extents = (launch.run, taps, channels, stage.groups)
        strides = (1, launch.run, launch.run * taps, launch.run * taps * channels)
    box = boxes(tile.pixels, launch.out)
    block, parts = tile.run_box(launch.run, launch.taps)
    yield f"{stage.name.upper()}_{number} = ConvKernel(", ()
    yield f"    {stage.name}_epilogue,", ()
    yield f"    box={box}, tile_n={tile.n}, run_box={block}, parts={parts},", ("tile",)
    resident = f"{tile.resident} block{'s' * (tile.resident > 1)} at once on a multiprocessor"
    yield f"    warp_groups={tile.warp_groups}, resident={tile.resident},  # {resident}", ("schedule",)
    yield f"    stages={tile.stages},", ("stages",)
    yield f"    axes=({', '.join(a.text() for a in launch.axes)}),", ("stride", "padding", "dilation")
    yield f"    run={launch.run}, channels={channels}, groups={stage.groups}, images={y.shape[0]},", ("groups",)
    yield f"    out={launch.out}, w_along_c={not stage.transposed}, w_view=({extents}, {strides}),", ()
    yield f"    views={launch.views},", ("stride",)
    yield f"    remainders={launch.remainders},", ("stride",)
    yield f"    strides={launch.strides},", ("store",)
    yield f"    reads={launch.reads},", ("epilogue",)
    yield ")", ()


__all__ = ["ConvPlan", "plan_conv"]
