"""What kernels over windows of the spatial axes share: which element of x a result and a place in the window meet."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lower.cute.space import WIDE, reach


@dataclass(frozen=True)
class Windows:
    """Axis by axis, outermost first. `extents`, `strides`: of x in space; `total`: the greatest offset in x."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    results: tuple[int, ...]
    wide: bool

    @classmethod
    def of(cls, x, y, size, step, padding, dilation) -> Windows:
        """Of the types of x and y."""
        n = len(size)
        fill = lambda given, value: tuple(given) if given else (value,) * n  # noqa: E731
        strides = x.strides[2:]
        return cls(
            x.shape[2:], strides, tuple(size), fill(step, 1), fill(padding, 0), fill(dilation, 1), y.shape[2:],
            reach(x.shape, x.strides) >= WIDE,
        )  # fmt: skip

    @property
    def count(self) -> int:
        n = 1
        for s in self.size:
            n *= s
        return n

    def checked(self, axis: int) -> bool:
        """Whether a window may leave x along an axis."""
        last = (self.results[axis] - 1) * self.step[axis] + (self.size[axis] - 1) * self.dilation[axis]
        return self.padding[axis] > 0 or last >= self.extents[axis]

    def locate(
        self, results: list[str], places: list[str], indent: str, over: int | None = None
    ) -> tuple[list[str], str, bool]:
        """Lines that name each coordinate in x (`c<axis>`, counted from the padding's first element), the text of
        their offset cut to x, and whether `inside` (a boolean) is defined: some axis may be outside.

        `over`: an axis along which results past the last are asked for too; what they get does not matter.
        """
        lines, terms, tests = [], [], []
        for axis, (result, place) in enumerate(zip(results, places, strict=True)):
            step, apart, pad = self.step[axis], self.dilation[axis], self.padding[axis]
            text = result if step == 1 else f"{result} * {step}"
            if place != "0" and self.size[axis] > 1:
                text += f" + {place}" if apart == 1 else f" + {place} * {apart}"
            name = f"c{axis}"
            lines.append(f"{indent}{name} = {text}")
            if self.checked(axis):
                low, high = pad, self.extents[axis] + pad
                tests.append(f"({name} < {high})" if low == 0 else f"({name} >= {low}) & ({name} < {high})")
            if self.strides[axis]:
                cut = name
                if self.checked(axis):
                    low, high = pad, self.extents[axis] + pad
                    cut = f"cutlass.min({name}, Uint32({high - 1}))"
                    if low:
                        cut = f"(cutlass.max({cut}, Uint32({low})) - {low})"
                elif axis == over:
                    cut = f"cutlass.min({name}, Uint32({self.extents[axis] - 1}))"
                cut = f"Int64({cut})" if self.wide else cut
                terms.append(cut if self.strides[axis] == 1 else f"{cut} * {self.strides[axis]}")
        if tests:
            lines.append(f"{indent}inside = {' & '.join(tests)}")
        return lines, " + ".join(terms) or "0", bool(tests)
