"""torch.cond, while_loop, scan and map, which PyTorch compiles from functions, as the operations of these functions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from engine.trace.names import remarks

_PACKAGE = "torch._higher_order_ops"


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """In this context both branches of torch.cond are computed, and torch.where chooses the result, as the predicate
    may be another at each call. Loops are unrolled: a scan over its steps, and a while_loop until its condition fails,
    which may depend on numbers and shapes only where it is traced."""
    ours: dict[str, dict[str, Any]] = {
        "utils": {"_hop_compile_and_call": lambda function, args: function(*args), "_maybe_compile_and_run_fn": _run},
        "cond": {"cond_op": _cond},
        "while_loop": {"while_loop_op": _while_loop},
        "scan": {"scan_op": _scan, "_maybe_compile_and_run_fn": _run},
        "map": {"map_impl": _map},
    }
    with contextlib.ExitStack() as stack:
        for name, values in ours.items():
            package = sys.modules.get(f"{_PACKAGE}.{name}")
            for what, value in values.items() if package is not None else ():
                if hasattr(package, what):
                    stack.enter_context(mock.patch.object(package, what, value))
        yield


def _run(function: Callable, *args: Any) -> Any:
    return function(*args)


def _cond(predicate: Any, true: Callable, false: Callable, operands: Any) -> Any:
    """The branch of a Python value; the choice between both results for a tensor's."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    if not isinstance(predicate, torch.Tensor):
        return true(*operands) if predicate else false(*operands)
    remarks.remark("both_branches", "torch.cond")
    before = _versions(true, false, operands)
    (yes, form), (no, other) = (tree_flatten(branch(*operands)) for branch in (true, false))
    if before != _versions(true, false, operands):
        raise NotImplementedError(
            "a branch of torch.cond writes a tensor, so both cannot be computed; return the new value instead"
        )
    if form != other or any(a.shape != b.shape for a, b in zip(yes, no, strict=True)):
        raise ValueError("the branches of torch.cond return results of different shapes; give both the same")
    chosen = [torch.where(predicate.reshape(()), a, b) for a, b in zip(yes, no, strict=True)]
    return tree_unflatten(chosen, form)


def _versions(true: Callable, false: Callable, operands: Any) -> list[int]:
    """How often each tensor that the branches see was written: operands, and what the functions close over."""
    import torch
    from torch.utils._pytree import tree_leaves

    cells = [c.cell_contents for f in (true, false) for c in getattr(f, "__closure__", None) or ()]
    owners = [*cells, *(getattr(f, "__self__", None) for f in (true, false)), true, false]
    modules = [o for o in owners if isinstance(o, torch.nn.Module)]
    state = [t for m in modules for t in (*m.parameters(), *m.buffers())]
    return [t._version for t in (*tree_leaves(operands), *tree_leaves(cells), *state) if isinstance(t, torch.Tensor)]


def _while_loop(condition: Callable, body: Callable, carried: Any, more: Any = ()) -> Any:
    while condition(*carried, *more):
        carried = body(*carried, *more)
        carried = tuple(carried) if isinstance(carried, (list, tuple)) else (carried,)
    return carried


def _scan(step: Callable, carry: Any, xs: Any, additional_inputs: Any = ()) -> tuple[Any, Any]:
    """The last state, and the results of the steps over the first axis of each of `xs`, stacked."""
    from torch.utils._pytree import tree_leaves

    state, results = carry, []
    for i in range(xs[0].shape[0]):
        state, result = step(*carry, *(x[i] for x in xs), *additional_inputs)
        carry = tree_leaves(state)
        results.append(result)
    return state, _stacked(results)


def _map(function: Callable, xs: Any, args: Any) -> Any:
    return _stacked([function(*(x[i] for x in xs), *args) for i in range(xs[0].shape[0])])


def _stacked(results: list[Any]) -> Any:
    """Results of one structure, each of their tensors with a new first axis."""
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda *row: torch.stack(row) if isinstance(row[0], torch.Tensor) else row[0], *results)


__all__ = ["opened"]
