"""Pooling: the maximum or mean of windows. A thread computes a result or a vector of channels; global pools reduce.

Where windows overlap along h and w is innermost, a thread computes results below each other: what several of their
windows have in common is read once (28 elements in place of 64 for four windows of 4 x 4), and neighbours of a warp
still read neighbours along w.
"""

from __future__ import annotations

from math import prod

from dsl.axes import axes_of
from dsl.ir import Pool, Program
from dsl.lower import Refusal
from dsl.lower.cute.generated_kernels import SMS, THREADS, element, own_plan, refuse_types
from dsl.lower.cute.reduce.reduce_kernels import add_reduction, plain_element
from dsl.lower.cute.reduce.reduce_writer import Reduction, Result
from dsl.lower.cute.space import WIDE, Offset, aligned_vector, index_function, reach
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import MOST, Reading, add_launch, read_all, unique
from dsl.lower.cute.window import Windows

UNROLLED = 128  # elements of a window times the vector


def plan(program: Program, stage: Pool) -> StagePlan:
    types = types_of(program)
    x, y, rank = types[stage.x.name], stage.type, len(types[stage.x.name].shape)
    text, readings, outputs = Text(), {}, []
    axes = axes_of(stage, rank)
    for name, expr, t in [(a.name, a.expr, a.type) for a in stage.also] + [(stage.name, stage.epilogue, y)]:
        function = element(stage, expr, f"{name}_element")
        keys = read_all(function, types, axes, rank, readings)
        outputs.append((Reading(name, t.dtype, t.strides), function, keys))
        if not function.plain:
            text.add(function.text, ("", "epilogue"))
            text.gap(2)
    names = unique([stage.x.name, *(r.tensor for r in readings.values()), *(o.tensor for o, _, _ in outputs)])
    refuse_types(stage, types, names)
    if stage.window is None:
        return _global(program, stage, text, readings, outputs, names)
    windows = Windows.of(x, y, stage.window, stage.stride or stage.window, stage.padding, stage.dilation)
    if prod(y.shape) > MOST:
        raise Refusal("cute-size", f"{stage.name} has {y.elements:,} elements; a kernel counts {MOST:,}", None)
    inner = y.memory_order[-1]
    width = 1
    if inner == 1 and x.memory_order[-1] == 1:
        every = [(*(s for i, s in enumerate(t.strides) if i != 1), 1) for t in (x, y)]
        width = min(8, aligned_vector(y.shape[1], every, [x.dtype.bits, y.dtype.bits]))
    while width > 1 and windows.size[-1] * width > UNROLLED:
        width //= 2
    order = y.memory_order
    overlap = rank >= 4 and windows.dilation[-2] == 1 and windows.step[-2] < windows.size[-2]
    many = prod(y.shape) // width
    rows = 4 if many >= 8 * SMS * THREADS else 1
    while rows > 1 and rows * width * windows.count > UNROLLED:
        rows //= 2
    down = rank - 2 if overlap and rows > 1 and inner == x.memory_order[-1] == rank - 1 else None  # the axis of `rows`
    extents = tuple(-(-y.shape[a] // rows) if a == down else y.shape[a] // (width if a == 1 else 1) for a in order)
    vectors = prod(extents)
    fixed = [0 if a >= 2 else x.strides[a] for a in range(rank)]
    places = [("x", Reading("", x.dtype, tuple(fixed)))]
    places += list(readings.items())
    places += [(f"o{i}", o) for i, (o, _, _) in enumerate(outputs)]
    offsets = []
    for label, r in places:
        s = tuple(r.strides[a] * (width if a == 1 else rows if a == down else 1) for a in order)
        wide = windows.wide if label == "x" else reach(y.shape, r.strides) >= WIDE
        offsets.append(Offset(label, s, 0, wide))
    for axis in range(2, rank):
        offsets.append(Offset("c", tuple((rows if a == down else 1) if a == axis else 0 for a in order)))
    result_names = ", ".join([stage.x.name, *readings, *(o.tensor for o, _, _ in outputs)])
    text.add(
        index_function(
            f"{stage.name}_at", f"Of result `index`: the offset of its channel in {result_names}, its place in space.",
            extents, offsets,
        )
    )  # fmt: skip
    text.gap(2)
    if down is None:
        lines, each = _kernel(stage, windows, width, rows, vectors, places, outputs, names), rows
    else:
        lines, each = _blocks(stage, windows, rows, vectors, places, outputs, names), 1
    text.add("\n".join(lines))
    blocks = -(-vectors // (THREADS * each))
    grid = f"grid=({blocks}, 1, 1), block=({THREADS}, 1, 1)"
    add_launch(text, stage.name, names, [(f"{stage.name}_kernel", names, grid)])
    imports = frozenset().union(*(f.imports for _, f, _ in outputs)) | {("cutlass", "select_")}
    return own_plan(program, stage, text, f"{stage.name}_launch", names, imports=imports)


def _kernel(stage, windows: Windows, width, rows, vectors, places, outputs, names) -> list[str]:
    name, biggest = stage.name, stage.op == "max"
    neutral = "-Float32.inf" if biggest else "0.0"
    guard = vectors % (rows * THREADS) != 0
    n = len(windows.size)
    at = len(places)
    results = [f"at[{at + i}]" for i in range(n)]
    loops = windows.count * width > UNROLLED
    outer = windows.count // windows.size[-1]
    spots, below = [], 1
    for axis in reversed(range(n)):  # a place in the window from its number
        size = windows.size[axis]
        one = f"place // {below}" if below > 1 else "place"
        spots.insert(0, "0" if size == 1 else one if below * size == windows.count else f"{one} % {size}")
        below *= size
    step = "cute.arch.fmax(value[j], found[j], nan=True)" if biggest else "value[j] + found[j]"
    lines = [
        *_head(name, names, f"{vectors:,} results{f' of {width}' if width > 1 else ''}: a thread takes {rows}."),
        f"    first = Uint32(block) * {rows * THREADS} + Uint32(thread)",
        "    ready = []",
        f"    for row in cutlass.range_constexpr({rows}):",
        f"        index = first + row * {THREADS}",
        f"        at = {name}_at(" + (f"cutlass.min(index, Uint32({vectors - 1})))" if guard else "index)"),
        f"        value = cute.make_rmem_tensor(({width},), Float32)",
        f"        value.fill({neutral})",
    ]
    if loops:
        lines.append(f"        for outer in cutlass.range({outer}, unroll=1):")
        lines.append(f"            for last in cutlass.range_constexpr({windows.size[-1]}):")
        lines.append(f"                place = Uint32(outer) * {windows.size[-1]} + last")
        indent = " " * 16
    else:
        lines.append(f"        for place in cutlass.range_constexpr({windows.count}):")
        indent = " " * 12
    more, offset, tested = windows.locate(results, spots, indent)
    lines += more
    lines.append(f"{indent}found = lanes(read({stage.x.name}, at[0] + {offset}, {width}))")
    lines.append(f"{indent}for j in cutlass.range_constexpr({width}):")
    if tested:
        lines.append(f"{indent}    one = Float32(select_(inside, found[j], Float32({neutral})))")
        step = step.replace("found[j]", "one")
    lines.append(f"{indent}    value[j] = {step}")
    if not biggest:
        lines += [
            f"        for j in cutlass.range_constexpr({width}):",
            f"            value[j] = value[j] * {1.0 / windows.count!r}",
        ]
    lines += [
        "        ready.append((index, at, value))",
        f"    for row in cutlass.range_constexpr({rows}):",
        "        index, at, value = ready[row]",
    ]
    keys = _keys(places, outputs)
    for i, key in enumerate(keys, 1):
        r = places[i][1]
        across = r.strides[1] if width > 1 else 0
        count = width if across else 1
        unit = min(width, 128 // r.dtype.bits)
        whole = across == 1 and all(s % unit == 0 for a, s in enumerate(r.strides) if a != 1)
        how = "" if count == 1 or whole else ", whole=False" if across == 1 else f", {across}"
        lines.append(f"        {key}_values = lanes(read({r.tensor}, at[{i}], {count}{how}))")
    for i, (o, function, needed) in enumerate(outputs):
        picks = []
        for key in needed:
            r = dict(places)[key]
            picks.append(f"{key}_values[{'j' if width > 1 and r.strides[1] else '0'}]")
        across = o.strides[1] if width > 1 else 1
        how = "" if across == 1 else f", {across}"
        indent = "        "
        if guard:
            lines.append(f"        if index < {vectors}:")
            indent = "            "
        lines += [
            f"{indent}out = cute.make_rmem_tensor(({width},), Float32)",
            f"{indent}for j in cutlass.range_constexpr({width}):",
            f"{indent}    out[j] = {function.call('value[j]', *picks)}",
            f"{indent}write({o.tensor}, at[{1 + len(keys) + i}], out{how})",
        ]
    return lines


def _head(name, names, words) -> list[str]:
    """The first lines of the kernel: its place among the threads."""
    return [
        "@cute.kernel",
        f"def {name}_kernel({', '.join(f'{t}: cute.Tensor' for t in names)}):",
        f'    """{words}"""',
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
    ]


def _keys(places, outputs) -> list[str]:
    """The labels of what the epilogue reads: `places` are x, these, and the outputs."""
    return [label for label, _ in places[1 : len(places) - len(outputs)]]


def _blocks(stage, windows: Windows, rows, vectors, places, outputs, names) -> list[str]:
    """A thread takes `rows` results below each other."""
    name, biggest, n, at = stage.name, stage.op == "max", len(windows.size), len(places)
    neutral = "-Float32.inf" if biggest else "0.0"
    guard, height, below = vectors % THREADS != 0, windows.results[-2], n - 2
    reach_ = (rows - 1) * windows.step[-2] + windows.size[-2]
    step = "cute.arch.fmax(value[row], one, nan=True)" if biggest else "value[row] + one"
    outer, spots = prod(windows.size[:-2]), ["line", "last"]
    if n == 3:
        spots.insert(0, "place" if outer > 1 else "0")
    lines = [
        *_head(name, names, f"{vectors:,} blocks of {rows} results below each other: a thread takes 1."),
        f"    index = Uint32(block) * {THREADS} + Uint32(thread)",
        f"    at = {name}_at(" + (f"cutlass.min(index, Uint32({vectors - 1})))" if guard else "index)"),
        f"    value = cute.make_rmem_tensor(({rows},), Float32)",
        f"    value.fill({neutral})",
    ]
    indent = "    "
    if n == 3 and outer > 1:
        lines.append(f"{indent}for place in cutlass.range_constexpr({outer}):")
        indent += "    "
    lines.append(f"{indent}for line in cutlass.range_constexpr({reach_}):  # of x, below the first one")
    lines.append(f"{indent}    for last in cutlass.range_constexpr({windows.size[-1]}):")
    indent += "        "
    more, offset, tested = windows.locate([f"at[{at + i}]" for i in range(n)], spots, indent, over=below)
    lines += [*more, f"{indent}one = lanes(read({stage.x.name}, at[0] + {offset}, 1))[0]"]
    if tested:
        lines.append(f"{indent}one = Float32(select_(inside, one, Float32({neutral})))")
    lines += [
        f"{indent}for row in cutlass.range_constexpr({rows}):",
        f"{indent}    if cutlass.const_expr(0 <= line - row * {windows.step[-2]} < {windows.size[-2]}):",
        f"{indent}        value[row] = {step}",
    ]
    keys = _keys(places, outputs)
    lines.append(f"    for row in cutlass.range_constexpr({rows}):")
    tests = [f"index < {vectors}"] * guard + [f"at[{at + below}] + row < {height}"] * (height % rows != 0)
    indent = "        "
    if tests:
        lines.append(f"{indent}if {' & '.join(f'({t})' for t in tests)}:")
        indent += "    "
    for i, key in enumerate(keys, 1):
        r = places[i][1]
        move = f" + row * {r.strides[-2]}" if r.strides[-2] else ""
        lines.append(f"{indent}{key}_values = lanes(read({r.tensor}, at[{i}]{move}, 1))")
    scale = "" if biggest else f" * {1.0 / windows.count!r}"
    for i, (o, function, needed) in enumerate(outputs):
        picks = [f"{key}_values[0]" for key in needed]
        lines += [
            f"{indent}out = cute.make_rmem_tensor((1,), Float32)",
            f"{indent}out[0] = {function.call(f'value[row]{scale}', *picks)}",
            f"{indent}write({o.tensor}, at[{1 + len(keys) + i}] + row * {o.strides[-2]}, out)",
        ]
    return lines


def _global(program, stage: Pool, text: Text, readings, outputs, names) -> StagePlan:
    x = types_of(program)[stage.x.name]
    rank = len(x.shape)
    reduced = frozenset(range(2, rank))
    clear = lambda s: tuple(0 if a in reduced else v for a, v in enumerate(s))  # noqa: E731
    readings = {k: Reading(r.tensor, r.dtype, clear(r.strides)) for k, r in readings.items()}
    value = "total[0]" if stage.op == "max" else f"total[0] * {1.0 / prod(x.shape[2:])!r}"
    results = tuple(
        Result(value, Reading(o.tensor, o.dtype, clear(o.strides)), function, keys) for o, function, keys in outputs
    )
    job = Reduction(
        stage.name, x.shape, x.memory_order, reduced, Reading(stage.x.name, x.dtype, x.strides), plain_element(), (),
        "Max" if stage.op == "max" else "Sum", results, readings,
    )  # fmt: skip
    kernels = add_reduction(text, job)
    add_launch(text, stage.name, [*names, *(f"{stage.name}_{s.suffix}" for s in kernels.scratch)], kernels.launches)
    imports = frozenset().union(*(f.imports for _, f, _ in outputs)) | {("cutlass", "select_")}
    return own_plan(
        program, stage, text, f"{stage.name}_launch", names, kernels.scratch, imports, [kernels.part], kernels.note
    )
