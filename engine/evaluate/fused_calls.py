"""Operations of a traced graph as one call that PyTorch's compiler (Inductor) made of them.

    fused = Fused([Row(call, reads, makes), ...], reads, makes)
    call = fused.compile(examples)            # seconds; runs none of the operations
    results = call(tensors)                   # in the order of `makes`

torch.compile checks at each call whether its code still fits. Here the shapes are those of the graph, so the compiled
code is called directly, and raises AssertionError for tensors of other sizes or strides than the examples. Needs torch
and nothing else of ours: exported packages contain this file unchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

# Inductor would time products whose sizes it may pad, on a GPU that somebody else may be timing on.
OPTIONS = {"shape_padding": False}


class Row(NamedTuple):
    """One operation. `call`: aten_calls.Call, or None for a view in the shape of `shape`; `reads`, `makes`: names."""

    call: Any
    reads: Sequence[str]
    makes: Sequence[str]
    shape: Sequence[int] = ()


class Fused:
    """`rows` in an order in which each finds what it reads; `reads`: the names of what comes from outside; `makes`: of
    what is needed outside."""

    def __init__(self, rows: Sequence[Row], reads: Sequence[str], makes: Sequence[str]):
        self.rows, self.reads, self.makes = rows, reads, makes

    def meaning(self) -> tuple:
        """What the call computes of tensors whose forms are known, whatever their names: alike for each of a module's
        equal blocks, which therefore share one compilation."""
        numbers = {name: i for i, name in enumerate(self.reads)}
        rows = []
        for row in self.rows:
            read = tuple(numbers[name] for name in row.reads)
            numbers |= {name: len(numbers) + i for i, name in enumerate(row.makes)}
            how = ("reshape", *row.shape) if row.call is None else row.call.meaning()
            rows.append((how, read, len(row.makes)))
        return tuple(rows), tuple(numbers[name] for name in self.makes)

    def module(self) -> torch.fx.GraphModule:
        """The operations as a module of `reads`."""
        graph = torch.fx.Graph()
        values = {name: graph.placeholder(f"x{i}") for i, name in enumerate(self.reads)}
        for row in self.rows:
            x = [values[name] for name in row.reads]
            if row.call is None:
                values[row.makes[0]] = graph.call_function(torch.ops.aten.reshape.default, (x[0], list(row.shape)))
                continue
            ordered = tuple(_argument(how, x) for how in row.call.ordered)
            named = {name: _argument(how, x) for name, how in row.call.named}
            node = graph.call_function(row.call.overload, ordered, named)
            returns = row.call.overload._schema.returns
            if len(returns) == 1 and str(returns[0].type) == "Tensor":
                values[row.makes[0]] = node
                continue
            for i, name in enumerate(row.makes):
                values[name] = graph.call_function(operator.getitem, (node, i))
        graph.output(tuple(values[name] for name in self.makes))
        return torch.fx.GraphModule(torch.nn.Module(), graph)

    def compile(self, examples: Sequence[torch.Tensor], **options: Any) -> Callable[[Sequence[torch.Tensor]], list]:
        """`examples`: tensors with the shapes, strides and types of `reads`; fake ones do. PyTorch's settings of now
        (autocast, TF32) are compiled in. Raises whatever Inductor raises."""
        import torch._inductor

        with torch.no_grad():
            run = torch._inductor.compile(self.module(), list(examples), options=OPTIONS | options)
        return lambda tensors: list(run(*tensors))


def _argument(how: Any, x: Sequence[Any]) -> Any:
    """An argument of aten_calls.Call: the place of a tensor, those of several, or a value."""
    if isinstance(how, int):
        place = x[how]
        if getattr(how, "on_host", False):
            return place.graph.call_function(torch.ops.aten._to_copy.default, (place,), {"device": torch.device("cpu")})
        return place
    if isinstance(how, list):
        return [None if i is None else x[i] for i in how]
    return how.value


__all__ = ["Fused", "Row"]
