"""The launches of the generated kernel that compute a convolution on the tensor cores.

In a forward convolution the output pixel q reads the input pixel q * stride + s * dilation - padding at window position
s. TMA has no stride between pixels, so there is one view of x for each remainder that occurs: x[remainder::stride].

If the innermost window positions are contiguous (dilation 1, no padding along w), a row of the window is one run of
positions x channels elements. With few channels this fills a step of K.

In a transposed convolution the output pixel o reads the input pixel i with o = i * stride + s * dilation - padding. All
o with the same remainder of the stride read the same window positions. So each remainder (phase) is a forward
convolution of stride 1 with some of the positions, and it writes every stride-th pixel of the result. Phases along w
are columns of one product, so that whole rows of the result are written; a column multiplies zeros at the positions
that its phase does not read. Phases along h and d, and along w if they do not divide a tile's columns, are separate
launches. The weight is [C, window, K] in memory: its n is contiguous, which warp-group MMA can read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import gcd, prod

from dsl.ir import Conv, Load, TensorType
from dsl.lower import Refusal
from dsl.rules.conv import phases_of
from dsl.rules.cute.whole_window import three

SPATIAL = ("w", "h", "d")
FAR = 2**20  # a pixel index outside every image


@dataclass(frozen=True)
class Axis:
    """One axis of a window: the arguments of the kernel (conv_text.CONV), in its order."""

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
    """One launch: the geometry that ConvKernel takes. `run`: channels at one window position.

    `out`: pixels of a phase; `width`: pixels of all phases along w. `seen`: for each phase along w and each position of
    the window's innermost axis the position in w, or -1; empty with one phase. `void`: views of x without any pixel.
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


def launches_of(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads, tile, runs=True) -> list[Launch]:
    """The launches of a stage with this tile (pixels, columns, ..); `reads`: strides of the epilogue's tensors; `runs`:
    whether rows of few channels may be one run."""
    if stage.transposed:
        return _transposed(stage, x, w, y, reads, phases_of(stage, *tile[:2]))
    return [_forward(stage, x, w, y, reads, runs)]


def _strides(t: TensorType) -> tuple[int, int, int, int, int]:
    """The strides along (image, channel, w, h, d)."""
    b, c, *space = t.strides
    return (b, c, *three(space, 0))


def read_strides(load: Load, t: TensorType, y: TensorType) -> tuple[int, ...]:
    """Offset and strides along (image, channel, w, h, d) of a tensor that the epilogue reads. Raises Refusal."""
    names = ("b", "c", *reversed(SPATIAL[: len(y.shape) - 2]))
    by_axis = {a: 0 if n == 1 else s for a, n, s in zip(load.axes, t.shape, t.strides, strict=True)}
    if set(by_axis) - set(names):
        raise Refusal("cute-load", f"{load.name} is read at {', '.join(load.axes)}", f"axes are {', '.join(names)}")
    return (0, by_axis.get("b", 0), by_axis.get("c", 0), *(by_axis.get(a, 0) for a in SPATIAL))


def _forward(stage: Conv, x: TensorType, w: TensorType, y: TensorType, reads, runs: bool) -> Launch:
    images, channels = x.shape[:2]
    size, window = three(x.shape[2:], 1), three(w.shape[2:], 1)
    stride, dilation, padding = three(stage.stride, 1), three(stage.dilation, 1), three(stage.padding, 0)
    out = three(y.shape[2:], 1)
    run = w.shape[1]
    pitch = (channels, channels * size[0], channels * size[0] * size[1])
    image = channels * prod(size)
    merged = runs and run < 64 and stage.groups == 1 and window[0] > 1 and dilation[0] == 1 and padding[0] == 0
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
    for remainder_of_axes in product(*reversed(occurring)):
        r = tuple(reversed(remainder_of_axes))
        extents = tuple(-(-(n - o) // s) for n, o, s in zip(size, r, stride, strict=True))
        first = sum(o * p for o, p in zip(r, pitch, strict=True))
        if min(extents) < 1:  # the image has no pixel with this remainder, only padding
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
        # Phases that share a launch start at 0 and have as many pixels as the first one.
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
            # No window position reaches these pixels; one position far outside gives them the epilogue of 0.
            axes = [replace(a, count=1, start=FAR, advance=0) for a in axes]
            seen = ((0,),) * len(seen)
        launches.append(
            Launch(tuple(axes), channels // stage.groups, (view,), (0,), (), extents,
                   out[0] if phases > 1 else extents[0], seen, _phase(_strides(y), p, apart),
                   tuple(_phase(r[1:], p, apart) for r in reads))
        )  # fmt: skip
    return launches


def _phase_axis(phase: int, window: int, stride: int, dilation: int, padding: int, distance: int) -> Axis | None:
    """The window positions that output pixels q * stride + phase read, and their input pixels q + start + ..."""
    met = [s for s in range(window) if (phase + padding - s * dilation) % stride == 0]
    if not met:
        return None
    apart = met[1] - met[0] if len(met) > 1 else 1
    start = (phase + padding - met[0] * dilation) // stride
    step = -(apart * dilation) // stride if len(met) > 1 else 0
    return Axis(len(met), start, step, 1, 0, met[0], apart, distance)


def _shared(phases: int, window: int, stride: int, dilation: int, padding: int):
    """The axis of all phases together: the input pixels that any phase reads, and for each phase the positions in w."""
    positions = {
        (p, (p + padding - s * dilation) // stride): s
        for p in range(phases)
        for s in range(window)
        if (p + padding - s * dilation) % stride == 0
    }
    places = sorted({place for _, place in positions})
    advance = gcd(*(b - a for a, b in pairwise(places))) or 1
    places = range(places[0], places[-1] + 1, advance)
    seen = tuple(tuple(positions.get((p, place), -1) for place in places) for p in range(phases))
    return Axis(len(places), places[0], advance, 1, 0, 0, 0, 1), seen


def _phase(strides: tuple[int, ...], p: tuple[int, int, int], apart: tuple[int, int, int]) -> tuple[int, ...]:
    """A tensor over the output for one phase: the offset of its first element, and the strides of its pixels."""
    b, c, *space = strides
    return (sum(o * s for o, s in zip(p, space, strict=True)), b, c,
            *(s * n for s, n in zip(space, apart, strict=True)))  # fmt: skip


__all__ = ["Axis", "Launch", "launches_of", "read_strides", "three"]
