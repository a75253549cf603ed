"""What each architecture gives a kernel: the facts that the checks and the resolver reason with.

Sources: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability" (shared memory,
threads, registers), and the PTX ISA 9.0 (shapes of mma, wgmma and tcgen05).
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import DType


@dataclass(frozen=True)
class Arch:
    """`smem_block`: bytes of shared memory one block may ask for. `instruction_k`: K of one tensor-core instruction.

    `generates`: a back end of this compiler emits code for it today.
    """

    name: str
    smem_block: int
    threads_block: int
    registers_thread: int
    max_cluster: int
    tma: bool
    instruction_m: int
    instruction_k: dict[DType, int]
    generates: bool


_K = {DType.TF32: 8, DType.F16: 16, DType.BF16: 16}

ARCHS: dict[str, Arch] = {
    a.name: a
    for a in (
        Arch("sm_80", 166_912, 1024, 255, 1, False, 16, _K, False),
        Arch("sm_89", 101_376, 1024, 255, 1, False, 16, _K, False),
        Arch("sm_90a", 232_448, 1024, 255, 8, True, 64, _K, True),
        Arch("sm_100a", 232_448, 1024, 255, 8, True, 64, _K, False),
    )
}

DEFAULT = "sm_90a"

# Tensor-core precision for operands stored as ...; what the language covers today.
COMPUTE_FOR: dict[DType, DType] = {DType.F32: DType.TF32, DType.F16: DType.F16, DType.BF16: DType.BF16}

# Element types a program may name today, and those it will name later.
COVERED = (DType.F32, DType.F16, DType.BF16)
LATER = ("f64", "e4m3", "e5m2", "i8", "i32", "u8", "f8", "fp8", "int8")
