"""A convolution on the tensor cores as one or more launches of the generated kernel: what each reads and writes where.

Forward, an output pixel q meets the input pixel q * stride + s * dilation - padding at window position s. TMA has no
steps between pixels, so a stride becomes one view of x for each remainder that occurs: x[remainder::stride].

Where the window's innermost positions lie side by side (dilation 1, no padding along w) a row of the window is one run
of positions x channels contiguous elements, which few channels need to fill a step of K.

Transposed, output pixel o meets input pixel i where o = i * stride + s * dilation - padding. All o with one remainder
of the stride see the same window positions, so each remainder (phase) is a forward convolution of stride 1 with some
of the positions, and writes every stride-th pixel of the result. Phases along w are columns of one product, so that
the result's rows are written whole: a column multiplies zeros at the positions that its phase does not see. Phases
along h and d, and along w where a tile's columns do not divide into them, are launches of their own.
The weight lies as [C, window, K]: its n is contiguous, which warp-group MMA takes as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import gcd, prod

from dsl.ir import Conv, Load, TensorType
from dsl.lower import Refusal

SPATIAL = ("w", "h", "d")
MOST_PHASES, MOST_ROWS = 4, 512  # phases of a tile, and its pixels in all of them: what fits on the way out
FAR = 2**20  # a pixel that no image has


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
    """One launch: everything that ConvKernel is told of its geometry. `run` channels meet at one window position.

    `out`: pixels that a phase has; `width`: those along w of all phases. `seen`: for each phase along w and each
    position of the window's innermost axis the position in w, or -1; empty where there is one phase.
    `void`: views of x that have no pixel at all.
    """

    axes: tuple[Axis, Axis, Axis]
    run: int
    views: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    remainders: tuple[int, ...]
    void: tuple[int, ...]
    out: tuple[int, int, int]
    width: int
    seen: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]

    @property
    def taps(self) -> int:
        return prod(a.count for a in self.axes)

    @property
    def phases(self) -> int:
        return max(1, len(self.seen))


def launches_of(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads, tile) -> list[Launch]:
    """The launches of a stage with this tile (pixels, columns, ..). reads: read_strides of each tensor that is read."""
    if stage.transposed:
        return _transposed(stage, x, w, y, reads, phases_of(stage, *tile[:2]))
    return [_forward(stage, x, w, y, reads)]


def phases_of(stage: Conv, pixels: int = 128, columns: int | None = None) -> int:
    """Phases along w that share a tile (columns: None where they may be chosen for it)."""
    phases = stage.stride[-1] if stage.transposed else 1
    fits = columns is None or columns % (8 * phases) == 0
    return phases if phases <= MOST_PHASES and phases * pixels <= MOST_ROWS and fits else 1


def three(values, fill: int) -> tuple[int, int, int]:
    """Spatial values, outermost first, as (w, h, d)."""
    inner = tuple(reversed(tuple(values)))
    return (*inner, *(fill,) * (3 - len(inner)))


def _strides(t: TensorType) -> tuple[int, int, int, int, int]:
    """Strides over (image, channel, w, h, d)."""
    b, c, *space = t.strides
    return (b, c, *three(space, 0))


def read_strides(load: Load, t: TensorType, y: TensorType) -> tuple[int, ...]:
    """A tensor read by the epilogue: first element, then strides over (image, channel, w, h, d). Raises Refusal."""
    names = ("b", "c", *reversed(SPATIAL[: len(y.shape) - 2]))
    by_axis = {a: 0 if n == 1 else s for a, n, s in zip(load.axes, t.shape, t.strides, strict=True)}
    if set(by_axis) - set(names):
        raise Refusal("cute-load", f"{load.name} is read at {', '.join(load.axes)}", f"axes are {', '.join(names)}")
    return (0, by_axis.get("b", 0), by_axis.get("c", 0), *(by_axis.get(a, 0) for a in SPATIAL))


def _forward(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads) -> Launch:
    images, channels = x.shape[:2]
    size, window = three(x.shape[2:], 1), three(w.shape[2:], 1)
    stride, dilation, padding = three(stage.stride, 1), three(stage.dilation, 1), three(stage.padding, 0)
    out = three(y.shape[2:], 1)
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
    views, remainders, void = [], [], []
    for found in product(*reversed(occurring)):
        r = tuple(reversed(found))
        extents = tuple(-(-(n - o) // s) for n, o, s in zip(size, r, stride, strict=True))
        first = sum(o * p for o, p in zip(r, pitch, strict=True))
        if min(extents) < 1:  # the image ends before this remainder: every pixel of it is padding
            void.append(len(views))
            first, extents = 0, tuple(max(1, n) for n in extents)
        views.append((
            first,
            (run if merged else channels, *extents, images),
            (1, *(p * s for p, s in zip(pitch, stride, strict=True)), image),
        ))  # fmt: skip
        remainders.append(sum(o * a.weight for o, a in zip(r, axes, strict=True)))
    strides = (0, *_strides(y))
    return Launch(tuple(axes), run, tuple(views), tuple(remainders), tuple(void), out, out[0], (), strides, reads)


def _transposed(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads, phases: int) -> list[Launch]:
    images, channels = x.shape[:2]
    size, window = three(x.shape[2:], 1), three(w.shape[2:], 1)
    stride, dilation, padding = three(stage.stride, 1), three(stage.dilation, 1), three(stage.padding, 0)
    out = three(y.shape[2:], 1)
    pitch = (channels, channels * size[0], channels * size[0] * size[1])
    view = (0, (channels, *size, images), (1, *pitch, channels * prod(size)))
    apart = (1 if phases > 1 else stride[0], *stride[1:])
    launches = []
    for phase in product(*(range(s) for s in reversed(apart))):
        p = tuple(reversed(phase))
        # Phases that share a launch begin at 0 and have as many pixels as the first has.
        extents = tuple(-(-(n - o) // s) for n, o, s in zip(out, p, stride, strict=True))
        if min(extents) < 1:
            continue
        axes, distance, empty, seen = [], 1, False, ()
        for i in range(3):
            if i == 0 and phases > 1:
                axis, seen = _shared(phases, window[0], stride[0], dilation[0], padding[0])
            else:
                axis = _phase_axis(p[i], window[i], stride[i], dilation[i], padding[i], distance)
            axes.append(axis or Axis(1, 0, 0))
            empty = empty or axis is None
            distance *= window[i]
        if empty:
            # No window position reaches these pixels: they are the epilogue of 0, by one position far outside.
            axes = [replace(a, count=1, start=FAR, advance=0) for a in axes]
            seen = ((0,),) * len(seen)
        launches.append(
            Launch(tuple(axes), channels // stage.groups, (view,), (0,), (), extents,
                   out[0] if phases > 1 else extents[0], seen, _phase(_strides(y), p, apart),
                   tuple(_phase(r[1:], p, apart) for r in reads))
        )  # fmt: skip
    return launches


def _phase_axis(phase: int, window: int, stride: int, dilation: int, padding: int, distance: int) -> Axis | None:
    """The window positions that output pixels q * stride + phase see, and where: input pixel q + start + ..."""
    met = [s for s in range(window) if (phase + padding - s * dilation) % stride == 0]
    if not met:
        return None
    apart = met[1] - met[0] if len(met) > 1 else 1
    start = (phase + padding - met[0] * dilation) // stride
    step = -(apart * dilation) // stride if len(met) > 1 else 0
    return Axis(len(met), start, step, 1, 0, met[0], apart, distance)


def _shared(phases: int, window: int, stride: int, dilation: int, padding: int):
    """The axis of all phases together: input pixels that any of them sees; and for each the positions in w."""
    found = {
        (p, (p + padding - s * dilation) // stride): s
        for p in range(phases)
        for s in range(window)
        if (p + padding - s * dilation) % stride == 0
    }
    places = sorted({place for _, place in found})
    advance = gcd(*(b - a for a, b in pairwise(places))) or 1
    places = range(places[0], places[-1] + 1, advance)
    seen = tuple(tuple(found.get((p, place), -1) for place in places) for p in range(phases))
    return Axis(len(places), places[0], advance, 1, 0, 0, 0, 1), seen


def _phase(strides: tuple[int, ...], p: tuple[int, int, int], apart: tuple[int, int, int]) -> tuple[int, ...]:
    """A tensor over the output as seen from one phase: its first element there, and every stride-th pixel."""
    b, c, *space = strides
    return (sum(o * s for o, s in zip(p, space, strict=True)), b, c,
            *(s * n for s, n in zip(space, apart, strict=True)))  # fmt: skip


__all__ = ["Axis", "Launch", "launches_of", "phases_of", "read_strides", "three"]
