"""The structure of a program: the choices that are open once the precision class of a lowered module is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.ir import DType

# Element type of the operands in each precision class.
COMPUTE = {"tf32": DType.TF32, "f16": DType.F16, "bf16": DType.BF16, "fp8": DType.E4M3}


@dataclass(frozen=True)
class Choice:
    """The structure of a program, if several structures compute the same.

    along_k    tf32 operands stored along M or N are transposed first: Hopper's tf32 instructions read only along K
    first      with along_k: only the first operand is, the second goes through registers (dsl.lower.cpp.gemm.gemm_3x)
    fuse       a product's rows or columns are reduced in its epilogue
    narrow     intermediates are stored in the class's element type; with `guard`, only those that only products read
    late       what lies between a product and the norm that reads it is computed by the norm
    weights    products read f32 weights and cast them themselves, where that is expected to be faster than a cast apart
    rows       convolutions of one group read images and weights in PyTorch's layout (f32, channels first)
    exact      the steps of recurrent layers multiply in f32 on the CUDA cores, if a network amplifies rounding
    guard      operands are cast to f16 under a guard (dsl.guard), so the program is in class tf32
    """

    along_k: bool = False
    fuse: bool = False
    narrow: bool = False
    rows: bool = False
    guard: bool = False
    first: bool = False
    exact: bool = False
    late: bool = False
    weights: bool = False

    def __str__(self) -> str:
        words = {
            "along_k": f"{'first operand' if self.first else 'operands'} transposed along K first",
            "fuse": "reduced in the epilogue",
            "narrow": "intermediates stored in half precision", "rows": "images read as they lie",
            "guard": "tf32 by guarded f16", "exact": "recurrent steps in f32",
            "late": "products stored before what follows them", "weights": "weights cast as they are read",
        }  # fmt: skip
        return ", ".join(text for name, text in words.items() if getattr(self, name)) or "each operation as it comes"
