"""The tensors that a module's forward writes (sol.graph.OpGraph.writes), in the process that holds the module.

Every call is judged and timed from the same state: it is put in place before the call, and what the call leaves there
is a result like those that forward returns. Buffers, parameters and plain attributes have a place in the module; a
written input is one of the arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.evaluate.correctness.inputs import widened
from engine.trace import child
from engine.trace.load import Bad
from engine.trace.writes import state
from sol.graph import OpGraph


class WrittenState:
    """`graph`: the module's."""

    def __init__(self, graph: OpGraph):
        tensors = graph.tensors
        self.order = graph.writes
        self.paths = {n: tensors[n].path for n in graph.writes if tensors[n].kind != "input"}
        self.attributes = [tensors[n].path for n in graph.writes if tensors[n].kind == "buffer"]
        self.arguments = {n: graph.inputs.index(n) for n in graph.writes if tensors[n].kind == "input"}

    def prepare(self, model: Any) -> None:
        """Make buffers of written attributes, as the tracer does."""
        present = {name for name, _ in model.named_buffers()}
        state.promote(model, [path for path in self.attributes if path not in present])

    def put(self, model: Any, values: Mapping[str, Any], wide: bool = False) -> None:
        """Set each tensor in the module to a copy of its value; with `wide`, floats to one in float64."""
        for name, path in self.paths.items():
            value = values[name]
            place(model, path, value.to(widened(value.dtype) if wide else value.dtype, copy=True))

    def read(self, model: Any, tensors: Sequence[Any]) -> list[Any]:
        """The values after a call. `tensors`: those among its arguments."""
        return [
            tensors[self.arguments[n]] if n in self.arguments else get(model, self.paths[n]).detach()
            for n in self.order
        ]

    def restorer(self, model: Any, own: Mapping[str, Any], sets: Sequence[Sequence[Any]]) -> Callable[[int], None]:
        """A function that puts everything back before the call with the arguments of set number `at`, always in the
        same memory, as torch.compile's graphs expect. `sets`: lists of arguments, whose tensors are in the order of the
        graph's inputs."""
        import torch

        if not self.order:
            return lambda at: None
        homes = {path: (own[n].clone(), own[n]) for n, path in self.paths.items()}
        written = [
            [[v for v in row if isinstance(v, torch.Tensor)][i] for i in self.arguments.values()] for row in sets
        ]
        pristine = [[x.clone() for x in row] for row in written]

        def restore(at: int) -> None:
            for path, (home, start) in homes.items():
                place(model, path, home.copy_(start))
            for x, start in zip(written[at], pristine[at], strict=True):
                x.copy_(start)

        return restore


def settle(model: Any, inputs: Sequence[Any], dtype: Any = None) -> None:
    """Make the first call, which makes what all later calls read. `dtype`: of floating point inputs, if they are
    cast."""
    import torch

    with torch.no_grad():
        child.stage("forward", lambda: model(*(copied(v, dtype) for v in inputs)))


def copied(value: Any, dtype: Any = None) -> Any:
    """A copy of an argument, because a forward may write into its inputs; in `dtype` if it is a tensor of floats."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    return value.to(dtype if dtype and value.is_floating_point() else value.dtype, copy=True)


def own_tensors(model: Any, graph: OpGraph, inputs: Sequence[Any], device: str) -> dict[str, Any]:
    """Copies of the module's parameters, buffers and constants, by their names in the graph. Constants that only the
    graph names (literals, and tensors in lists) are missing where PyTorch does not export the module here."""
    import torch

    state = [t for t in graph.tensors.values() if t.kind in ("parameter", "buffer", "constant")]
    tensors = {t.name: get(model, t.path) for t in state}
    lost = [t for t in state if tensors[t.name] is None and t.kind == "constant"]
    if lost:
        with contextlib.suppress(Bad), torch.no_grad(), torch.device(device):
            if not graph.writes:  # a function that keeps its tensors would otherwise keep those of torch.export
                settle(model, inputs)
            values = child.constants(model, tuple(map(copied, inputs)))
            tensors |= {t.name: values.get(t.path) for t in lost}
    return {name: x.detach().to(device, copy=True) for name, x in tensors.items() if x is not None}


def place(model: Any, path: str, tensor: Any) -> None:
    """Put a tensor at a dotted path of the module."""
    prefix, _, name = path.rpartition(".")
    module = model.get_submodule(prefix)
    if name in module._parameters:
        module._parameters[name].data = tensor
    elif name in module._buffers:
        module._buffers[name] = tensor
    else:
        setattr(module, name, tensor)


def get(model: Any, path: str) -> Any:
    """The tensor at a dotted path, whose parts may be numbers of a list; None if there is none."""
    import torch

    value = model
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, (list, tuple)) else getattr(value, part, None)
        if value is None:
            return None
    return value if isinstance(value, torch.Tensor) else None


__all__ = ["WrittenState", "copied", "get", "own_tensors", "place", "settle"]
