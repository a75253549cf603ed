"""Windows of the spatial axes, for pools and direct convolutions: the element of x at a window position."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lower.cute.space import WIDE, reach


@dataclass(frozen=True)
class Windows:
    """The windows of a stage; tuples have one number for each spatial axis, outermost first.

    `extents` and `strides` are those of x; `wide`: offsets in x need 64 bits.
    """

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
        """The windows for the types of x and y."""
        n = len(size)
        fill = lambda values, value: tuple(values) if values else (value,) * n  # noqa: E731
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
        """Return True if a window may reach outside x along an axis."""
        last = (self.results[axis] - 1) * self.step[axis] + (self.size[axis] - 1) * self.dilation[axis]
        return self.padding[axis] > 0 or last >= self.extents[axis]

    def locate(
        self, results: list[str], places: list[str], indent: str, over: int | None = None
    ) -> tuple[list[str], str, bool]:
        """The lines of an element's coordinates in x, the text of its offset, and True if `inside` is defined.

        The coordinates `c<axis>` count from the first element of the padding. The offset is clamped to x, and `inside`
        is a boolean that tells if the element exists. `over`: an axis along which results past the last one are
        computed too; their values are not used.
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
            lines.append(f"{indent}{self.inside(tests)}")
        return lines, " + ".join(terms) or "0", bool(tests)

    def inside(self, tests: list[str]) -> str:
        """The line that makes one boolean of tests of coordinates. Where a tensor has one result along the axes, its
        coordinates are numbers when the kernel is compiled, and `select_` takes only what a thread computes."""
        if all(r == 1 for r in self.results):
            tests = ["(thread >= 0)", *tests]
        return f"inside = {' & '.join(tests)}"
