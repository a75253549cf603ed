"""Tensors whose size depends on values: the rows that a router sends to an expert, the rows of a mask, unique numbers.

A graph holds the sizes of one call with the module's own inputs, at least 1 of each, and marks the tensor with
`varies`. What reads or makes such a tensor stays PyTorch, so that it may have another size in another call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.trace.explain import quoted
from engine.trace.load import Bad

_PICKS = (
    "index",
    "masked_select",
    "repeat_interleave",
    "_pack_padded_sequence",
)  # the size depends on what else they read than the first tensor
_VIEWS = ("aten::view", "aten::reshape", "aten::_unsafe_view")


def symbols(value: Any) -> set[Any]:
    """The symbols in the sizes of what a node makes: a tensor, several, or a size itself."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(symbols, value)) if value else set()
    return {s for size in getattr(value, "shape", (value,)) if _open(size) for s in size.node.expr.free_symbols}


def _open(size: Any) -> bool:
    return hasattr(getattr(size, "node", None), "expr")


def varies(value: Any) -> bool:
    """Return True if a tensor has a size that depends on values."""
    return any(map(_open, value.shape)) and bool(symbols(value))


def shape_in(known: dict[Any, int], value: Any) -> list[int]:
    """The tensor's shape where each symbol has its value in `known`. Raises KeyError for an unknown one."""
    return [max(1, int(s.node.expr.xreplace({k: known[k] for k in symbols(s)}))) if _open(s) else int(s)
            for s in value.shape]  # fmt: skip


def of_one_call(program: Any, inputs: tuple[Any, ...]) -> dict[Any, int]:
    """Symbol -> its value in a call of an exported program. {} if no size depends on values, or tensors are fake."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    signature = program.graph_signature
    if not any(symbols(node.meta.get("val")) for node in program.graph.nodes if node.op == "call_function"):
        return {}
    paths = signature.inputs_to_parameters | signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
    state = {**program.constants, **program.state_dict}
    leaves = iter(torch.utils._pytree.tree_leaves(inputs))
    values = [
        state[paths[node.name]] if node.name in paths else next(leaves)
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]
    if any(isinstance(value, FakeTensor) for value in values):
        return {}
    known: dict[Any, int] = {}

    class Call(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            known.update(_bound(node.meta.get("val"), result))
            return result

    with torch.no_grad():
        Call(program.graph_module).run(*(v.clone() if isinstance(v, torch.Tensor) else v for v in values))
    return known


def _bound(value: Any, result: Any) -> Iterator[tuple[Any, int]]:
    """(symbol, value) of each size that is one symbol."""
    if isinstance(value, (list, tuple)) and isinstance(result, (list, tuple)):
        for one, other in zip(value, result, strict=False):
            yield from _bound(one, other)
        return
    for size, actual in zip(getattr(value, "shape", (value,)), getattr(result, "shape", (result,)), strict=False):
        if _open(size) and size.node.expr.is_Symbol:
            yield size.node.expr, actual


def argument(op: str, name: str, value: Any) -> list[int] | None:
    """The sizes that a view asks for, one of which may depend on values: it follows from the others. None if the
    argument is none of these."""
    many = [v for v in value if hasattr(v, "meta")] if isinstance(value, (list, tuple)) else []
    if op not in _VIEWS or name not in ("size", "shape") or len(many) != 1 or -1 in value:
        return None
    return [-1 if v is many[0] else int(v) for v in value]


def spelled(op: str, attrs: dict[str, Any], value: Any) -> tuple[str, dict[str, Any]]:
    """The name and arguments of an operation that asks PyTorch for its sizes: a graph's `view` has those of its
    result."""
    if f"aten::{op}" not in _VIEWS or not varies(value):
        return op, attrs
    return "_reshape_copy", {"size": attrs.get("size", attrs.get("shape"))}


def refuse_result(node: Any, nodes: list[Any], filled: set[Any], line: int | None) -> None:
    """Raise Bad("varying_result") if the size of a result depends on values that differ between calls: on inputs or
    parameters that are floating point (`filled`: their nodes), for which others are drawn in each round."""
    for symbol in symbols(node.meta.get("val")):
        first = next(n for n in nodes if symbol in symbols(n.meta.get("val")))
        own = first.args[:1] if str(first.target).split(".")[1] in _PICKS else ()
        waiting, seen = [n for n in first.all_input_nodes if n not in own], set()
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += one.all_input_nodes
        if seen & filled:
            at = f"{quoted(line)} makes" if line else "forward returns"
            raise Bad(
                "varying_result",
                f"{at} a result whose size depends on values of others, so it cannot be compared from call to call. "
                "Return a result of one size: all rows, and the mask of those that count as another result.",
                line,
            )


__all__ = ["of_one_call", "refuse_result", "shape_in", "symbols", "varies"]
