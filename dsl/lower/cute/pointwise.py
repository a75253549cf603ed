"""Element-wise kernels: map, and every stage that computes each element of a result from one element of an operand.

If operand and result are contiguous along the same axis, a thread moves vectors along it, with several in flight. If
they are not (a permute, nchw to nhwc), tiles go through shared memory (tiled_kernel): they are read along the operand's
contiguous axis and written along the result's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dsl.axes import axes_of
from dsl.ir import Expr, Map, Program, Stage, TensorType
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import FLAG, THREADS, element, own_plan, refuse_types, watched_results
from dsl.lower.cute.space import WIDE, Offset, index_function, reach
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.tiled_kernel import add_tiled
from dsl.lower.cute.walk import (
    MOST,
    Output,
    Reading,
    Walk,
    add_launch,
    blocks_of,
    limits_of,
    merged_space,
    read_all,
    read_width,
    rows_of,
    transposed_axis,
    unique,
    value_name,
    vector_of,
    walk_tensors,
)


def plan(program: Program, stage: Map) -> StagePlan:
    types = types_of(program)
    x, shape = types[stage.x.name], stage.type.shape
    rank = len(shape)
    text = Text()
    named = [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, stage.type)]
    results = [(f"{result}_element", expr, Reading(result, t.dtype, t.strides)) for result, expr, t in named]
    outputs, readings = add_elements(text, stage, types, rank, results)
    names = unique([stage.x.name, *(r.tensor for r in readings.values()), *(o.tensor for o, _, _ in outputs)])
    refuse_types(stage, types, names)
    first = sum(s * step for s, step in zip(stage.start or (), x.strides, strict=False))
    x_reading = Reading(stage.x.name, x.dtype, x.strides, first)
    walk = Walk(stage.name, shape, stage.type.memory_order, x_reading, tuple(outputs), readings)
    stored = watched_results(program, stage)
    walk = replace(walk, flag=FLAG, stored=stored) if stored else walk
    note = add_kernel(text, walk)
    kernel = (f"{stage.name}_kernel", walk_tensors(walk), blocks_of(walk))
    add_launch(text, stage.name, [*names, *([FLAG] if stored else [])], [kernel])
    imports = frozenset().union(*(f.imports for _, f, _ in outputs))
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, imports=imports, note=note, watches=bool(stored)
    )


def add_elements(
    text: Text, stage: Stage, types: Mapping[str, TensorType], rank: int, results: Sequence[tuple[str, Expr, Reading]]
) -> tuple[list[Output], dict[str, Reading]]:
    """Add the function of each result's elements: (its name, the expression, where it is written). Returns the outputs
    of a walk, and the other tensors that they read."""
    outputs, readings = [], {}
    for name, expr, written in results:
        function = element(stage, expr, name)
        keys = read_all(function, types, axes_of(stage, rank), rank, readings)
        outputs.append((written, function, keys))
        if not function.plain:
            text.add(function.text, ("", "epilogue"))
            text.gap(2)
    return outputs, readings


def add_kernel(text: Text, walk: Walk) -> str:
    """Add the functions `<name>_at` and `<name>_kernel`. Returns a note on how they move data."""
    merged = merged_space(walk)
    if merged.size > MOST:
        raise Refusal("cute-size", f"{walk.name} has {merged.size:,} elements; a kernel counts {MOST:,}", None)
    axis = transposed_axis(walk, merged)
    if axis is not None:
        return add_tiled(text, walk, merged, axis)
    width = vector_of(walk, merged)
    extents = (*merged.extents[:-1], merged.extents[-1] // width)
    vectors = merged.size // width
    rows = rows_of(walk, vectors, width)

    def offset(label: str, r: Reading) -> Offset:
        s = merged.strides[label]
        return Offset(label, (*s[:-1], s[-1] * width), r.base, r.base + reach(merged.extents, s) >= WIDE)

    places = [("x", walk.x), *((f"r {k}", r) for k, r in walk.readings.items())]
    places += [(f"o{i}", o) for i, (o, _, _) in enumerate(walk.outputs)]
    offsets = [offset(k, r) for k, r in places]
    limits = limits_of(walk, merged)
    last = len(extents) - 1
    short = next((n for a, n in limits if a == last and n % width), width)  # lanes of x that a whole axis has
    limits = [(a, n // width if a == last else n) for a, n in limits if a != last or short == width]
    name = walk.name
    tensors = ", ".join(r.tensor for _, r in places) + (", and whether x has it" if limits else "")
    unit = f"vector of {width}" if width > 1 else "element"
    text.add(
        index_function(
            f"{name}_at", f"Of the {unit} at `index`, in memory's order: its offset in {tensors}.", extents, offsets,
            inside=limits,
        )
    )  # fmt: skip
    text.gap(2)
    several = rows * THREADS
    guard = vectors % several != 0
    index = f"first + row * {THREADS}"
    absent = [*([f"(at[{len(places)}] == 0)"] if limits else []), *([f"({index} >= {vectors})"] if guard else [])]
    sparse = bool(walk.flag and not walk.stored and width < 4 and absent)
    count = f"{vectors:,} {'vectors' if width > 1 else 'elements'}"
    clamped = f"cutlass.min({index}, Uint32({vectors - 1}))" if guard else index
    arguments = ", ".join(f"{t}: cute.Tensor" for t in walk_tensors(walk))
    lines = [
        "@cute.kernel",
        f"def {name}_kernel({arguments}):",
        f'    """{count} of {width}: a thread takes {rows}, all read before the first is written."""'
        if width > 1
        else f'    """{count}: a thread takes {rows}, all read before the first is written."""',
        *([f"    leave_where_set({walk.flag})"] if walk.stops else []),
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
        f"    first = Uint32(block) * {several} + Uint32(thread)",
        "    ready = []",
        *(_first_ones(walk, name, width, vectors) if sparse else []),
        f"    for row in cutlass.range_constexpr({rows}):",
        f"        at = {name}_at({clamped})",
    ]
    reads = []
    for i, (label, r) in enumerate(places[: 1 + len(walk.readings)]):
        how = read_width(merged.strides[label], r, width)
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
    if sparse:
        ends = " | ".join(absent)
        inside = f"{f'({ends})' if len(absent) > 1 else ends} & start[{len(places)}]" if limits else ends
        how = read_width(merged.strides["x"], walk.x, width)[1]
        lines += [f"        if {inside}:", f"            fetch(first_ones, {walk.x.tensor}, start[0]{how})"]
    lines += [
        f"        ready.append((at, {', '.join(reads)}))",
        *([f"    {'wrong = cutlass.Boolean(False)' if width >= 4 else 'most = Uint32(0)'}"] if walk.flag else []),
        f"    for row in cutlass.range_constexpr({rows}):",
        f"        at, {', '.join(value_name(label) for label, _ in places[: 1 + len(walk.readings)])} = ready[row]",
    ]

    def look(values: str) -> str:
        """The line that checks a vector for the guard, or accumulates the maximum of several short vectors."""
        short_one = f"most = greatest(most, {values})"
        return short_one if width < 4 else f"wrong = wrong | out_of_range(greatest(Uint32(0), {values}))"

    if walk.flag and not walk.stored:
        lines.append(f"        {look('x_values')}")
    raw = all(f.plain and o.dtype is walk.x.dtype for o, f, _ in walk.outputs)
    narrow = {label: "0" if merged.strides[label][-1] == 0 or width == 1 else "lane" for label, _ in places}
    for label, _ in places[: 1 + len(walk.readings)] if not raw else []:
        lines.append(f"        {value_name(label)} = lanes({value_name(label)})")
    first_output = 1 + len(walk.readings)
    for i, (o, function, keys) in enumerate(walk.outputs):
        result = "x_values" if raw else f"out{i}" if len(walk.outputs) > 1 else "out"
        if not raw:
            call = function.call(*(f"{value_name(k)}[{narrow[k]}]" for k in ("x", *(f"r {key}" for key in keys))))
            lines += [
                f"        {result} = cute.make_rmem_tensor(({width},), Float32)",
                f"        for lane in cutlass.range_constexpr({width}):",
                f"            {result}[lane] = {call}",
            ]
        if o.tensor in walk.stored:
            lines.append(f"        {look(result)}")
        how = read_width(merged.strides[f"o{i}"], o, width)[1]
        store = f"write({o.tensor}, at[{first_output + i}], {result}{how})"
        lines += [f"        if {index} < {vectors}:", f"            {store}"] if guard else [f"        {store}"]
    if sparse:
        lines.append("    most = greatest(most, first_ones)")
    if walk.flag:
        lines.append(f"    {'raise_where(wrong' if width >= 4 else 'watch(most'}, {walk.flag})")
    text.add("\n".join(lines))
    bits = min(128, width * walk.x.dtype.bits)
    return f"{bits}-bit accesses" if width > 1 else "element by element"


def _first_ones(walk: Walk, name: str, width: int, vectors: int) -> list[str]:
    """Registers for the first elements of x. They count in a warp's chunk where x ends within it: it may have a single
    element there, a weight that is small by chance."""
    return [
        f"    first_ones = cute.make_rmem_tensor(({width},), {walk.x.tensor}.element_type)",
        "    first_ones.fill(0)",
        f"    start = {name}_at(Uint32(thread) % {min(32, vectors)})  # where x ends, these count as well",
    ]
