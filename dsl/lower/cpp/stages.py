"""The planner of each kind of stage, and the fields of every plan.

A planner is `plan(program, stage, types) -> Plan`, or raises Refusal. Its template writes one namespace `stage_<name>`
with `struct Operands` (pointers, in the order of `tensors`) and four functions:

    int facts(char* text, size_t size, char const* before, char const* after)
    size_t workspace(Device const&, int const* launch)                     bytes that `run` may overwrite
    int run(Device const&, Operands const&, void* workspace, cudaStream_t, int const* launch)

Kernels are `extern "C"` and named `<ns>_stage_<name>`, or `<ns>_<part>_<name>` if a stage has several.
"""

from __future__ import annotations

from typing import Protocol

from dsl.ir import (
    NHWC,
    Concat,
    Conv,
    DType,
    Gemm,
    GroupedGemm,
    Map,
    Normalize,
    Pool,
    Program,
    Recurrent,
    Reduce,
    Scan,
    Stage,
    TensorType,
    Transform,
)
from dsl.lower import Refusal
from dsl.lower.cpp.conv.conv_plan import plan_conv
from dsl.lower.cpp.gemm.gemm_2x import plan_gemm_2x
from dsl.lower.cpp.gemm.gemm_3x import plan_gemm
from dsl.lower.cpp.gemm.gemm_variants import plan_grouped, plan_normalized
from dsl.lower.cpp.gemm.normalized import NormalizedGemm
from dsl.lower.cpp.generated.concat import plan_concat
from dsl.lower.cpp.generated.direct import plan_direct
from dsl.lower.cpp.generated.mapping import plan_map, plan_transform
from dsl.lower.cpp.generated.normalize import plan_normalize
from dsl.lower.cpp.generated.pool import plan_pool
from dsl.lower.cpp.generated.recurrent import plan_recurrent
from dsl.lower.cpp.generated.reduce import plan_reduce
from dsl.lower.cpp.generated.rowmajor import plan_rowmajor
from dsl.lower.cpp.generated.scan import plan_scan
from dsl.rules.problem import is_rowmajor


class Plan(Protocol):
    """The fields of a plan that emit.py and program.cu.j2 read. Others are only for the planner's template."""

    name: str
    kind: str  # for the facts
    template: str  # file in templates/
    tensors: tuple[str, ...]  # names, in the order of the template's Operands
    functions: tuple[str, ...]  # of dsl.lower.cpp.functions
    headers: tuple[str, ...]  # files to include; a program without a collective stage includes none of CUTLASS's
    shared: tuple[str, ...]  # templates that a program includes once, before its stages
    launch: tuple[int, ...]  # run-time choices, which are arguments of the C entry


def _plan_conv(program: Program, stage: Conv, types: dict[str, TensorType]) -> Plan:
    """CUTLASS for channels last on the tensor cores, a generated kernel for row-major, the direct kernel otherwise."""
    if is_rowmajor(stage, types):
        return plan_rowmajor(program, stage, types)
    if types[stage.x.name].layout == NHWC or (stage.transposed and stage.config.compute is not DType.F32):
        _hopper(program, stage)
        return plan_conv(program, stage, types)
    return plan_direct(program, stage, types)


def _plan_grouped(program: Program, stage: GroupedGemm, types: dict[str, TensorType]) -> Plan:
    _hopper(program, stage)
    return plan_grouped(program, stage, types)


def _hopper(program: Program, stage: Stage) -> None:
    """Raise Refusal for other architectures than sm_90a; these stages need its warp-group instructions."""
    if program.arch not in (None, "sm_90a"):
        kind = "a grouped product" if isinstance(stage, GroupedGemm) else "a convolution on the tensor cores"
        raise Refusal("cpp-arch", f"the cpp back end writes {kind} for sm_90a, not {program.arch}", "write arch sm_90a")


def _plan_gemm(program: Program, stage: Gemm, types: dict[str, TensorType]) -> Plan:
    """CUTLASS 2.x for the CUDA cores and for sm_80 and sm_89, 3.x for the others."""
    if stage.config.compute is DType.F32 or program.arch in ("sm_80", "sm_89"):
        return plan_gemm_2x(program, stage, types)
    return plan_gemm(program, stage, types)


PLANNERS = {
    Gemm: _plan_gemm,
    NormalizedGemm: plan_normalized,
    GroupedGemm: _plan_grouped,
    Conv: _plan_conv,
    Transform: plan_transform,
    Map: plan_map,
    Reduce: plan_reduce,
    Normalize: plan_normalize,
    Scan: plan_scan,
    Pool: plan_pool,
    Concat: plan_concat,
    Recurrent: plan_recurrent,
}


def plan_stage(program: Program, stage: Stage, types: dict[str, TensorType]) -> Plan:
    """The plan of one stage. Raises Refusal."""
    planner = PLANNERS.get(type(stage))
    if planner is None:
        kind = type(stage).__name__.lower()
        raise Refusal("cpp-stage", f"the cpp back end has no {kind} yet", "write another stage there")
    return planner(program, stage, types)
