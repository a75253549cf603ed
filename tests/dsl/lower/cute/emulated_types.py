"""The element types of the emulator, by the names that CuTe DSL gives them."""

from __future__ import annotations

import math

import numpy as np
import torch


class ElementType:
    def __init__(self, name: str, numpy, torch_type, width: int):
        self.name, self.numpy, self.torch, self.width = name, numpy, torch_type, width
        self.inf = math.inf

    def __call__(self, value):
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(self.numpy)

    def __repr__(self) -> str:
        return self.name


Float64 = ElementType("Float64", np.float64, torch.float64, 64)
Float32 = ElementType("Float32", np.float32, torch.float32, 32)
Float16 = ElementType("Float16", np.float32, torch.float16, 16)
BFloat16 = ElementType("BFloat16", np.float32, torch.bfloat16, 16)
E4M3 = ElementType("Float8E4M3FN", np.float32, torch.float8_e4m3fn, 8)
E5M2 = ElementType("Float8E5M2", np.float32, torch.float8_e5m2, 8)
Int64 = ElementType("Int64", np.int64, None, 64)
Int32 = ElementType("Int32", np.int32, torch.int32, 32)
Uint32 = ElementType("Uint32", np.uint32, None, 32)
Int8 = ElementType("Int8", np.int8, torch.int8, 8)
TYPES = {t.torch: t for t in (Float32, Float16, BFloat16, Int32, Int8, E4M3, E5M2, Float64)}
NAMED = {t.name: t for t in (Float32, Float16, BFloat16, Int32, Int8, Uint32, Int64, E4M3, E5M2, Float64)}
