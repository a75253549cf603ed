"""Branches that skip work on an empty selection: `if mask.any(): out[mask] = expert(x[mask])`.

Which branch a call takes depends on values. Where the work on no rows changes nothing, a graph that always does it
computes the same, and where a branch only raises an error, one that never does. A module is traced so, and compared
with PyTorch in calls whose selections are its own, empty or whole, and mixed.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from engine.trace.load import Bad
from engine.trace.names import remarks

_TRUTH, _COUNT = "_ucutlass_truth", "_ucutlass_count"  # attributes of tensors that are traced
# Operations that read a mask: what it selects, or whether and how often.
_SELECTIONS = (
    *("nonzero", "index", "index_put", "index_put_", "_index_put_impl_", "masked_select", "masked_scatter"),
    *("any", "sum", "count_nonzero"),
)
_ASKS = re.compile(r"\b(any|numel|count_nonzero|len|size)\(|\.sum\(\)\s*[=!>]=?\s*0|\.shape\[0\]")
_assumed: list[bool] = []  # whether masks have an element, while a module is traced so
_asked: list[bool] = []  # that answer, each time that it was asked for


def may_ask(source: str) -> bool:
    """Return True if a text may ask whether a selection is empty."""
    return _ASKS.search(source) is not None


@contextlib.contextmanager
def assumed(truth: bool) -> Iterator[None]:
    """In this context traced masks have an element, or none. `check` tells whether that changes a result."""
    import torch
    from torch._subclasses import fake_impls

    nonzero = torch.ops.aten.nonzero.default
    shape = fake_impls.op_implementations_dict[nonzero]

    def occupied(*arguments: Any, **named: Any) -> Any:
        result = shape(*arguments, **named)
        if isinstance(result.shape[0], torch.SymInt):
            _asked.append(truth)
            torch._check(result.shape[0] >= 1)
        return result

    ours = {nonzero: occupied} if truth else {}
    _assumed.append(truth)
    _asked.clear()
    try:
        with mock.patch.dict(fake_impls.op_implementations_dict, ours), _mode(truth):
            yield
    finally:
        _assumed.pop()


def _mode(truth: bool) -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    compared = {
        **dict.fromkeys((tensor.gt, tensor.__gt__, torch.gt, tensor.ne, tensor.__ne__, torch.ne), truth),
        **dict.fromkeys((tensor.eq, tensor.__eq__, torch.eq), not truth),
    }

    class Assumed(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            first = args[0] if args else None
            if func in (tensor.__bool__, tensor.item) and (known := getattr(first, _TRUTH, None)) is not None:
                _asked.append(known)
                return known
            result = func(*args, **(kwargs or {}))
            if not isinstance(result, FakeTensor) or not isinstance(first, torch.Tensor) or result.dim():
                return result
            if first.dtype is torch.bool and func in (tensor.any, torch.any):
                setattr(result, _TRUTH, truth)
            elif first.dtype is torch.bool and func in (tensor.sum, torch.sum, torch.count_nonzero):
                setattr(result, _COUNT, True)
            elif func in compared and hasattr(first, _COUNT) and args[1:] == (0,):
                setattr(result, _TRUTH, compared[func])
            return result

    return Assumed()


def check(program: Any, model: Any, inputs: tuple[Any, ...]) -> None:
    """Raise Bad if a program that was exported under `assumed` computes something else than the module: with its own
    inputs, with the selections that were not assumed, or with some of both."""
    import torch

    if not _assumed or not _asked:
        return
    before = _versions(model)
    exported = _unasserted(program).module()
    for context in (contextlib.nullcontext, *(functools.partial(_selecting, how) for how in (not _assumed[-1], None))):
        with torch.no_grad(), context():
            try:
                right = _results(model, inputs)
            except Exception:
                continue  # such a call has no result: a check of the module's own
            ours = _results(exported, inputs)
        if before != _versions(model):
            raise Bad("cannot_trace", "A module with a branch that depends on values writes a tensor.")
        if len(right) != len(ours) or not all(map(_alike, right, ours)):
            raise Bad("cannot_trace", "A branch that depends on values changes a result.")
    remarks.remark("selections", "")


def _versions(model: Any) -> list[tuple[int, int]]:
    """Each tensor of the module's state, and how often it was written."""
    return [(id(t), t._version) for t in (*model.parameters(), *model.buffers())]


def _results(call: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    return [x for x in tree_leaves(call(*copies)) if isinstance(x, torch.Tensor)]


def _alike(a: Any, b: Any) -> bool:
    import torch

    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    exact = not a.is_floating_point() and not a.is_complex()
    return torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def _unasserted(program: Any) -> Any:
    """The program without its assertions that a selection has a row."""
    for node in list(program.graph.nodes):
        if "_assert_scalar" in str(node.target):
            program.graph.erase_node(node)
    program.graph_module.recompile()
    return program


def _selecting(whole: bool | None) -> Any:
    """A mode in which masks select everything (`whole`), nothing, or one of both by what they hold (None)."""
    import torch

    from engine.trace.dispatch import DispatchMode

    def mask(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.bool:
            return x
        every = whole if whole is not None else bool((x.flatten() * torch.arange(x.numel())).sum() % 2)
        return torch.full_like(x, every)

    class Selecting(DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func._schema.name.split("::")[-1] in _SELECTIONS and len(args) > 0:
                args = [[mask(y) for y in x] if isinstance(x, (list, tuple)) else mask(x) for x in args]
            return func(*args, **(kwargs or {}))

    return Selecting()


__all__ = ["assumed", "check", "may_ask"]
