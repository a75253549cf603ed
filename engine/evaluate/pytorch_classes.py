"""PyTorch computing in a precision class, in the process that holds the module: f32, tf32, f16 or bf16.

f16 and bf16 are torch.autocast, which the CPU has too. TF32 is a permission: a library multiplies in f32 all the same
where it likes that better (three channels, say). Such a run is none of the class, and the class's error is then that of
the module on operands that lose the bits which the tensor cores ignore. On a CPU it is always that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

HALF = {"f16": "float16", "bf16": "bfloat16"}  # torch.autocast's types
UNUSED = 8  # an error so many times smaller than that of rounded operands is not the class's
SUSPECT = 2.0**-11 / UNUSED  # TF32 rounds operands to 11 bits: a larger error is its own


@contextlib.contextmanager
def precision(high: str, cudnn_tf32: bool) -> Iterator[None]:
    """PyTorch's two settings of float32 products, as they were afterwards. `high`: highest | high | medium."""
    import torch

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision(high)
    torch.backends.cudnn.allow_tf32 = cudnn_tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def strict() -> contextlib.AbstractContextManager[None]:
    """Float32 products without TF32."""
    return precision("highest", False)


def permitted(cls: str | None) -> contextlib.AbstractContextManager[None]:
    """The settings under which PyTorch's baseline of a class is timed, and what stays PyTorch beside programs runs:
    TF32 allowed in tf32, float32 alone in f32, and as PyTorch ships them in any other class or in none."""
    if cls == "tf32":
        return precision("high", True)
    return strict() if cls == "f32" else contextlib.nullcontext()


def casting(cls: str | None, device: str) -> contextlib.AbstractContextManager[Any]:
    """torch.autocast in f16 and bf16, casting at every call; nothing in other classes."""
    import torch

    if cls not in HALF:
        return contextlib.nullcontext()
    return torch.autocast(device, dtype=getattr(torch, HALF[cls]), cache_enabled=False)


@contextlib.contextmanager
def as_class(cls: str, device: str) -> Iterator[None]:
    """What the class's rounding makes of a module. Raises KeyError for a class that PyTorch has not."""
    if cls not in ("f32", "tf32", *HALF):
        raise KeyError(cls)
    with contextlib.ExitStack() as held:
        allowed = cls == "tf32" and device == "cuda"
        held.enter_context(permitted(cls) if allowed else strict())
        held.enter_context(casting(cls, device))
        if cls == "tf32" and not allowed:
            held.enter_context(truncating())
        yield


@contextlib.contextmanager
def truncating() -> Iterator[None]:
    """Every product's f32 operands lose their 13 low bits: what TF32 tensor cores read."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    products = {"mm", "addmm", "bmm", "baddbmm", "convolution", "mv", "addmv", "dot", "mkldnn_linear", "linear"}
    addends = {"addmm", "baddbmm", "addmv"}

    def cut(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
            return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
        return x

    class Truncate(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func._schema.name.split("::")[-1]
            if name in products:
                skip = 1 if name in addends else 0
                last = 2 + skip
                args = tuple(cut(a) if skip <= i < last else a for i, a in enumerate(args))
            return func(*args, **(kwargs or {}))

    with strict(), Truncate():
        yield
