"""The operands of a CUTLASS 3.x product: types, layouts, and the case in which it computes the transposed result."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dsl.ir import DType, Gemm, GroupedGemm, TensorType
from dsl.lower import Refusal
from dsl.lower.cpp.names import aligned, identifier
from dsl.rules.sm90 import TRANSPOSED_N

# compute -> (element type of the operands in memory, element type for the collective builder).
# For tf32 the builder gets `float`, not `tfloat32_t`: then the TMA descriptor is of type TFLOAT32 and the copy into
# shared memory converts. With `tfloat32_t` the raw bits would reach the tensor core, which drops the low 13.
COMPUTE = {
    DType.TF32: (DType.F32, "float"),
    DType.F16: (DType.F16, "cutlass::half_t"),
    DType.BF16: (DType.BF16, "cutlass::bfloat16_t"),
    DType.E4M3: (DType.E4M3, "cutlass::float_e4m3_t"),
    DType.E5M2: (DType.E5M2, "cutlass::float_e5m2_t"),
    DType.I8: (DType.I8, "int8_t"),
}


@dataclass(frozen=True)
class Matrix:
    """An operand in memory: CUTLASS's layout tag, and CuTe's strides in elements."""

    name: str
    tag: str
    stride: str
    k_major: bool


def check_operands(stage: Gemm | GroupedGemm, types: dict[str, TensorType], memory: DType) -> None:
    """Raise Refusal for operands whose type is not `memory`, and for 8-bit operands that are not contiguous along k."""
    for side in (stage.a, stage.b):
        dtype = types[side.name].dtype
        if dtype is not memory:
            raise Refusal(
                "cpp-operand",
                f"compute {stage.config.compute.value} reads {memory.value} operands, and {side.name} is {dtype.value}",
                f"{side.name}_c = transform({side.name}) {{ to {memory.value} }}",
            )
    if memory.bits == 8 and (stage.a.transposed or not stage.b.transposed):
        side = stage.a if stage.a.transposed else stage.b
        raise Refusal(
            "cpp-operand",
            f"8-bit operands are read along k, and {side.name} is contiguous along its other axis",
            f"store {side.name} with k last, and read the second operand with .T",
        )


def checked(stage: Gemm | GroupedGemm, types: dict[str, TensorType], arch: str | None = None) -> tuple[DType, str]:
    """The element type of the operands in memory and that for the builder. Raises Refusal for an illegal stage."""
    config = stage.config
    for clause in ("compute", "tile", "cluster", "schedule", "scheduler", "stages"):
        if getattr(config, clause) is None and not (clause == "schedule" and arch == "sm_100a"):
            raise Refusal(
                "cpp-unresolved",
                f"stage {stage.name} leaves {clause} to auto",
                "resolve the program first (dsl.resolve)",
            )
    if config.compute not in COMPUTE:
        raise Refusal(
            "cpp-compute",
            f"the cpp back end does not multiply in {config.compute.value} on sm_90a's tensor cores",
            "write compute tf32 for f32 operands, or transform them to f16",
        )
    if config.tile[0] == 192 and arch in (None, "sm_90a"):
        # CUTLASS stores a cooperative tile in pieces of 128 rows, and asserts that they divide it.
        raise Refusal(
            "cpp-config",
            f"stage {stage.name}: a tile of 192 rows is more than the cpp back end takes",
            "write tile M 128 or 256, or leave the stage to the `cute` back end",
        )
    operand, element = COMPUTE[config.compute]
    check_operands(stage, types, operand)
    if config.schedule == "pingpong" and config.scheduler.kind != "persistent":
        raise Refusal(
            "cpp-scheduler",
            f"scheduler {config.scheduler.kind} reduces across whole blocks; pingpong splits a block in two",
            "write schedule cooperative, or scheduler persistent",
        )
    return operand, element


def turn(stage: Gemm, a: Matrix, b: Matrix, m: int, n: int) -> tuple:
    """tf32 `x @ w`: the product of the transposes, as the tensor core reads tf32 along k alone.

    B must go through registers, which only A can. CUTLASS's builder would transpose the mainloop, but not the result's
    strides and the epilogue's vectors. So this transposes everything, with the tile and the cluster.
    """
    config = stage.config
    allowed = TRANSPOSED_N[config.schedule]
    if config.tile[1] not in allowed:
        fit = min((n for n in allowed if n >= config.tile[1]), default=allowed[-1])
        raise Refusal(
            "cpp-tf32-layout",
            f"tf32 of {stage.b.name} lying along n computes the transposed result, so a {config.schedule} tile has "
            f"n {' or '.join(map(str, allowed))}, and this one has {config.tile[1]}",
            f"write tile {config.tile[0]}x{fit}x{config.tile[2]}",
        )
    other_tag = {"RowMajor": "ColumnMajor", "ColumnMajor": "RowMajor"}
    first = dataclasses.replace(b, tag=other_tag[b.tag])
    second = dataclasses.replace(a, tag=other_tag[a.tag])
    tile = (config.tile[1], config.tile[0], config.tile[2])
    cluster = (config.cluster[1], config.cluster[0], config.cluster[2])
    return first, second, n, m, tile, cluster


def matrix(
    name: str,
    types: dict,
    free: int,
    k: int,
    k_major: bool,
    tag_k: str,
    tag_free: str,
    l: int,  # noqa: E741
) -> Matrix:
    """An operand of `free` (m or n) by k. The stride is CuTe's (free, k, l), with 0 for l if all batches share it."""
    kind = types[name]
    identifier(name)
    if not aligned(k if k_major else free, kind.dtype):
        raise Refusal(
            "cpp-alignment",
            f"rows of {name} are {kind.shape[-1] * kind.dtype.bits // 8:,} bytes; TMA reads rows of a multiple of 16",
            f"make its last axis a multiple of {128 // kind.dtype.bits}",
        )
    batch = free * k if l > 1 and kind.elements > free * k else 0
    if k_major:
        return Matrix(name, tag_k, f"cute::make_stride(int64_t({k}), cute::Int<1>{{}}, int64_t({batch}))", True)
    return Matrix(name, tag_free, f"cute::make_stride(cute::Int<1>{{}}, int64_t({free}), int64_t({batch}))", False)
