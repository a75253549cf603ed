"""The limits of each architecture that the checks and the resolver use.

Sources: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability" (shared memory,
threads, registers), and the PTX ISA 9.0 (shapes of mma, wgmma and tcgen05).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dsl.ir import DType


@dataclass(frozen=True)
class Arch:
    """The limits of one architecture.

    `smem_block`: bytes of shared memory that one block may allocate. `instruction_k`: K of one tensor-core
    instruction, in elements. `generates`: True if a back end emits code for this architecture.
    """

    name: str
    smem_block: int
    threads_block: int
    registers_thread: int
    max_cluster: int
    tma: bool
    instruction_m: int
    instruction_k: dict[DType, int] = field(hash=False)
    generates: bool


_K = {DType.TF32: 8, DType.F16: 16, DType.BF16: 16}
_K8 = {**_K, DType.E4M3: 32, DType.E5M2: 32, DType.I8: 32}
_KI = {**_K, DType.I8: 32}

ARCHS: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm_80", 166_912, 1024, 255, 1, False, 16, _KI, True),
        Arch("sm_89", 101_376, 1024, 255, 1, False, 16, _K8, True),
        Arch("sm_90a", 232_448, 1024, 255, 8, True, 64, _K8, True),
        Arch("sm_100a", 232_448, 1024, 255, 8, True, 64, _K8, True),
    )
}

DEFAULT = "sm_90a"

# The default operand precision of each stored type; f32 operands are also multiplied in f32, on the CUDA cores.
COMPUTE_FOR: dict[DType, DType] = {
    DType.F32: DType.TF32, DType.F16: DType.F16, DType.BF16: DType.BF16,
    DType.E4M3: DType.E4M3, DType.E5M2: DType.E5M2, DType.I8: DType.I8,
}  # fmt: skip

# The types that expressions read and that map, reduce, normalize and pool take.
FLOATS = (DType.F32, DType.F16, DType.BF16)
# The 8-bit types: operands of tensor-core products only. Such a product names the type of its result.
BYTES = (DType.E4M3, DType.E5M2, DType.I8)
# The types of tensors in memory.
COVERED = (*FLOATS, *BYTES, DType.I32)
LATER = ("f64", "u8", "i16", "i64", "e8m0", "e2m1")
ALIASES = {
    "float": "f32", "float32": "f32", "half": "f16", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int32": "i32",
    "int": "i32", "fp8": "e4m3", "f8": "e4m3", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "fp16": "f16",
    "fp32": "f32",
}  # fmt: skip
