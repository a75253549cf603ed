"""Element types and identifiers as C++ spells them, and the refusal every planner raises."""

from __future__ import annotations

import re

from dsl.ir import DType
from dsl.lower import Refusal

# What memory holds. TF32 is an operand precision, never a storage type: it is `float` in memory.
STORAGE = {
    DType.F32: "float",
    DType.F16: "cutlass::half_t",
    DType.BF16: "cutlass::bfloat16_t",
    DType.E4M3: "cutlass::float_e4m3_t",
    DType.E5M2: "cutlass::float_e5m2_t",
    DType.I8: "int8_t",
    DType.I32: "int32_t",
}

# torch's name of each storage type, for the binding.
TORCH = {
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.E4M3: "float8_e4m3fn",
    DType.E5M2: "float8_e5m2",
    DType.I8: "int8",
    DType.I32: "int32",
}

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def storage(dtype: DType, what: str) -> str:
    """The C++ type of a tensor in memory; refuses what this back end does not store yet."""
    if dtype not in STORAGE:
        raise Refusal(
            "cpp-dtype",
            f"the cpp back end holds no {dtype.value} in memory ({what})",
            "write f32, f16 or bf16 there",
        )
    return STORAGE[dtype]


def identifier(name: str) -> str:
    """A name of the program as part of a C++ identifier. Always used with a prefix, so no keyword can clash."""
    if not _IDENTIFIER.match(name):
        raise Refusal("cpp-name", f"{name!r} is no plain identifier", "use letters, digits and _")
    return name


def aligned(elements: int, dtype: DType) -> bool:
    """TMA moves rows whose pitch is a multiple of 16 bytes."""
    return elements * dtype.bits % 128 == 0
