"""PyTorch computing in a precision class, in the process that holds the module: f32, tf32, f16, bf16 or fp8.

f16 and bf16 are torch.autocast, which the CPU has too. TF32 is a permission: a library multiplies in f32 all the same
where it likes that better (three channels, say). Such a run is none of the class, and the class's error is then that of
the module on operands that lose the bits which the tensor cores ignore. On a CPU it is always that.

PyTorch has no fp8 of a module. Its error there is that of the module whose matrix products read operands rounded to
e4m3 with a scale for each row along K, as the planner's programs have them; all else stays as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

HALF = {"f16": "float16", "bf16": "bfloat16"}  # torch.autocast's types
CLASSES = ("f32", "tf32", *HALF, "fp8")  # whose errors are known
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
    if cls not in CLASSES:
        raise KeyError(cls)
    with contextlib.ExitStack() as held:
        allowed = cls == "tf32" and device == "cuda"
        held.enter_context(permitted(cls) if allowed else strict())
        held.enter_context(casting(cls, device))
        if cls == "tf32" and not allowed:
            held.enter_context(truncating())
        if cls == "fp8":
            held.enter_context(rounding(_e4m3, _MATRICES))
        yield


# A product's operands: the place of the first one, and the axis of each along which it is summed.
_MATRICES = {
    "mm": (0, -1, -2), "bmm": (0, -1, -2), "addmm": (1, -1, -2), "baddbmm": (1, -1, -2), "linear": (0, -1, -1),
    "mkldnn_linear": (0, -1, -1),
}  # fmt: skip
_PRODUCTS = _MATRICES | {"mv": (0, -1, -1), "addmv": (1, -1, -1), "dot": (0, -1, -1), "convolution": (0, 1, 1)}


def truncating() -> contextlib.AbstractContextManager[None]:
    """Every product's f32 operands lose their 13 low bits: what TF32 tensor cores read."""
    import torch

    def cut(x: Any, axis: int) -> Any:
        if x.dtype == torch.float32:
            return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
        return x

    return rounding(cut, _PRODUCTS)


def _e4m3(x: Any, axis: int) -> Any:
    """Floats rounded to e4m3 with a scale for each row along `axis`, in their own type."""
    import torch

    if not x.dtype.is_floating_point or not x.numel():
        return x
    wide = x.float()
    scale = wide.abs().amax(axis, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 448
    return ((wide / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)


@contextlib.contextmanager
def rounding(cut: Callable[[Any, int], Any], products: dict[str, tuple[int, int, int]]) -> Iterator[None]:
    """Both operands of these products are `cut(operand, the axis along which it is summed)`."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Round(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            first, *axes = products.get(func._schema.name.split("::")[-1], (0,))
            args = list(args)
            for at, axis in enumerate(axes, first):
                if isinstance(args[at], torch.Tensor):
                    args[at] = cut(args[at], axis)
            return func(*args, **(kwargs or {}))

    with strict(), Round():
        yield


@contextlib.contextmanager
def widening() -> Iterator[None]:
    """Where a text names a float type (`x.to(torch.bfloat16)`, `sum(dtype=torch.float32)`), float64 is meant: so that a
    module whose text does can be computed in float64, too."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Widen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if isinstance(dtype := kwargs.get("dtype"), torch.dtype) and dtype.is_floating_point:
                kwargs["dtype"] = torch.float64
            return func(*args, **kwargs)

    with Widen():
        yield
