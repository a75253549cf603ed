"""The phases of a convolution: plain convolutions that together give the result.

A forward convolution has one phase. A transposed convolution of stride s is s convolutions of stride 1 along each axis,
one for each phase of the output: the taps that reach a phase are every s-th, in reverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product

from dsl.ir import Conv, TensorType


@dataclass(frozen=True)
class Phase:
    """A convolution that computes the outputs `origin + step * i`. One number for each axis, outermost first.

    taps, lower, upper   taps of the window, and the padding before and after (negative: a crop)
    first                the last tap in w that a phase of a transposed convolution reads; it reads them in reverse
    packed               offset of its packed filters, in elements
    """

    taps: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    out: tuple[int, ...]
    origin: tuple[int, ...]
    first: tuple[int, ...] = ()
    packed: int = 0
    empty: bool = False  # no tap reaches this phase; its window is one zero

    @property
    def pixels(self) -> int:
        return math.prod(self.out)


def whole_output(stage: Conv, w: TensorType, y: TensorType) -> tuple[Phase, ...]:
    """The one phase of a forward convolution, which is the whole output."""
    return (Phase(w.shape[2:], stage.padding, stage.padding, y.shape[2:], (0,) * stage.spatial),)


def phases_of(
    stage: Conv, x: TensorType, w: TensorType, y: TensorType
) -> tuple[tuple[Phase, ...], tuple[int, ...], tuple[int, ...]]:
    """The phases of a transposed convolution, the step between their outputs and the step between their taps.

    Output o sums x[i] * w[r] over all i, r with o + padding = i * stride + r * dilation. For the phase f = o mod stride
    these are the r with r * dilation = f + padding (mod stride): every (stride / gcd)-th from a first one, r_j. With
    o = f + stride q it follows that i = q + base - j * dilation / gcd: a convolution with reversed taps.
    """
    every = tuple(t // math.gcd(t, d) for t, d in zip(stage.stride, stage.dilation, strict=True))
    return _combined(stage, x, y, [_ways(stage, x, w, y, axis) for axis in range(stage.spatial)]), stage.stride, every


def _ways(stage: Conv, x: TensorType, w: TensorType, y: TensorType, axis: int) -> list[tuple]:
    """For each phase along an axis: the fields of Phase without `packed`."""
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
    """One phase of the image for each combination of phases along its axes; `across`: columns of each filter."""
    inner, at, phases = x.shape[1] // stage.groups, 0, []
    for combination in product(*ways):
        taps, lower, upper, count, f, first, none = zip(*combination, strict=True)
        phases.append(Phase(taps, lower, upper, count, f, first, at, any(none)))
        at += y.shape[1] * across * math.prod(taps) * inner
    return tuple(phases)


def phases_along_w(stage: Conv, x: TensorType, w: TensorType, y: TensorType):
    """The phases of a transposed convolution with all phases along w in one.

    Returns the phases, the distance between the input pixels that such a phase reads, and for each phase along w the
    tap in w of each of these pixels, -1 for none.
    """
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
