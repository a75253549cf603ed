"""PyTorch computing in a precision class, in the process that holds the module: f32, tf32, f16, bf16 or fp8.

f16 and bf16 are torch.autocast, which the CPU has too. TF32 is a permission: a library may still multiply in f32 if
that is faster (for three channels, for example). Such a run is not in the class, and the class's error is then that of
the module on operands without the bits that the tensor cores ignore. On a CPU it is always that.

PyTorch does not run modules in fp8. Its error there is that of the module whose matrix products read operands rounded
to e4m3 with one scale per row along K, as in the planner's programs; everything else is unchanged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

HALF = {"f16": "float16", "bf16": "bfloat16"}  # torch.autocast's types
CLASSES = ("f32", "tf32", *HALF, "fp8")  # classes with known errors
UNUSED = 8  # an error this many times smaller than that of rounded operands is not the class's
SUSPECT = 2.0**-11 / UNUSED  # TF32 rounds operands to 11 bits: a larger error is its own


@contextlib.contextmanager
def precision(high: str, cudnn_tf32: bool) -> Iterator[None]:
    """Set PyTorch's two options of float32 products, and restore them afterwards. `high`: highest | high | medium."""
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
    """The settings for timing PyTorch's baseline of a class, and for what stays PyTorch beside programs: TF32 allowed
    in tf32, only float32 in f32, and PyTorch's defaults in any other class or in none."""
    if cls == "tf32":
        return precision("high", True)
    return strict() if cls == "f32" else contextlib.nullcontext()


def casting(cls: str | None, device: str) -> contextlib.AbstractContextManager[Any]:
    """torch.autocast in f16 and bf16, casting at every call; nothing in other classes."""
    return _autocast(cls, device) if cls in HALF else contextlib.nullcontext()


@contextlib.contextmanager
def _autocast(cls: str, device: str) -> Iterator[None]:
    import torch

    with unfused(), torch.autocast(device, dtype=getattr(torch, HALF[cls]), cache_enabled=False):
        yield


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Encoder layers without the one operation of eval mode, which hides their products. On a GPU autocast leaves it
    out itself, but not on a CPU, where it would compute in f32."""
    import torch

    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


@contextlib.contextmanager
def as_class(cls: str, device: str) -> Iterator[None]:
    """Run a module with the class's rounding. Raises KeyError for a class that PyTorch does not have."""
    if cls not in CLASSES:
        raise KeyError(cls)
    with contextlib.ExitStack() as stack:
        allowed = cls == "tf32" and device == "cuda"
        stack.enter_context(permitted(cls) if allowed else strict())
        stack.enter_context(casting(cls, device))
        if cls == "tf32" and not allowed:
            stack.enter_context(truncating())
        if cls == "fp8":
            stack.enter_context(rounding(_e4m3, _MATRICES))
        yield


# A product's operands: the index of the first one, and the axis of each along which it is summed.
_MATRICES = {
    "mm": (0, -1, -2), "bmm": (0, -1, -2), "addmm": (1, -1, -2), "baddbmm": (1, -1, -2), "linear": (0, -1, -1),
    "mkldnn_linear": (0, -1, -1),
}  # fmt: skip
_PRODUCTS = _MATRICES | {"mv": (0, -1, -1), "addmv": (1, -1, -1), "dot": (0, -1, -1), "convolution": (0, 1, 1)}


RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # as torch.nn calls them


def truncating() -> contextlib.AbstractContextManager[None]:
    """Truncate the 13 low bits of every product's f32 operands, which is what TF32 tensor cores read."""
    import torch

    def cut(x: Any, axis: int) -> Any:
        if x.dtype == torch.float32:
            return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
        return x

    return rounding(cut, _PRODUCTS)


def _e4m3(x: Any, axis: int) -> Any:
    """Floats rounded to e4m3 with one scale per row along `axis`, in their own type."""
    import torch

    if not x.dtype.is_floating_point or not x.numel():
        return x
    wide = x.float()
    scale = wide.abs().amax(axis, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 448
    return ((wide / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)


@contextlib.contextmanager
def rounding(cut: Callable[[Any, int], Any], products: dict[str, tuple[int, int, int]]) -> Iterator[None]:
    """Replace both operands of these products by `cut(operand, the axis along which it is summed)`."""
    import torch

    from engine.trace.dispatch import DispatchMode
    from engine.trace.names import of_functions

    class Round(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            first, *axes = products.get(func._schema.name.split("::")[-1], (0,))
            args = list(args)
            for at, axis in enumerate(axes, first):
                if isinstance(args[at], torch.Tensor):
                    args[at] = cut(args[at], axis)
            return func(*args, **(kwargs or {}))

    def stepwise(network: Callable[..., Any]) -> Callable[..., Any]:
        """The recurrent network without cuDNN and oneDNN, whose kernels hide the products of its steps."""

        def call(*args: Any) -> Any:
            before = torch._C._get_mkldnn_enabled()  # torch.backends.mkldnn.flags sets more, and warns of it
            torch._C._set_mkldnn_enabled(False)
            try:
                with torch.backends.cudnn.flags(enabled=False):
                    return network(*args)
            finally:
                torch._C._set_mkldnn_enabled(before)

        return call

    networks = {name: getattr(torch._VF, name) for name in RECURRENT}
    for name, network in networks.items():
        setattr(torch._VF, name, stepwise(network))
    try:
        with strict(), unfused(), of_functions.opened(), Round():
            yield
    finally:
        for name, network in networks.items():
            setattr(torch._VF, name, network)


@contextlib.contextmanager
def accumulating() -> Iterator[None]:
    """Compute products of f16 and bf16 tensors as a GPU does: summed in f32 and rounded once to their type. For the
    CPU, which takes 16 to 70 times as long in these types where it has no instructions for them."""
    import torch

    from engine.trace.dispatch import DispatchMode
    from engine.trace.names import of_functions

    halves = [getattr(torch, name) for name in HALF.values()]

    class Accumulate(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            dtypes = {x.dtype for x in args if isinstance(x, torch.Tensor)}
            product = func._schema.name.split("::")[-1] in _PRODUCTS and "out" not in kwargs
            if not product or len(dtypes) != 1 or not dtypes.issubset(halves):
                return func(*args, **kwargs)
            wide = [x.float() if isinstance(x, torch.Tensor) else x for x in args]
            return func(*wide, **kwargs).to(*dtypes)

    with of_functions.opened(), Accumulate():
        yield


@contextlib.contextmanager
def widening() -> Iterator[None]:
    """Replace each float type that a text names (`x.to(torch.bfloat16)`, `sum(dtype=torch.float32)`) by float64, so
    that such a module can be computed in float64 too."""
    import torch

    from engine.trace.dispatch import DispatchMode
    from engine.trace.names import of_functions

    class Widen(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if isinstance(dtype := kwargs.get("dtype"), torch.dtype) and dtype.is_floating_point:
                kwargs["dtype"] = torch.float64
            return func(*args, **kwargs)

    with of_functions.opened(), Widen():
        yield
