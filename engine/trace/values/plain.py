"""Arguments of operations that are no tensors, as JSON holds them, and the names of element types."""

from __future__ import annotations

import math
from typing import Any


def dtype_names() -> dict[Any, str]:
    """torch dtype -> the name in sol.graph.DTYPE_BYTES."""
    import torch

    names = {
        "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3",
        "float8_e5m2": "e5m2", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8",
        "bool": "bool", "complex64": "c64", "complex128": "c128",
    }  # fmt: skip
    return {getattr(torch, k): v for k, v in names.items() if hasattr(torch, k)}


def plain(value: Any, dtypes: dict[Any, str]) -> Any:
    """JSON-safe: infinities as "inf" and "-inf", element types by `dtypes`, devices and layouts as text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [plain(v, dtypes) for v in value]
    if value in dtypes:
        return dtypes[value]
    try:
        return int(value) if float(value) == int(value) else float(value)  # a symbolic number with one value
    except Exception:
        return str(value)


__all__ = ["dtype_names", "plain"]
