"""Places in the source text, element types and tensor types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Span:
    """A stretch of source text: 1-based lines and columns, the end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


NOWHERE = Span(0, 0, 0, 0)


class DType(str, Enum):
    """Element types. TF32 is an operand precision of the tensor cores, never a storage type."""

    F64 = "f64"
    F32 = "f32"
    TF32 = "tf32"
    F16 = "f16"
    BF16 = "bf16"
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    I8 = "i8"
    I32 = "i32"

    bits: int  # width in memory; tf32 operands are stored as f32

    def __init__(self, name: str):
        self.bits = {"f64": 64, "f32": 32, "tf32": 32, "i32": 32, "f16": 16, "bf16": 16}.get(name, 8)


NCHW, NHWC = "nchw", "nhwc"


@dataclass(frozen=True)
class TensorType:
    """A dense tensor. `shape` is in PyTorch's order whatever the layout.

    layout  nchw: row-major, the last axis contiguous (every parameter and result).
            nhwc: channels last, for 3 to 5 axes: memory holds axis 0, axes 2.., axis 1 (torch.channels_last).
    """

    dtype: DType
    shape: tuple[int, ...]
    layout: str = NCHW

    @property
    def elements(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bits // 8

    @property
    def memory_order(self) -> tuple[int, ...]:
        """The axes from the slowest to the contiguous one."""
        n = len(self.shape)
        return (0, *range(2, n), 1) if self.layout == NHWC else tuple(range(n))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        out, step = [0] * len(self.shape), 1
        for axis in reversed(self.memory_order):
            out[axis], step = step, step * self.shape[axis]
        return tuple(out)

    def __str__(self) -> str:
        text = f"{self.dtype.value}[{', '.join(map(str, self.shape))}]"
        return text if self.layout == NCHW else f"{text} {self.layout}"
