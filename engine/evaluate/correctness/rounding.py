"""Hardware number formats: element types in PyTorch, and the rounding of operands and stored results."""

from __future__ import annotations

import torch

from dsl.ir import DType

TORCH = {
    DType.F64: torch.float64, DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16,
    DType.E4M3: torch.float8_e4m3fn, DType.E5M2: torch.float8_e5m2, DType.I8: torch.int8, DType.I32: torch.int32,
}  # fmt: skip
DTYPES = {v: k for k, v in TORCH.items()}
TF32_DROPPED = 13  # of f32's 23 mantissa bits, tf32 keeps 10
_SATURATING = (DType.E4M3, DType.E5M2, DType.I8, DType.I32)


def truncate_tf32(x: torch.Tensor) -> torch.Tensor:
    """f32 without the low 13 bits of the mantissa: Hopper's tensor cores ignore them and do not round."""
    bits = x.to(torch.float32).contiguous().view(torch.int32)
    return (bits & ~((1 << TF32_DROPPED) - 1)).view(torch.float32)


def nearest_tf32(x: torch.Tensor) -> torch.Tensor:
    """f32 rounded to the nearest tf32 number, ties away from zero (cvt.rna), as our own kernels do before the tensor
    cores. Infinities and NaN stay."""
    bits = x.to(torch.float32).contiguous().view(torch.int32)
    rounded = ((bits + (1 << (TF32_DROPPED - 1))) & ~((1 << TF32_DROPPED) - 1)).view(torch.float32)
    return torch.where(torch.isfinite(x), rounded, x.to(torch.float32))


def stored(x: torch.Tensor, dtype: DType) -> torch.Tensor:
    """`x` in memory as `dtype`: to nearest, ties to even. fp8 and integers saturate (cvt.rn.satfinite, cvt.rni.sat);
    NaN stays NaN in fp8."""
    to = TORCH[dtype]
    if x.dtype is to or dtype not in _SATURATING:
        return x.to(to)
    if dtype in (DType.E4M3, DType.E5M2):
        top = torch.finfo(to).max
        return x.to(torch.float32).clamp(-top, top).to(to)
    limits = torch.iinfo(to)
    return x.to(torch.float64).round().clamp(limits.min, limits.max).to(to)


def operand(x: torch.Tensor, compute: DType | None, rounds: bool = False) -> torch.Tensor:
    """An operand of a product as the multiplier reads it, in a type that PyTorch multiplies: tf32 loses bits, f16, bf16
    and fp8 are exact in f32; int8 is exact in f64, so its sums are exact too. `rounds`: the kernel that reads f32
    rounds it to the nearest of `compute`."""
    if rounds and x.dtype is torch.float32:
        return nearest_tf32(x) if compute is DType.TF32 else x.to(TORCH[compute]).to(torch.float32)
    if x.dtype is torch.float64 or x.dtype is torch.int8:
        return x.to(torch.float64)
    if x.dtype is torch.float32 and (compute or DType.TF32) is DType.TF32:
        return truncate_tf32(x)
    return x.to(torch.float32)
