"""Attention in f32 on the CUDA cores, for the rescue pipeline of a guarded program (dsl.guard).

A warp computes one row of queries: key after key, with the maximum and the sum of the row so far. This slow fallback
takes any size, order and number of heads. It runs only if values are out of f16's range.
"""

from __future__ import annotations

from math import prod

from dsl.ir import Attention, DType, Program
from dsl.lower import Refusal
from dsl.lower.cute.attention.flash import parts_of
from dsl.lower.cute.generated_kernels import own_plan
from dsl.lower.cute.space import WIDE
from dsl.lower.cute.stage import StagePlan, Text, types_of
from dsl.lower.cute.walk import add_launch, unique

ROWS, LANES = 8, 32  # warps of a block, a row of queries each


def plan(program: Program, stage: Attention) -> StagePlan:
    """The plan of an attention of f32 tensors. Raises Refusal for other elements and for tensors that are too large."""
    types = types_of(program)
    names = unique([*(o.name for o in stage.operands), stage.name])
    if {types[n].dtype for n in names} != {DType.F32}:
        raise Refusal("cute-compute", f"{stage.name} is no attention of f32 tensors", "leave guard out")
    if any(prod(types[n].shape) >= WIDE for n in names):
        raise Refusal("cute-size", f"a tensor of {stage.name} has {WIDE:,} elements or more", "leave guard out")
    text = Text()
    rows = _kernel(text, stage, {n: types[n].shape for n in names}, names)
    grid = f"grid=({-(-rows // ROWS)}, 1, 1), block=({ROWS * LANES}, 1, 1)"
    add_launch(text, stage.name, names, [(f"{stage.name}_kernel", names, grid)])
    return own_plan(program, stage, text, f"{stage.name}_launch", names)


def _kernel(text: Text, stage: Attention, shapes: dict[str, tuple[int, ...]], names: list[str]) -> int:
    """Add the kernel, whose blocks are those of the rows of queries; returns their number."""
    q, k, v, o = parts_of(stage, shapes)
    (b, m, h, d), (_, n, g, e) = q[2][0], v[2][0]
    steps, values = -(-d // LANES), -(-e // LANES)

    def place(part: tuple, head: str, row: str) -> str:
        _, first, (_, (sb, sm, sh, _)) = part
        terms = [f"batch * {sb}", f"{head} * {sh}", f"{row} * {sm}"]
        return " + ".join([*([str(first)] if first else []), *terms])

    def inside(size: int, line: str, indent: str) -> list[str]:
        """A line for a lane's elements; guarded where the last ones are past the head's end."""
        return [f"{indent}{line}"] if size % LANES == 0 else [f"{indent}if at < {size}:", f"{indent}    {line}"]

    group, name = f"head // {h // g}" if h != g else "head", stage.name
    lines = [
        "@cute.kernel",
        f"def {name}_kernel({', '.join(f'{n}: cute.Tensor' for n in names)}):",
        f'    """{b * h * m:,} rows of queries in f32, a warp each: its keys one after another."""',
        "    thread, _, _ = cute.arch.thread_idx()",
        "    block, _, _ = cute.arch.block_idx()",
        "    thread, block = Uint32(thread), Uint32(block)",
        f"    row, lane = block * {ROWS} + thread // {LANES}, thread % {LANES}",
        f"    if row < {b * h * m}:",
        f"        near, head, batch = row % {m}, row // {m} % {h}, row // {m * h}",
        f"        first = {place(q, 'head', 'near')}",
        f"        queries = cute.make_rmem_tensor(({steps},), Float32)  # the row's queries",
        "        queries.fill(0.0)",
        f"        for part in cutlass.range_constexpr({steps}):",
        f"            at = lane + part * {LANES}",
        *inside(d, f"queries[part] = read({q[0]}, first + at, 1)[0]", " " * 12),
        f"        sums = cute.make_rmem_tensor(({values},), Float32)",
        "        sums.fill(0.0)",
        "        most, total = -Float32.inf, Float32(0.0)",
        f"        for key in cutlass.range({'near + 1' if stage.causal else n}, unroll=1):",
        f"            first = {place(k, group, 'Uint32(key)')}",
        "            value = Float32(0.0)",
        f"            for part in cutlass.range_constexpr({steps}):",
        f"                at = lane + part * {LANES}",
        "                one = cute.make_rmem_tensor((1,), Float32)",
        "                one.fill(0.0)",
        *inside(d, f"fetch(one, {k[0]}, first + at)", " " * 16),
        "                value = value + queries[part] * one[0]",
        "            for step in cutlass.range_constexpr(5):",
        "                value = value + cute.arch.shuffle_sync_bfly(value, offset=1 << step)",
        f"            value = value * {stage.scale!r}",
        "            other = cute.arch.fmax(most, value, nan=True)",
        "            far, weight = cute.math.exp(most - other), cute.math.exp(value - other)",
        "            total = total * far + weight",
        f"            first = {place(v, group, 'Uint32(key)')}",
        f"            for part in cutlass.range_constexpr({values}):",
        f"                at = lane + part * {LANES}",
        "                one = cute.make_rmem_tensor((1,), Float32)",
        "                one.fill(0.0)",
        *inside(e, f"fetch(one, {v[0]}, first + at)", " " * 16),
        "                sums[part] = sums[part] * far + weight * one[0]",
        "            most = other",
        f"        first = {place(o, 'head', 'near')}",
        f"        for part in cutlass.range_constexpr({values}):",
        f"            at = lane + part * {LANES}",
        "            one = cute.make_rmem_tensor((1,), Float32)",
        "            one[0] = sums[part] / total",
        *inside(e, f"write({o[0]}, first + at, one)", " " * 12),
    ]
    text.add("\n".join(lines))
    return b * h * m


__all__ = ["plan"]
