"""A second tracer: torch.fx's `make_fx`, for modules that torch.export cannot trace.

torch.export keeps ATen's composite operations (`linear`, `layer_norm`), so it is tried first. `make_fx` records their
parts (`addmm`, `native_layer_norm`), but it traces scripted modules and the transforms of torch.func (`vmap`, `grad`),
which export refuses or wraps. No module in tests/sol needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from engine.trace.exported import traceable
from engine.trace.writes import in_place


@dataclass
class Recorded:
    """A recorded graph with the attributes of an exported program that `engine.trace.capture.Capture` reads."""

    graph_module: Any
    graph_signature: Any = field(repr=False)

    @property
    def graph(self) -> Any:
        return self.graph_module.graph


def record(model: Any, inputs: tuple[Any, ...]) -> Recorded:
    """Record the operations of one call, in functional form. Raises what torch.fx or the module raises.

    Call it in the mode in which the module was built: with fake tensors if its tensors are fake.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    state = {**parameters, **buffers}
    leaves, spec = tree_flatten(inputs)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    assigned: list[str] = []  # buffers to which forward assigns another tensor

    def call(*tensors: Any) -> list[Any]:
        arguments = list(leaves)
        for i, t in zip(places, tensors[len(state) :], strict=True):
            arguments[i] = t
        before = dict(zip(state, tensors, strict=False))
        values = dict(before)  # functional_call puts the assigned tensors here
        results = tree_leaves(torch.func.functional_call(model, values, tree_unflatten(arguments, spec)))
        assigned[:] = [name for name in buffers if values[name] is not before[name]]
        return [*results, *(values[name] for name in assigned)]

    tensors = [*state.values(), *(leaves[i] for i in places)]
    with torch.no_grad(), traceable():
        try:
            graph_module = make_fx(torch.func.functionalize(call), record_stack_traces=True)(*tensors)
        except RuntimeError as e:
            if "requires_grad_" not in str(e):
                raise
            # A forward that computes gradients of its own: functionalize does not let it ask for them.
            graph_module = make_fx(call, record_stack_traces=True)(*tensors)
            if any(map(in_place.writes, graph_module.graph.nodes)):
                raise
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    (output,) = (n for n in graph_module.graph.nodes if n.op == "output")
    names = {node.name: path for node, path in zip(placeholders, state, strict=False)}
    results = list(output.args[0])
    own = len(results) - len(assigned)
    signature = SimpleNamespace(
        inputs_to_parameters={n: p for n, p in names.items() if p in parameters},
        inputs_to_buffers={n: p for n, p in names.items() if p in buffers},
        inputs_to_lifted_tensor_constants={},
        returned=results[:own],
        assigned=dict(zip(assigned, results[own:], strict=True)),
    )
    return Recorded(graph_module, signature)
