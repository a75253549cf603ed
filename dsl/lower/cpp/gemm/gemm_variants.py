"""Variants of a product: grouped products, and products fused with a norm of their rows."""

from __future__ import annotations

import dataclasses

from dsl.ir import Gemm, GroupedGemm, Program, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.gemm.gemm_3x import GemmPlan, plan_gemm
from dsl.lower.cpp.gemm.gemm_epilogue import Output, plan_output
from dsl.lower.cpp.gemm.gemm_operands import checked, matrix
from dsl.lower.cpp.gemm.gemm_schedule import whole_groups
from dsl.lower.cpp.gemm.normalized import NormalizedGemm, plan_rows
from dsl.lower.cpp.names import identifier


def plan_normalized(program: Program, stage: NormalizedGemm, types: dict[str, TensorType]) -> GemmPlan:
    """The plan of a product fused with a norm."""
    plain = Gemm(stage.name, stage.a, stage.b, stage.config, store=stage.store, type=stage.type)
    plan = plan_gemm(program, plain, types)
    return dataclasses.replace(plan, name=identifier(stage.product), into=plan.name, rows=plan_rows(stage, types))


def plan_grouped(program: Program, stage: GroupedGemm, types: dict[str, TensorType]) -> GemmPlan:
    """The plan of a grouped product. Raises Refusal with what to write instead.

    A group may start at any row, so a small kernel computes a table of tiles from the sizes. The launch has the largest
    number of tiles that any sizes need, and the unused ones are empty. Rows are stored one by one, because a tile may
    end inside the next group.
    """
    operand, element = checked(stage, types)
    config, name = stage.config, identifier(stage.name)
    (tokens, k), (groups, *_) = types[stage.a.name].shape, types[stage.b.name].shape
    n = types[stage.b.name].shape[1 if stage.b.transposed else 2]
    if stage.a.transposed or (element == "float" and not stage.b.transposed):
        side = stage.a if stage.a.transposed else stage.b
        raise Refusal(
            "cpp-grouped-layout",
            f"a grouped product in {config.compute.value} reads {side.name} along k, its non-contiguous axis here",
            f"store {side.name} with k last",
        )
    if config.cluster[0] != 1:
        raise Refusal(
            "cpp-grouped-cluster",
            f"blocks of a cluster of {config.cluster[0]} along m share one matrix, and their rows may be of two groups",
            f"write cluster 1x{config.cluster[1]}x1",
        )
    if config.scheduler.kind != "persistent":
        raise Refusal("cpp-scheduler", "a grouped product is scheduled persistent", "write scheduler persistent")
    a = matrix(stage.a.name, types, tokens, k, True, "RowMajor", "ColumnMajor", 1)
    b = matrix(stage.b.name, types, n, k, stage.b.transposed, "ColumnMajor", "RowMajor", groups)
    tree, _, store = plan_output(stage, types, Output(1, tokens, n, direct=True), False)
    m = (tokens // config.tile[0] + min(groups, tokens)) * config.tile[0]
    return GemmPlan(
        name, 1, m, n, k, a, b, element, 128 // operand.bits, store, config.tile, config.cluster, config.schedule,
        False, config.stages, tree, whole_groups(m, n, config.tile, config.cluster, config.swizzle or 1), 1,
        stored=False, sizes=identifier(stage.sizes.name), groups=groups, tokens=tokens,
    )  # fmt: skip
