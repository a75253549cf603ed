"""A second way to a graph: torch.fx's `make_fx`, for what torch.export does not follow.

Export keeps ATen's operations whole (`linear`, `layer_norm`), so it goes first. `make_fx` sees what is below them
(`addmm`, `native_layer_norm`), but it follows scripted modules and the transforms of torch.func (`vmap`, `grad`), which
export refuses or wraps up. Of the modules in tests/sol none needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class Recorded:
    """What `engine.trace.capture.Capture` reads of an exported program, made from a recorded graph."""

    graph_module: Any
    graph_signature: Any = field(repr=False)

    @property
    def graph(self) -> Any:
        return self.graph_module.graph


def record(model: Any, inputs: tuple[Any, ...]) -> Recorded:
    """The operations of one call, in-place ones made functional. Raises whatever torch.fx or the module raises.

    To be called where the module's tensors live: under fake tensors when they are fake.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    held = {**parameters, **buffers}
    leaves, spec = tree_flatten(inputs)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: Any) -> list[Any]:
        given = list(leaves)
        for i, t in zip(places, tensors[len(held) :], strict=True):
            given[i] = t
        state = dict(zip(held, tensors, strict=False))
        return tree_leaves(torch.func.functional_call(model, state, tree_unflatten(given, spec)))

    tensors = [*held.values(), *(leaves[i] for i in places)]
    with torch.no_grad():
        made = make_fx(torch.func.functionalize(call), record_stack_traces=True)(*tensors)
    placeholders = [n for n in made.graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in made.graph.nodes if n.op == "output")
    names = {node.name: path for node, path in zip(placeholders, held, strict=False)}
    signature = SimpleNamespace(
        inputs_to_parameters={n: p for n, p in names.items() if p in parameters},
        inputs_to_buffers={n: p for n, p in names.items() if p in buffers},
        inputs_to_lifted_tensor_constants={},
        user_outputs=[n.name for n in output.args[0]],
    )
    return Recorded(made, signature)
