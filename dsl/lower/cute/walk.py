"""The walk of an element-wise kernel over its result: the tensors that it reads and writes, vectors, tiles and grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from dsl.ir import DType, TensorType
from dsl.lower.cute.generated_kernels import SMS, THREADS, Element
from dsl.lower.cute.space import MergedSpace, Space, Strides, aligned_vector, load_strides
from dsl.lower.cute.stage import Text

TILE = 64  # edge of a transposed tile
WHOLE = 8  # elements of an axis that a thread takes whole
SHORTEST = 8  # an axis shorter than this is not worth a transposed tile
MOST = 2**32 - 1


@dataclass(frozen=True)
class Reading:
    """A tensor read (or written) over the walk's axes."""

    tensor: str
    dtype: DType
    strides: Strides
    base: int = 0


@dataclass(frozen=True)
class Walk:
    """One element-wise kernel.

    extents   of the result's axes; `order`: from the slowest to the contiguous one of the result.
    x         what `acc` is read from; where a coordinate is not below its limit in `inside`, acc is 0.
    outputs   each result with the function that gives its elements: arguments acc, then those of `readings` named.
    readings  every other tensor, by the name that the functions' calls give it.
    flag      a tensor that is told where magnitudes are outside of f16's range (dsl.guard); none where it is "".
    stored    the results whose magnitudes those are; none: they are x's.
    """

    name: str
    extents: tuple[int, ...]
    order: tuple[int, ...]
    x: Reading
    outputs: tuple[tuple[Reading, Element, tuple[str, ...]], ...]
    readings: Mapping[str, Reading] = field(default_factory=dict)
    inside: Mapping[int, int] = field(default_factory=dict)
    flag: str = ""
    stored: tuple[str, ...] = ()


def unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def read_all(
    function: Element,
    types: Mapping[str, TensorType],
    axes: Mapping[str, tuple[int, ...]],
    rank: int,
    readings: dict[str, Reading],
) -> tuple[str, ...]:
    """Adds what a function reads to `readings`; the keys, in the order of its arguments."""
    keys = []
    for load in function.loads:
        t = types[load.name]
        found = Reading(load.name, t.dtype, load_strides(t, load, axes, rank))
        key = load.name + "".join(f"_{a}" for a in load.axes)
        readings[key] = found
        keys.append(key)
    return tuple(keys)


def walk_tensors(walk: Walk) -> list[str]:
    """What the kernel takes, in order."""
    flag = [walk.flag] if walk.flag else []
    outputs = (o.tensor for o, _, _ in walk.outputs)
    return unique([walk.x.tensor, *(r.tensor for r in walk.readings.values()), *outputs, *flag])


def add_launch(text: Text, name: str, tensors: Sequence[str], kernels: Sequence[tuple[str, list[str], str]]) -> None:
    """`<name>_launch`: its kernels (function, arguments, grid text) one after another on the stream."""
    arguments = ", ".join(f"{t}: cute.Tensor" for t in tensors)
    text.gap(2)
    text.add(f"@cute.jit\ndef {name}_launch({arguments}, stream: CUstream):")
    for kernel, takes, grid in kernels:
        text.add(f"    {kernel}({', '.join(takes)}).launch({grid}, stream=stream)")


def merged_space(walk: Walk) -> MergedSpace:
    strides = {"x": walk.x.strides}
    strides |= {f"o{i}": o.strides for i, (o, _, _) in enumerate(walk.outputs)}
    strides |= {f"r {k}": r.strides for k, r in walk.readings.items()}
    space = Space(walk.extents, strides).ordered(walk.order)
    place = {axis: i for i, axis in enumerate(walk.order)}
    merged = space.merged(alone={place[a] for a in walk.inside})
    if not merged.extents:  # a single element
        return MergedSpace((1,), {k: (1 if k[0] in "xo" else 0,) for k in strides}, (None,), ((0,),))
    return merged


def limits_of(walk: Walk, merged: MergedSpace) -> list[tuple[int, int]]:
    place = {walk.order[m]: i for i, members in enumerate(merged.members) for m in members}
    return [(place[a], limit) for a, limit in walk.inside.items()]


def transposed_axis(walk: Walk, merged: MergedSpace) -> int | None:
    """The axis along which x is contiguous, where that is not the result's and both are long enough for tiles."""
    last = len(merged.extents) - 1
    if merged.strides["x"][last] in (0, 1) or merged.extents[last] < SHORTEST:
        return None
    if _whole(walk, merged) and merged.strides["x"][last - 1] == 1:
        return None  # a thread takes the axis whole, and its neighbours beside it: a tile would be mostly empty
    for axis in range(last):
        if merged.strides["x"][axis] == 1 and merged.extents[axis] >= SHORTEST:
            return axis
    return None


def _whole(walk: Walk, merged: MergedSpace) -> bool:
    """Whether one vector is all of the result's contiguous axis; then a limit on that axis is one of its lanes."""
    extent = merged.extents[-1]
    return len(merged.extents) > 1 and extent <= WHOLE and _aligned(walk, merged, extent) == extent


def vector_of(walk: Walk, merged: MergedSpace) -> int:
    extent = merged.extents[-1]
    if _whole(walk, merged):
        return extent
    for axis, limit in limits_of(walk, merged):
        if axis == len(merged.extents) - 1:
            extent = gcd(extent, limit)
    return _aligned(walk, merged, extent)


def _aligned(walk: Walk, merged: MergedSpace, extent: int) -> int:
    """The longest vector along the contiguous axis, of which `extent` is a multiple, that every tensor can move."""
    chosen = [("x", walk.x)] + [(f"o{i}", o) for i, (o, _, _) in enumerate(walk.outputs)]
    along = [(k, r) for k, r in chosen if merged.strides[k][-1] == 1]
    if not along:
        return 1
    steps = [(*(s for s in merged.strides[k]),) for k, _ in along]
    bases = [(r.base, *s[:-1], 1) for (_, r), s in zip(along, steps, strict=True)]
    return aligned_vector(extent, bases, [r.dtype.bits for _, r in along])


def rows_of(vectors: int, wide: bool) -> int:
    """Vectors that a thread takes: enough loads in flight, unless threads run out."""
    rows = 2 if wide else 4
    while rows > 1 and vectors < 2 * SMS * THREADS * rows:
        rows //= 2
    return rows


def blocks_of(walk: Walk) -> str:
    """The launch's grid and block."""
    merged = merged_space(walk)
    axis = transposed_axis(walk, merged)
    if axis is None:
        vectors = merged.size // vector_of(walk, merged)
        rows = rows_of(vectors, len(walk.readings) > 2)
        return f"grid=({-(-vectors // (THREADS * rows))}, 1, 1), block=({THREADS}, 1, 1)"
    count = 1
    for i, extent in enumerate(merged.extents):
        count *= -(-extent // TILE) if i in (axis, len(merged.extents) - 1) else extent
    return f"grid=({count}, 1, 1), block=({THREADS}, 1, 1)"


def value_name(label: str) -> str:
    return "x_values" if label == "x" else f"{label[2:]}_values"


def read_width(strides: Strides, r: Reading, width: int) -> tuple[int, str]:
    """How a vector of the walk is read from one tensor: elements, and the text of their distance."""
    if width == 1 or strides[-1] == 0:
        return 1, ""
    unit = min(width, 128 // r.dtype.bits)
    if strides[-1] == 1 and r.base % unit == 0 and all(s % unit == 0 for s in strides[:-1]):
        return width, ""
    return width, f", {strides[-1]}" if strides[-1] != 1 else ", whole=False"
