"""The element-wise kernel that goes through shared memory: x is contiguous along another axis than the result."""

from __future__ import annotations

from dsl.ir import DType
from dsl.lower.cute.generated_kernels import THREADS
from dsl.lower.cute.space import WIDE, MergedSpace, Offset, aligned_vector, index_function, reach
from dsl.lower.cute.stage import Text
from dsl.lower.cute.walk import TILE, Reading, Walk, limits_of, read_width, walk_tensors


def add_tiled(text: Text, walk: Walk, merged: MergedSpace, p: int) -> str:
    q = len(merged.extents) - 1
    name, xs = walk.name, merged.strides["x"]
    vp = aligned_vector(merged.extents[p], [(walk.x.base, *xs[:p], *xs[p + 1 :], 1)], [walk.x.dtype.bits])
    outs = [merged.strides[f"o{i}"] for i in range(len(walk.outputs))]
    vq = aligned_vector(
        merged.extents[q],
        [(o.base, *s[:-1], 1) for (o, _, _), s in zip(walk.outputs, outs, strict=True)],
        [o.dtype.bits for o, _, _ in walk.outputs],
    )
    limits = dict(limits_of(walk, merged))
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
        *([f"    leave_where_set({walk.flag})"] if walk.stops else []),
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
        count, how = read_width(s, r, vq)
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
            f"{read_width(merged.strides[f'o{i}'], o, vq)[1]})",
        ]
    lines += [f"    watch(most, {walk.flag})"] if walk.stored else []
    text.add("\n".join(lines))
    return f"tiles of {TILE} x {TILE}"
