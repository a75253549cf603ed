"""Element-wise kernels: map, and everything that gives each element of a result from one element of an operand.

Two shapes. Where operand and result are contiguous along one axis, a thread moves vectors along it, several in flight.
Where they are not (a permute, nchw to nhwc), tiles go through shared memory: read along the operand's contiguous axis,
written along the result's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from dsl.axes import axes_of
from dsl.ir import DType, Map, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import FLAG, SMS, THREADS, Element, element, own_plan, refuse_types, told
from dsl.lower.cute.space import (
    WIDE,
    MergedSpace,
    Offset,
    Space,
    Strides,
    aligned_vector,
    index_function,
    load_strides,
    reach,
)
from dsl.lower.cute.stage import StagePlan, Text, types_of

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


def plan(program: Program, stage: Map) -> StagePlan:
    types = types_of(program)
    x = types[stage.x.name]
    rank = len(x.shape)
    text = Text()
    outputs, readings, names = [], {}, [stage.x.name]
    axes = axes_of(stage, rank)
    for result, expr, t in [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]:
        function = element(stage, expr, f"{result}_element")
        keys = read_all(function, types, axes, rank, readings)
        outputs.append((Reading(result, t.dtype, t.strides), function, keys))
        if not function.plain:
            text.add(function.text, ("", "epilogue"))
            text.gap(2)
    names = unique([stage.x.name, *(r.tensor for r in readings.values()), *(o.tensor for o, _, _ in outputs)])
    refuse_types(stage, types, names)
    x_reading = Reading(stage.x.name, x.dtype, x.strides)
    walk = Walk(stage.name, x.shape, stage.type.memory_order, x_reading, tuple(outputs), readings)
    stored = told(program, stage)
    walk = replace(walk, flag=FLAG, stored=stored) if stored else walk
    note = add_kernel(text, walk)
    kernel = (f"{stage.name}_kernel", walk_tensors(walk), blocks_of(walk))
    add_launch(text, stage.name, [*names, *([FLAG] if stored else [])], [kernel])
    imports = frozenset().union(*(f.imports for _, f, _ in outputs))
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, imports=imports, note=note, watches=bool(stored)
    )


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


# ---- along one contiguous axis --------------------------------------------------------------------------------


def _merged(walk: Walk) -> MergedSpace:
    strides = {"x": walk.x.strides}
    strides |= {f"o{i}": o.strides for i, (o, _, _) in enumerate(walk.outputs)}
    strides |= {f"r {k}": r.strides for k, r in walk.readings.items()}
    space = Space(walk.extents, strides).ordered(walk.order)
    place = {axis: i for i, axis in enumerate(walk.order)}
    merged = space.merged(alone={place[a] for a in walk.inside})
    if not merged.extents:  # a single element
        return MergedSpace((1,), {k: (1 if k[0] in "xo" else 0,) for k in strides}, (None,), ((0,),))
    return merged


def _limits(walk: Walk, merged: MergedSpace) -> list[tuple[int, int]]:
    place = {walk.order[m]: i for i, members in enumerate(merged.members) for m in members}
    return [(place[a], limit) for a, limit in walk.inside.items()]


def _transposed(walk: Walk, merged: MergedSpace) -> int | None:
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


def _vector(walk: Walk, merged: MergedSpace) -> int:
    extent = merged.extents[-1]
    if _whole(walk, merged):
        return extent
    for axis, limit in _limits(walk, merged):
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


def _rows(vectors: int, wide: bool) -> int:
    """Vectors that a thread takes: enough loads in flight, unless threads run out."""
    rows = 2 if wide else 4
    while rows > 1 and vectors < 2 * SMS * THREADS * rows:
        rows //= 2
    return rows


def blocks_of(walk: Walk) -> str:
    """The launch's grid and block."""
    merged = _merged(walk)
    axis = _transposed(walk, merged)
    if axis is None:
        vectors = merged.size // _vector(walk, merged)
        rows = _rows(vectors, len(walk.readings) > 2)
        return f"grid=({-(-vectors // (THREADS * rows))}, 1, 1), block=({THREADS}, 1, 1)"
    count = 1
    for i, extent in enumerate(merged.extents):
        count *= -(-extent // TILE) if i in (axis, len(merged.extents) - 1) else extent
    return f"grid=({count}, 1, 1), block=({THREADS}, 1, 1)"


def add_kernel(text: Text, walk: Walk) -> str:
    """Adds `<name>_at` and `<name>_kernel`; returns a note on how they move data."""
    merged = _merged(walk)
    if merged.size > MOST:
        raise Refusal("cute-size", f"{walk.name} has {merged.size:,} elements; a kernel counts {MOST:,}", None)
    axis = _transposed(walk, merged)
    if axis is not None:
        return _add_tiled(text, walk, merged, axis)
    width = _vector(walk, merged)
    extents = (*merged.extents[:-1], merged.extents[-1] // width)
    vectors = merged.size // width
    rows = _rows(vectors, len(walk.readings) > 2)

    def offset(label: str, r: Reading) -> Offset:
        s = merged.strides[label]
        return Offset(label, (*s[:-1], s[-1] * width), r.base, r.base + reach(merged.extents, s) >= WIDE)

    places = [("x", walk.x), *((f"r {k}", r) for k, r in walk.readings.items())]
    places += [(f"o{i}", o) for i, (o, _, _) in enumerate(walk.outputs)]
    offsets = [offset(k, r) for k, r in places]
    limits = _limits(walk, merged)
    last = len(extents) - 1
    short = next((n for a, n in limits if a == last and n % width), width)  # lanes of x that a whole axis has
    limits = [(a, n // width if a == last else n) for a, n in limits if a != last or short == width]
    name = walk.name
    tensors = ", ".join(r.tensor for _, r in places) + (", and whether x has it" if limits else "")
    what = f"vector of {width}" if width > 1 else "element"
    text.add(
        index_function(
            f"{name}_at", f"Of the {what} at `index`, in memory's order: its offset in {tensors}.", extents, offsets,
            inside=limits,
        )
    )  # fmt: skip
    text.gap(2)
    several = rows * THREADS
    count = f"{vectors:,} {'vectors' if width > 1 else 'elements'}"
    guard = vectors % several != 0
    index = f"first + row * {THREADS}"
    clamped = f"cutlass.min({index}, Uint32({vectors - 1}))" if guard else index
    arguments = ", ".join(f"{t}: cute.Tensor" for t in walk_tensors(walk))
    lines = [
        "@cute.kernel",
        f"def {name}_kernel({arguments}):",
        f'    """{count} of {width}: a thread takes {rows}, all read before the first is written."""'
        if width > 1
        else f'    """{count}: a thread takes {rows}, all read before the first is written."""',
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
        f"    first = Uint32(block) * {several} + Uint32(thread)",
        "    ready = []",
        f"    for row in cutlass.range_constexpr({rows}):",
        f"        at = {name}_at({clamped})",
    ]
    reads = []
    for i, (label, r) in enumerate(places[: 1 + len(walk.readings)]):
        how = _how(merged.strides[label], r, width)
        if label == "x" and (limits or short < width):
            indent = "            " if limits else "        "
            step = merged.strides["x"][-1]
            one = f"at[{i}] + lane" + (f" * {step}" if step != 1 else "")
            lines += [
                f"        x_values = cute.make_rmem_tensor(({how[0]},), {r.tensor}.element_type)",
                "        x_values.fill(0)",
                *([f"        if at[{len(places)}]:"] if limits else []),
            ]
            if short < width:
                lines.append(f"{indent}for lane in cutlass.range_constexpr({short}):")
                lines.append(f"{indent}    x_values[lane] = read({r.tensor}, {one}, 1)[0]")
            else:
                lines.append(f"{indent}fetch(x_values, {r.tensor}, at[{i}]{how[1]})")
            reads.append("x_values")
        else:
            reads.append(f"read({r.tensor}, at[{i}], {how[0]}{how[1]})")
    lines += [
        f"        ready.append((at, {', '.join(reads)}))",
        *(["    most = Uint32(0)"] if walk.flag and width < 4 else []),
        f"    for row in cutlass.range_constexpr({rows}):",
        f"        at, {', '.join(_value(label) for label, _ in places[: 1 + len(walk.readings)])} = ready[row]",
    ]

    def look(values: str) -> str:
        """The line that tells the flag of a vector, or keeps its greatest of several short ones."""
        short_one = f"most = greatest(most, {values})"
        return short_one if width < 4 else f"watch(greatest(Uint32(0), {values}), {walk.flag})"

    if walk.flag and not walk.stored:
        lines.append(f"        {look('x_values')}")
    raw = all(f.plain and o.dtype is walk.x.dtype for o, f, _ in walk.outputs)
    narrow = {label: "0" if merged.strides[label][-1] == 0 or width == 1 else "lane" for label, _ in places}
    for label, _ in places[: 1 + len(walk.readings)] if not raw else []:
        lines.append(f"        {_value(label)} = lanes({_value(label)})")
    first_output = 1 + len(walk.readings)
    for i, (o, function, keys) in enumerate(walk.outputs):
        result = "x_values" if raw else f"out{i}" if len(walk.outputs) > 1 else "out"
        if not raw:
            call = function.call(*(f"{_value(k)}[{narrow[k]}]" for k in ("x", *(f"r {key}" for key in keys))))
            lines += [
                f"        {result} = cute.make_rmem_tensor(({width},), Float32)",
                f"        for lane in cutlass.range_constexpr({width}):",
                f"            {result}[lane] = {call}",
            ]
        if o.tensor in walk.stored:
            lines.append(f"        {look(result)}")
        how = _how(merged.strides[f"o{i}"], o, width)[1]
        store = f"write({o.tensor}, at[{first_output + i}], {result}{how})"
        lines += [f"        if {index} < {vectors}:", f"            {store}"] if guard else [f"        {store}"]
    if walk.flag and width < 4:
        lines.append(f"    watch(most, {walk.flag})")
    text.add("\n".join(lines))
    bits = min(128, width * walk.x.dtype.bits)
    return f"{bits}-bit accesses" if width > 1 else "element by element"


def _value(label: str) -> str:
    return "x_values" if label == "x" else f"{label[2:]}_values"


def _how(strides: Strides, r: Reading, width: int) -> tuple[int, str]:
    """How a vector of the walk is read from one tensor: elements, and the text of their distance."""
    if width == 1 or strides[-1] == 0:
        return 1, ""
    unit = min(width, 128 // r.dtype.bits)
    if strides[-1] == 1 and r.base % unit == 0 and all(s % unit == 0 for s in strides[:-1]):
        return width, ""
    return width, f", {strides[-1]}" if strides[-1] != 1 else ", whole=False"


# ---- through shared memory ------------------------------------------------------------------------------------


def _add_tiled(text: Text, walk: Walk, merged: MergedSpace, p: int) -> str:
    q = len(merged.extents) - 1
    name, xs = walk.name, merged.strides["x"]
    vp = aligned_vector(merged.extents[p], [(walk.x.base, *xs[:p], *xs[p + 1 :], 1)], [walk.x.dtype.bits])
    outs = [merged.strides[f"o{i}"] for i in range(len(walk.outputs))]
    vq = aligned_vector(
        merged.extents[q],
        [(o.base, *s[:-1], 1) for (o, _, _), s in zip(walk.outputs, outs, strict=True)],
        [o.dtype.bits for o, _, _ in walk.outputs],
    )
    limits = dict(_limits(walk, merged))
    while vp > 1 and limits.get(p, 0) % vp:
        vp //= 2
    vp, vq = min(vp, 8), min(vq, 8)
    extents = tuple(-(-e // TILE) if i in (p, q) else e for i, e in enumerate(merged.extents))
    places = [("x", walk.x), *((f"r {k}", r) for k, r in walk.readings.items())]
    places += [(f"o{i}", o) for i, (o, _, _) in enumerate(walk.outputs)]
    offsets = []
    for label, r in places:
        s = merged.strides[label]
        rest = tuple(0 if i in (p, q) else v for i, v in enumerate(s))
        offsets.append(Offset(label, rest, r.base, r.base + reach(merged.extents, s) >= WIDE))
    offsets.append(Offset("p", tuple(TILE if i == p else 0 for i in range(q + 1))))
    offsets.append(Offset("q", tuple(TILE if i == q else 0 for i in range(q + 1))))
    rest_limits = [(a, n) for a, n in limits.items() if a not in (p, q)]
    tensors = ", ".join(r.tensor for _, r in places)
    text.add(
        index_function(
            f"{name}_tile",
            f"Of a tile: the offset of its plane in {tensors}, and where it begins along p and q.",
            extents, offsets, "tile", rest_limits,
        )
    )  # fmt: skip
    text.gap(2)
    raw = all(f.plain and o.dtype is walk.x.dtype for o, f, _ in walk.outputs) and walk.x.dtype is DType.I32
    across_p, across_q = TILE // vp, TILE // vq
    steps_p, steps_q = TILE * TILE // (vp * THREADS), TILE * TILE // (vq * THREADS)
    arguments = ", ".join(f"{t}: cute.Tensor" for t in walk_tensors(walk))
    np_, nq = len(places), len(places) + 1
    big_p, big_q = merged.extents[p], merged.extents[q]

    def spot(i: int, label: str, r: Reading) -> str:
        s = merged.strides[label]
        wide = r.base + reach(merged.extents, s) >= WIDE
        terms = [f"at[{i}]"]
        for letter, axis in (("p", p), ("q", q)):
            if s[axis]:
                coordinate = f"Int64({letter})" if wide else letter
                terms.append(coordinate if s[axis] == 1 else f"{coordinate} * {s[axis]}")
        return " + ".join(terms)

    inside = [f"(p < {min(big_p, limits.get(p, big_p))})", f"(q < {min(big_q, limits.get(q, big_q))})"]
    inside += [f"at[{nq + 1}]"] if rest_limits else []
    element_type = "Int32" if raw else "Float32"
    lines = [
        "@cute.kernel",
        f"def {name}_kernel({arguments}):",
        f'    """Tiles of {TILE} x {TILE} through shared memory: {walk.x.tensor} is contiguous along p,'
        f' {walk.outputs[-1][0].tensor} along q."""',
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
        "    thread = Uint32(thread)",
        f"    layout = cute.make_layout(({TILE}, {TILE}), stride=({TILE + 1}, 1))  # [q, p]; rows over all banks",
        f"    tile = cutlass.utils.SmemAllocator().allocate_tensor({element_type}, layout, byte_alignment=16)",
        f"    at = {name}_tile(Uint32(block))",
        "    ready = []",
        f"    for step in cutlass.range_constexpr({steps_p}):",
        f"        p = at[{np_}] + thread % {across_p} * {vp}",
        f"        q = at[{nq}] + thread // {across_p} + step * {THREADS // across_p}",
        f"        values = cute.make_rmem_tensor(({vp},), {walk.x.tensor}.element_type)",
        "        values.fill(0)",
        f"        if {' & '.join(inside)}:",
        f"            fetch(values, {walk.x.tensor}, {spot(0, 'x', walk.x)})",
        "        ready.append(values)",
        *(["    most = Uint32(0)"] if walk.flag else []),
        f"    for step in cutlass.range_constexpr({steps_p}):",
        *(["        most = greatest(most, ready[step])"] if walk.flag and not walk.stored else []),
        "        values = " + ("ready[step]" if raw else "lanes(ready[step])"),
        f"        for lane in cutlass.range_constexpr({vp}):",
        f"            tile[thread // {across_p} + step * {THREADS // across_p}, thread % {across_p} * {vp} + lane]"
        " = values[lane]",
        *([f"    watch(most, {walk.flag})"] if walk.flag and not walk.stored else []),
        "    cute.arch.barrier()",
        f"    for step in cutlass.range_constexpr({steps_q}):",
        f"        p = at[{np_}] + thread // {across_q} + step * {THREADS // across_q}",
        f"        q = at[{nq}] + thread % {across_q} * {vq}",
        f"        if (p < {big_p}) & (q < {big_q}):",
    ]
    for i, (k, r) in enumerate(walk.readings.items(), 1):
        s = merged.strides[f"r {k}"]
        count, how = _how(s, r, vq)
        lines.append(f"            {k}_values = lanes(read({r.tensor}, {spot(i, f'r {k}', r)}, {count}{how}))")
    for i, (o, function, keys) in enumerate(walk.outputs):
        values = [f"tile[thread % {across_q} * {vq} + lane, thread // {across_q} + step * {THREADS // across_q}]"]
        values += [f"{k}_values[{'lane' if merged.strides[f'r {k}'][q] and vq > 1 else '0'}]" for k in keys]
        lines += [
            f"            out = cute.make_rmem_tensor(({vq},), {element_type})",
            f"            for lane in cutlass.range_constexpr({vq}):",
            f"                out[lane] = {function.call(*values)}",
            *(["            most = greatest(most, out)"] if o.tensor in walk.stored else []),
            f"            write({o.tensor}, {spot(1 + len(walk.readings) + i, f'o{i}', o)}, out"
            f"{_how(merged.strides[f'o{i}'], o, vq)[1]})",
        ]
    lines += [f"    watch(most, {walk.flag})"] if walk.stored else []
    text.add("\n".join(lines))
    return f"tiles of {TILE} x {TILE}"
