"""Counts of a window that slides along one axis: its taps inside the tensor, and the elements that they read.

Kernel sizes and lengths come from pasted modules, where an expanded tensor has any number of elements in one. So each
count takes a number of steps that grows with the digits of the sizes, never with the sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import gcd


def floor_sum(count: int, slope: int, start: int, divisor: int) -> int:
    """The sum of (start + i * slope) // divisor over i from 0 to count - 1, by Euclid's algorithm. No argument is
    negative."""
    total = 0
    while count > 0:
        total += slope // divisor * (count * (count - 1) // 2) + start // divisor * count
        slope, start = slope % divisor, start % divisor
        top = slope * count + start  # the same points under the line, counted along the other axis
        count, start, slope, divisor = top // divisor, top % divisor, divisor, slope
    return total


@dataclass(frozen=True)
class Window:
    """`kernel` taps at each of `steps` steps: tap t of step o reads place o * stride + t * dilation - padding of an
    axis of `size` elements, or nothing if that lies outside. Raises ValueError for a stride or dilation below 1."""

    steps: int
    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def __post_init__(self) -> None:
        if self.stride < 1 or self.dilation < 1:
            raise ValueError("a window must move forward")

    def pairs(self) -> int:
        """The pairs of a step and a tap that reads something."""
        return self._inside(0, self.steps, 0, self.kernel)

    def places(self) -> int:
        """The distinct elements that are read.

        Tap t of step o reads what tap t - s of step o + d reads, where s and d are stride and dilation without their
        common divisor. So each place is counted at its lowest tap: below s, or in one of the last d steps.
        """
        common = gcd(self.stride, self.dilation)
        s, d = self.stride // common, self.dilation // common
        late = max(0, self.steps - d)
        return self._inside(0, self.steps, 0, min(s, self.kernel)) + self._inside(late, self.steps, s, self.kernel)

    def reach(self) -> int:
        """The number of steps from the first to the last that reads something."""
        if not self.pairs():
            return 0
        steps = range(self.steps)
        first = bisect_left(steps, True, key=lambda o: self._inside(0, o + 1, 0, self.kernel) > 0)
        last = bisect_left(steps, True, key=lambda o: self._inside(o + 1, self.steps, 0, self.kernel) == 0)
        return last - first + 1

    def _inside(self, step: int, end: int, tap: int, last: int) -> int:
        """The pairs of a step in [step, end) and a tap in [tap, last) that read something."""
        low = self.padding - step * self.stride - tap * self.dilation
        count, taps = end - step, last - tap
        return self._below(count, taps, low + self.size) - self._below(count, taps, low)

    def _below(self, steps: int, taps: int, limit: int) -> int:
        """The pairs of o < steps and t < taps with o * stride + t * dilation < limit."""
        if min(steps, taps, limit) <= 0:
            return 0
        every = min(taps, max(0, (limit - 1 - (steps - 1) * self.stride) // self.dilation + 1))  # taps with all steps
        some = min(taps, (limit - 1) // self.dilation + 1)
        least = limit - 1 - (some - 1) * self.dilation  # that the highest of these taps leaves for steps
        return every * steps + floor_sum(some - every, self.dilation, least, self.stride) + some - every


__all__ = ["Window", "floor_sum"]
