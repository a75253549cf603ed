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
WHOLE = 8  # an axis of up to this length is one vector of a thread
SHORTEST = 8  # a shorter axis is not worth a transposed tile
MOST = 2**32 - 1


@dataclass(frozen=True)
class Reading:
    """A tensor that is read or written, with its strides along the walk's axes."""

    tensor: str
    dtype: DType
    strides: Strides
    base: int = 0


Output = tuple[Reading, Element, tuple[str, ...]]  # a result, the function of its elements, keys of what it reads


@dataclass(frozen=True)
class Walk:
    """One element-wise kernel.

    extents   of the result's axes; `order`: these axes from the slowest to the contiguous one of the result.
    x         the tensor of `acc`. acc is 0 if a coordinate is not below its limit in `inside`.
    outputs   each result with the function of its elements and the keys in `readings` of its arguments after acc.
    readings  the other tensors by key.
    flag      the guard's flag, set if a magnitude is out of f16's range (dsl.guard); "" without a guard.
    stored    the results whose magnitudes are checked; if empty, those of x are.
    stops     blocks that begin when the flag is set do nothing.
    """

    name: str
    extents: tuple[int, ...]
    order: tuple[int, ...]
    x: Reading
    outputs: tuple[Output, ...]
    readings: Mapping[str, Reading] = field(default_factory=dict)
    inside: Mapping[int, int] = field(default_factory=dict)
    flag: str = ""
    stored: tuple[str, ...] = ()
    stops: bool = False


def unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def read_all(
    function: Element,
    types: Mapping[str, TensorType],
    axes: Mapping[str, tuple[int, ...]],
    rank: int,
    readings: dict[str, Reading],
) -> tuple[str, ...]:
    """Add the tensors that a function reads to `readings`. Returns their keys in the order of its arguments."""
    keys = []
    for load in function.loads:
        t = types[load.name]
        first = sum((s or 0) * step for s, step in zip(load.starts, t.strides, strict=False))
        reading = Reading(load.name, t.dtype, load_strides(t, load, axes, rank), first)
        key = "_".join((load.name, *(p.replace(" + ", "_") for p in load.places)))
        readings[key] = reading
        keys.append(key)
    return tuple(keys)


def walk_tensors(walk: Walk) -> list[str]:
    """The arguments of the kernel, in order."""
    flag = [walk.flag] if walk.flag else []
    outputs = (o.tensor for o, _, _ in walk.outputs)
    return unique([walk.x.tensor, *(r.tensor for r in walk.readings.values()), *outputs, *flag])


def add_launch(text: Text, name: str, tensors: Sequence[str], kernels: Sequence[tuple[str, list[str], str]]) -> None:
    """Add `<name>_launch`, which launches the kernels (function, arguments, grid text) in order on the stream."""
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
    """The axis along which x is contiguous, if it is not the result's and both are long enough for tiles, else None."""
    last = len(merged.extents) - 1
    if merged.strides["x"][last] in (0, 1) or merged.extents[last] < SHORTEST:
        return None
    if _whole(walk, merged) and merged.strides["x"][last - 1] == 1:
        return None  # one vector is the whole axis, so a tile would be mostly empty
    for axis in range(last):
        if merged.strides["x"][axis] == 1 and merged.extents[axis] >= SHORTEST:
            return axis
    return None


def _whole(walk: Walk, merged: MergedSpace) -> bool:
    """Return True if one vector is the result's whole contiguous axis; a limit on that axis is then a lane."""
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
    """The longest vector along the contiguous axis that divides `extent` and that every tensor can move."""
    chosen = [("x", walk.x)] + [(f"o{i}", o) for i, (o, _, _) in enumerate(walk.outputs)]
    along = [(k, r) for k, r in chosen if merged.strides[k][-1] == 1]
    if not along:
        return 1
    steps = [(*(s for s in merged.strides[k]),) for k, _ in along]
    bases = [(r.base, *s[:-1], 1) for (_, r), s in zip(along, steps, strict=True)]
    return aligned_vector(extent, bases, [r.dtype.bits for _, r in along])


def rows_of(walk: Walk, vectors: int, width: int) -> int:
    """Vectors of a thread: enough loads in flight, but fewer if there are too few threads. Of 16 bytes one is best: to
    read and write 6.4 GB takes an H200 3.01 ms, with two 3.12, with four 3.15."""
    rows = 2 if len(walk.readings) > 2 else 4
    rows = 1 if width * walk.x.dtype.bits >= 128 and not walk.flag else rows
    while rows > 1 and vectors < 2 * SMS * THREADS * rows:
        rows //= 2
    return rows


def blocks_of(walk: Walk) -> str:
    """The launch's grid and block."""
    merged = merged_space(walk)
    axis = transposed_axis(walk, merged)
    if axis is None:
        width = vector_of(walk, merged)
        vectors = merged.size // width
        rows = rows_of(walk, vectors, width)
        return f"grid=({-(-vectors // (THREADS * rows))}, 1, 1), block=({THREADS}, 1, 1)"
    count = 1
    for i, extent in enumerate(merged.extents):
        count *= -(-extent // TILE) if i in (axis, len(merged.extents) - 1) else extent
    return f"grid=({count}, 1, 1), block=({THREADS}, 1, 1)"


def value_name(label: str) -> str:
    return "x_values" if label == "x" else f"{label[2:]}_values"


def read_width(strides: Strides, r: Reading, width: int) -> tuple[int, str]:
    """How a vector is read from one tensor: the number of elements, and the text of the stride argument."""
    if width == 1 or strides[-1] == 0:
        return 1, ""
    unit = min(width, 128 // r.dtype.bits)
    if strides[-1] == 1 and r.base % unit == 0 and all(s % unit == 0 for s in strides[:-1]):
        return width, ""
    return width, f", {strides[-1]}" if strides[-1] != 1 else ", whole=False"
