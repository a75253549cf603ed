"""`torch.compile(model, backend="ucutlass")`: each graph that torch.compile finds is optimised, or stays PyTorch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .errors import OptimizeError

SECONDS = 120.0


def backend(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, mode: Any = None
) -> Callable[..., Any]:
    """A compiler of torch.compile. `options`: those of `ucutlass.optimize`, for example {"seconds": 60}; the variable
    UCUTLASS_SECONDS sets the default time of a graph. What cannot be optimised stays PyTorch, with one warning."""
    from .search import optimize

    chosen = {"seconds": float(os.environ.get("UCUTLASS_SECONDS", SECONDS)), "verbose": False, "title": "graph"}
    chosen["torch_compile"] = False  # it is what asks
    chosen |= options or {}
    why = _unsuitable(inputs)
    if why is None:
        bound = _Bound(graph, inputs)
        try:
            fast = optimize(bound, bound.examples, **chosen)
        except OptimizeError as e:
            why = str(e)
    if why is not None:
        warnings.warn(f"ucutlass: this graph stays PyTorch: {why}", stacklevel=2)
        return graph.forward
    REPORTS.append(fast.report)

    def run(*arguments: Any) -> Any:
        fast.take(arguments)
        return fast(*(arguments[i] for i in fast.free))

    return run


REPORTS: list[Any] = []  # of the graphs that were optimised in this process, the latest last


def register() -> None:
    """Make the name known to torch.compile, where pip's entry point does not."""
    from torch._dynamo import list_backends, register_backend

    if "ucutlass" not in list_backends(exclude_tags=None):
        register_backend(backend, name="ucutlass")


def _unsuitable(inputs: Sequence[Any]) -> str | None:
    """Why a graph is not for a session, or None."""
    if any(not torch.is_tensor(x) for x in inputs):
        return "it has sizes that change; compile with dynamic=False"
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return "a gradient may be wanted of it, and programs are for inference: call it under torch.no_grad()"
    return None


class _Bound(torch.nn.Module):
    """A graph whose parameters and buffers, which torch.compile gives as inputs, are its own.

    `free`: the places of the other inputs, and `examples`, those."""

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]):
        super().__init__()
        self.graph, self.places = graph, {}
        names = [node.target for node in graph.graph.nodes if node.op == "placeholder"]
        for i, (name, x) in enumerate(zip(names, inputs, strict=True)):
            if not _lasting(x):
                continue
            self.places[i] = name
            if isinstance(x, torch.nn.Parameter):
                self.register_parameter(name, x)
            else:
                self.register_buffer(name, x)
        self.free = [i for i in range(len(inputs)) if i not in self.places]
        self.examples = [inputs[i] for i in self.free]
        self.eval()

    def take(self, arguments: Sequence[torch.Tensor]) -> None:
        """Use these parameters and buffers, where they are others than before."""
        for i, name in self.places.items():
            table = self._parameters if name in self._parameters else self._buffers
            if table[name] is not arguments[i]:
                table[name] = arguments[i]

    def forward(self, *inputs: torch.Tensor) -> Any:
        free = iter(inputs)
        every = len(self.free) + len(self.places)
        return self.graph(*(getattr(self, self.places[i]) if i in self.places else next(free) for i in range(every)))


def _lasting(x: torch.Tensor) -> bool:
    """Whether a graph's input is a parameter or buffer of the compiled module (torch.compile marks them static)."""
    return isinstance(x, torch.nn.Parameter) or getattr(x, "_dynamo_static_input_type", None) is not None
