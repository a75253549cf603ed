"""The text of a GEMM stage: its epilogue function, its configuration, its operands."""

from __future__ import annotations

from dsl.ir import Gemm, Program
from dsl.lower.cute import parts
from dsl.lower.cute.gemm import plan_gemm
from dsl.lower.cute.stage import Part, StagePlan, Text

_WIDTH = 118


def plan(program: Program, stage: Gemm) -> StagePlan:
    """Raises Refusal where quack cannot."""
    found = plan_gemm(program, stage)
    name, c, out = found.name, stage.config, Text()
    first = out.next
    if found.inputs:
        pins = ", ".join(f'"{i.argument}": {i.op}' for i in found.inputs)
        head = f"@gemm_epilogue(ops={{{pins}}})"
        if len(head) > _WIDTH:
            pins = "".join(f'\n        "{i.argument}": {i.op},' for i in found.inputs)
            head = f"@gemm_epilogue(\n    ops={{{pins}\n    }}\n)"
    else:
        head = "@gemm_epilogue()"
    out.add(head)
    arguments = ", ".join(["acc", *(i.argument for i in found.inputs)])
    out.add(f"def {name}_epilogue({arguments}):")
    for note in found.body.notes:
        out.add(f"    # {note}")
    for line in found.body.lines:
        out.add(f"    {line}")
    out.add(f'    return {{"D": {found.body.value}}}')
    out.span(("", "epilogue"), first)
    out.gap(2)
    tile, cluster = c.tile, c.cluster
    shape = f"{'' if found.l == 1 else f'{found.l} x '}{found.m} x {found.n} x {found.k}"
    out.add(f"# {shape}, f32 accumulators" + (f"; {found.remark}" if found.remark else ""))
    out.add(f"{name.upper()} = {'GemmStage' if found.splits == 1 else 'SplitKStage'}(")
    out.add(f"    {name}_epilogue,")
    out.add(f"    tile_M={tile[0]}, tile_N={tile[1]}, tile_K={tile[2]},", ("", "tile"))
    out.add(f"    cluster_M={cluster[0]}, cluster_N={cluster[1]},", ("", "cluster"))
    meaning = "a tile for each of two warp groups" if c.schedule == "pingpong" else "the warp groups share a tile"
    out.add(f"    pingpong={c.schedule == 'pingpong'},  # {meaning}", ("", "schedule"))
    line = "    persistent=True," if found.splits == 1 else f"    split_k={found.splits},"
    out.add(line, ("", "scheduler"))
    out.add(f"    max_swizzle_size={c.swizzle},  # tiles grouped for reuse in L2; not compiled in", ("", "swizzle"))
    order = f"{stage.b.name} lies as (k, n)" if found.b_kn else f"{stage.b.name} lies as (n, k)"
    out.add(f"    b_kn={found.b_kn},  # {order}")
    out.add(f")  # stages: {c.stages} by our count; quack takes as many as shared memory holds", ("", "stages"))
    operands = ", ".join(f'"{i.argument}": {i.view}' for i in found.inputs)
    return StagePlan(
        out,
        f"{found.a}, {found.b}, {found.d}, {{{operands}}}",
        tuple(dict.fromkeys([stage.a.name, stage.b.name, name, *(i.tensor for i in found.inputs)])),
        (Part(parts.GEMM, 10), *([Part(parts.SPLIT_K, 11)] if found.splits > 1 else [])),
        _imports(found),
        reads=("compute", "store"),
    )


def _imports(found) -> frozenset[tuple[str, str]]:
    wanted = {("quack.epilogue.frontend", "gemm_epilogue"), ("quack.gemm_runtime.host", "run_gemm_epi_plan")}
    if found.splits > 1:
        wanted |= {("quack.gemm", "_split_k_buffers"), ("quack.gemm_config", "SplitKMode")}
    for one in found.inputs:
        wanted |= set(one.imports)
    return frozenset(wanted | found.body.imports)
