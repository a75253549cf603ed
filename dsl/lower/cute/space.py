"""Iteration spaces: the axes of a kernel, the strides of each tensor along them, and the text of index functions.

Axes are in order from the slowest to the fastest. Neighbouring axes that are contiguous in every tensor are merged, so
that the text has few divisions. Offsets are in elements, in 64 bits if a tensor needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from dsl.ir import Load, TensorType

WIDE = 2**31  # elements; larger tensors have 64-bit offsets
Strides = tuple[int, ...]


def load_strides(t: TensorType, load: Load, axes: Mapping[str, tuple[int, ...]], rank: int) -> Strides:
    """The strides of `name[axes]` along the stage's axes, 0 for broadcast axes."""
    out, own = [0] * rank, list(zip(t.shape, t.strides, strict=True))
    if not load.axes:
        return tuple(out)
    for name in load.axes:
        for position in axes[name]:
            size, stride = own.pop(0)
            out[position] = stride if size > 1 else 0
    return tuple(out)


@dataclass(frozen=True)
class Space:
    """The `extents` of the axes, slowest first, and the `strides` of each tensor along them, by the caller's labels."""

    extents: tuple[int, ...]
    strides: Mapping[str, Strides]

    @property
    def size(self) -> int:
        return prod(self.extents)

    def ordered(self, order: Sequence[int]) -> Space:
        """The same space with its axes in another order."""
        return Space(
            tuple(self.extents[i] for i in order), {k: tuple(s[i] for i in order) for k, s in self.strides.items()}
        )

    def merged(self, tag: Callable[[int], object] = lambda axis: None, alone: Iterable[int] = ()) -> MergedSpace:
        """The space without axes of length 1, and with contiguous neighbours merged.

        Only axes with the same `tag` are merged, and none in `alone`.
        """
        extents: list[int] = []
        strides: dict[str, list[int]] = {k: [] for k in self.strides}
        tags: list[object] = []
        members: list[tuple[int, ...]] = []
        alone = set(alone)
        for axis, extent in enumerate(self.extents):
            if extent == 1 and axis not in alone:
                continue
            joins = (
                extents
                and tags[-1] == tag(axis)
                and axis not in alone
                and members[-1][-1] not in alone
                and all(strides[k][-1] == s[axis] * extent for k, s in self.strides.items())
            )
            if joins:
                extents[-1] *= extent
                members[-1] += (axis,)
                for k, s in self.strides.items():
                    strides[k][-1] = s[axis]
                continue
            extents.append(extent)
            tags.append(tag(axis))
            members.append((axis,))
            for k, s in self.strides.items():
                strides[k].append(s[axis])
        return MergedSpace(tuple(extents), {k: tuple(s) for k, s in strides.items()}, tuple(tags), tuple(members))


@dataclass(frozen=True)
class MergedSpace(Space):
    """A space after merging: the `tags` of its axes, and the original axes of each (`members`)."""

    tags: tuple[object, ...] = ()
    members: tuple[tuple[int, ...], ...] = ()

    def part(self, tag: object) -> MergedSpace:
        """The space of the axes with one tag."""
        keep = [i for i, t in enumerate(self.tags) if t == tag]
        return MergedSpace(
            tuple(self.extents[i] for i in keep),
            {k: tuple(s[i] for i in keep) for k, s in self.strides.items()},
            tuple(tag for _ in keep),
            tuple(self.members[i] for i in keep),
        )


def aligned_vector(extent: int, strides: Sequence[Strides], bits: Sequence[int], most: int = 16) -> int:
    """The number of elements of a vector along the fastest axis of length `extent`.

    Every tensor (given by its strides along all axes, 1 along the fastest) must be aligned to its vectors or to 16
    bytes. The narrowest type gets 16 bytes from one access; a type twice as wide needs two.
    """
    width = min(most, 128 // min(bits))
    while width > 1:
        fits = extent % width == 0
        for steps, b in zip(strides, bits, strict=True):
            unit = min(width, 128 // b)
            fits = fits and all(s % unit == 0 for s in steps[:-1])
        if fits:
            return width
        width //= 2
    return 1


def reach(extents: Sequence[int], strides: Strides) -> int:
    """The largest offset, in elements."""
    return sum((e - 1) * s for e, s in zip(extents, strides, strict=True))


@dataclass(frozen=True)
class Offset:
    """One value of an index function: `base` + the sum of coordinate times stride; `wide`: in 64 bits."""

    label: str
    strides: Strides
    base: int = 0
    wide: bool = False


def index_function(
    name: str,
    doc: str,
    extents: Sequence[int],
    offsets: Sequence[Offset],
    argument: str = "index",
    inside: Sequence[tuple[int, int]] = (),
) -> str:
    """The text of `name(index)`, which returns a tuple of the offsets in order.

    With `inside`, (axis, limit) pairs, the last value is a boolean: every such coordinate is below its limit.
    """
    inside = [(a, limit) for a, limit in inside if extents[a] > 1]
    used = [
        extent > 1 and (any(o.strides[i] for o in offsets) or any(a == i for a, _ in inside))
        for i, extent in enumerate(extents)
    ]
    lines, below = [], 1
    for i in reversed(range(len(extents))):
        if used[i]:
            text = argument if below == 1 else f"{argument} // {below}"
            if prod(extents[:i]) > 1:
                text += f" % {extents[i]}"
            lines.append(f"i{i} = {text}")
        below *= extents[i]
    values = [_sum(o, extents) for o in offsets]
    if inside:
        tests = " and ".join(f"(i{a} < {limit})" for a, limit in inside)
        values.append(tests.replace(" and ", " & "))
    returned = ", ".join(values) + ("," if len(values) == 1 else "")
    body = "".join(f"    {line}\n" for line in reversed(lines))
    return f'def {name}({argument}):\n    """{doc}"""\n{body}    return {returned}\n'


def _sum(o: Offset, extents: Sequence[int]) -> str:
    terms = [str(o.base)] if o.base else []
    for i, s in enumerate(o.strides):
        if s and extents[i] > 1:
            coordinate = f"Int64(i{i})" if o.wide else f"i{i}"
            terms.append(coordinate if s == 1 else f"{coordinate} * {s}")
    return " + ".join(terms) or "0"
