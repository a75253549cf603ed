"""Element types and identifiers in C++, and TMA's rule of alignment."""

from __future__ import annotations

import re

from dsl.ir import DType
from dsl.lower import Refusal

# Element types in memory. TF32 is an operand precision and not a storage type: in memory it is `float`.
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


def storage(dtype: DType, name: str) -> str:
    """The C++ type of a tensor in memory. Raises Refusal for a type that this back end does not store."""
    if dtype not in STORAGE:
        raise Refusal(
            "cpp-dtype",
            f"the cpp back end stores no {dtype.value} in memory ({name})",
            "write f32, f16 or bf16 there",
        )
    return STORAGE[dtype]


def identifier(name: str) -> str:
    """A name of the program as part of a C++ identifier. It is used with a prefix, so it cannot be a keyword."""
    if not _IDENTIFIER.match(name):
        raise Refusal("cpp-name", f"{name!r} is no plain identifier", "use letters, digits and _")
    return name


def aligned(elements: int, dtype: DType) -> bool:
    """Return True if a row of `elements` elements is a multiple of 16 bytes, as TMA needs."""
    return elements * dtype.bits % 128 == 0
