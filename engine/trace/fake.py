"""Building and calling a module on fake tensors, which have shapes and types but no memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from engine.trace.recurrent import shapes_only


@functools.cache
def histogram_of_any_type() -> Any:
    """Let `histc` have shapes for whole numbers, too: a GPU counts them, and mixtures of experts count their tokens so.
    PyTorch refuses them on a CPU, where modules are traced: in its own function of the shapes, which torch.export asks,
    and, since fake tensors alone do not ask that one, where it counts zeros instead. Returns what keeps ours
    registered."""
    import torch

    def shape(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
        return x.new_empty((bins,))

    library, op = torch.library.Library("aten", "IMPL"), torch.ops.aten.histc.default
    library.impl("histc", shape, "Meta", allow_override=True)  # torch 2.11 has one of its own
    op.py_kernels[torch._C.DispatchKey.Meta] = shape
    op._dispatch_cache.clear()
    return library


@functools.cache
def grouped_product_of_any_type() -> Any:
    """Let `_grouped_mm` have shapes for every element type, as its kernels do: PyTorch's function of the shapes refuses
    all but bfloat16, so a mixture of experts in float32 would be refused. Returns what keeps ours registered."""
    import torch

    def shape(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
        if 3 not in (a.dim(), b.dim()):
            sizes = (offs.shape[0], a.shape[0], b.shape[1])
        else:
            torch._check(a.shape[-1] == b.shape[-2], lambda: f"no product of {list(a.shape)} and {list(b.shape)}")
            sizes = (*(a.shape[:-1] if b.dim() == 3 else a.shape[1:-1]), b.shape[-1])
        return a.new_empty(sizes, dtype=out_dtype or a.dtype)

    library, op = torch.library.Library("aten", "IMPL"), torch.ops.aten._grouped_mm.default
    library.impl("_grouped_mm", shape, "Meta", allow_override=True)
    op.py_kernels[torch._C.DispatchKey.Meta] = shape
    op._dispatch_cache.clear()
    return library


@functools.cache
def loss_of_any_lengths() -> None:
    """Let `ctc_loss` have shapes: PyTorch has none, as those of a result that only its gradient reads depend on the
    lengths of the targets."""
    import torch
    from torch._subclasses import fake_impls

    op = torch.ops.aten._ctc_loss.Tensor

    def shape(mode: Any, func: Any, scores: Any, *others: Any, **named: Any) -> Any:
        steps, batch = scores.shape[0], scores.shape[1:-1]
        with mode:
            return scores.new_empty(batch), scores.new_empty((*batch, steps, 1))

    fake_impls.register_op_impl(op)(shape)


@functools.cache
def least_squares() -> None:
    """Let `linalg.lstsq` have shapes, those of matrices of full rank: PyTorch has none, as some drivers leave residuals
    out where the rank, a value, is lower. Most modules read the solution alone."""
    import torch
    from torch._subclasses import fake_impls

    def shape(mode: Any, func: Any, a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
        rows, columns = a.shape[-2:]
        vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
        right = () if vector else (b.shape[-1],)
        batch = a.shape[:-2] if vector else torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        with mode:
            return (
                a.new_empty((*batch, columns, *right)),
                a.new_empty(
                    (*batch, *right) if rows > columns and driver not in (None, "gelsy") else (0,), dtype=a.real.dtype
                ),
                a.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64),
                a.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,), dtype=a.real.dtype),
            )

    fake_impls.op_implementations_dict[torch.ops.aten.linalg_lstsq.default] = shape


@contextlib.contextmanager
def fake_tensors() -> Iterator[None]:
    """Make tensors fake in this context. Modules of fake tensors can be converted (`.half()`, `.to(torch.bfloat16)`).

    `Module._apply` replaces a fake parameter by its conversion with `torch.utils.swap_tensors`, which refuses tensors
    with weak references, and every fake tensor has one. Setting `.data` also keeps the parameter's identity, and with
    it tied weights and lists that contain it.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    histogram_of_any_type()
    grouped_product_of_any_type()
    loss_of_any_lengths()
    least_squares()
    original, truncated = torch.nn.Module._apply, torch.nn.init._no_grad_trunc_normal_

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        own = [p for p in self._parameters.values() if p is not None]
        if not own or not all(isinstance(p, FakeTensor) and p.grad is None for p in own):
            return original(self, fn, recurse)
        if recurse:
            for child in self.children():
                child._apply(fn)
        with torch.no_grad():
            for p in own:
                new = fn(p)
                if new is not p:
                    p.data = new.data
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def trunc_normal(tensor: Any, mean: float, std: float, *bounds: Any, **named: Any) -> Any:
        """PyTorch's draws again until it sees every value in its bounds."""
        if isinstance(tensor, FakeTensor):
            return tensor.normal_(mean, std)
        return truncated(tensor, mean, std, *bounds, **named)

    torch.nn.Module._apply, torch.nn.init._no_grad_trunc_normal_ = _apply, trunc_normal
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), shapes_only():
            yield
    finally:
        torch.nn.Module._apply, torch.nn.init._no_grad_trunc_normal_ = original, truncated
