"""Where x and w lie in shared memory for a row-major convolution on the tensor cores, and in which order K is walked.

A tap of a window is an offset into the halo box, so x is never copied into another order. An instruction takes K in
fours ("quads"): lane % 4 chooses one of a quad, so a quad's four elements must lie one constant step apart, and every
other offset is a constant of the text. They lie along channels (a step of one channel's plane) or along the window's
columns (a step of the dilation), whichever leaves fewer lanes without an element. Those read their neighbour's, which
meets a weight of zero.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from dsl.rules.image import Image

WORD = 4  # bytes


@dataclass(frozen=True)
class Quad:
    """Four of K: `offset` of the first in the box (words), its (channel of the step, td, th, tw), how many are real."""

    offset: int
    first: tuple[int, int, int, int]
    real: int


@dataclass(frozen=True)
class Layout:
    """`m` filters x (`rows` x `columns`) pixels, `channels` of x a step."""

    image: Image
    m: int
    rows: int
    columns: int
    channels: int

    @property
    def n(self) -> int:
        return self.rows * self.columns

    @property
    def along_columns(self) -> bool:
        by_channels, by_columns = quads(self.image, self.channels)
        return by_columns < by_channels

    @property
    def vector(self) -> int:
        """Elements of one copy into the box."""
        return gcd(4, self.image.size[2])

    @property
    def left(self) -> int:
        """Columns of the box before the first that is needed: copies start at whole vectors."""
        return -self.image.padding[2] % self.vector

    @property
    def inner_rows(self) -> int:
        return (self.rows - 1) * self.image.stride[1] + (self.image.window[1] - 1) * self.image.dilation[1] + 1

    @property
    def pitch(self) -> int:
        """Words from a row of the box to the next."""
        needed = (self.columns - 1) * self.image.stride[2] + (self.image.window[2] - 1) * self.image.dilation[2] + 1
        return -(-(self.left + needed) // self.vector) * self.vector

    @cached_property
    def plane(self) -> int:
        """Words from a channel's part of the box to the next: the least for which a warp's reads meet fewest banks
        twice."""
        least = self.image.window[0] * self.inner_rows * self.pitch
        if self.along_columns:
            return least
        places = range(least, least + 32, self.vector)
        return min(places, key=lambda p: (conflicts(p, self.image.stride[2]), p))

    @property
    def lane_step(self) -> int:
        """Words between a quad's elements."""
        return self.image.dilation[2] if self.along_columns else self.plane

    @cached_property
    def quads(self) -> tuple[Quad, ...]:
        """One step's, whole instructions of them; what fills up the last has no real element."""
        (d, h, w), dilation = self.image.window, self.image.dilation

        def at(c: int, td: int, th: int, tw: int) -> int:
            rows = td * self.inner_rows + th * dilation[1]
            return c * self.plane + rows * self.pitch + tw * dilation[2]

        if self.along_columns:
            firsts = [
                (c, td, th, tw)
                for c in range(self.channels)
                for td in range(d)
                for th in range(h)
                for tw in range(0, w, 4)
            ]
            found = [Quad(at(*f), f, min(4, w - f[3])) for f in firsts]
        else:
            firsts = [
                (c, td, th, tw)
                for td in range(d)
                for th in range(h)
                for tw in range(w)
                for c in range(0, self.channels, 4)
            ]
            found = [Quad(at(*f), f, min(4, self.channels - f[0])) for f in firsts]
        empty = Quad(0, (0, 0, 0, 0), 0)
        return (*found, *[empty] * (-len(found) % self.quads_step))

    @property
    def quads_step(self) -> int:
        """Quads of one instruction."""
        return self.image.step // 4

    @property
    def steps(self) -> int:
        """Instructions along K of one step of channels."""
        return len(self.quads) // self.quads_step

    @property
    def tail(self) -> int:
        """Real elements of a quad that has fewer than four; 4 where none has."""
        return min((q.real for q in self.quads if q.real), default=4)

    @property
    def chunks(self) -> int:
        """Steps of channels."""
        return -(-self.image.channels // self.channels)

    @property
    def box_words(self) -> int:
        return -(-self.channels * self.plane // 4) * 4

    @property
    def weight_words(self) -> int:
        """Of one step of channels: 128 words an instruction and 16 filters, f16 and bf16 two in a word."""
        return self.steps * (self.m // 16) * 128

    @cached_property
    def blocks(self) -> tuple[int, int, int, int, int]:
        """Tiles along filters, columns, rows, depth and images."""
        d, h, w = self.image.out
        return -(-self.image.filters // self.m), -(-w // self.columns), -(-h // self.rows), d, self.image.batch

    @property
    def tiles(self) -> int:
        return prod(self.blocks)


def conflicts(plane: int, stride: int) -> int:
    """How often a warp's read of one word a lane meets its busiest bank: lane / 4 chooses a pixel, lane % 4 a plane."""
    words = {q * plane + g * stride for q in range(4) for g in range(8)}
    return max(Counter(word % 32 for word in words).values())


def quads(image: Image, channels: int) -> tuple[int, int]:
    """Quads of a step along channels, and along the window's columns."""
    d, h, w = image.window
    return -(-channels // 4) * image.taps, channels * d * h * -(-w // 4)
