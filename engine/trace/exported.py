"""torch.export of a built module, and what the results of its program are: those of forward, and the new values of the
buffers, parameters and inputs that forward writes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from engine.trace.recurrent import shapes_only
from engine.trace.writes import in_place

_WRITTEN = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")  # torch.export's kinds of results


def export(model: Any, inputs: tuple[Any, ...]) -> Any:
    """The exported program, functional. Raises what torch.export raises."""
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            with shapes_only():
                program = torch.export.export(model, inputs, strict=False)
        except torch._export.verifier.SpecViolationError:  # a buffer became one of the inputs
            with shapes_only(), _copied_into_buffers():
                program = torch.export.export(model, inputs, strict=False)
        if any(map(in_place.writes, program.graph.nodes)) and not in_place.functional(program):
            program = program.run_decompositions({})
    return program


@contextlib.contextmanager
def _copied_into_buffers() -> Iterator[None]:
    """Let `self.buffer = x` assign a copy, because torch.export cannot express a buffer that is an input. The copy is
    left out of the graph."""
    import torch

    original = torch.nn.Module.__setattr__

    def assign(self: Any, name: str, value: Any) -> None:
        buffer = name in self.__dict__.get("_buffers", ()) and isinstance(value, torch.Tensor)
        original(self, name, value.clone() if buffer else value)

    torch.nn.Module.__setattr__ = assign
    try:
        yield
    finally:
        torch.nn.Module.__setattr__ = original


def returned(values: Any, signature: Any) -> list[Any]:
    """The nodes that forward returns, among those of the output node: an exported program lists the new values of
    buffers, parameters and inputs before them, and a node may stand in both parts."""
    specs = getattr(signature, "output_specs", None)
    if specs is None:
        return [v for v in signature.returned if hasattr(v, "name")]
    return [v for v, spec in zip(values, specs, strict=True) if spec.kind.name == "USER_OUTPUT"]


def writes(program: Any) -> list[tuple[Any, str]]:
    """(the node of the new value, path) of each buffer, parameter and input that the call writes; an input's path is
    the name of its placeholder. `program`: exported, or recorded by torch.fx, where a write is a `copy_` onto a
    placeholder or a result of its own."""
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    specs = getattr(signature, "output_specs", None)
    if specs is not None:
        by_name = {node.name: node for node in nodes}
        return [(by_name[s.arg.name], s.target) for s in specs if s.kind.name in _WRITTEN]
    paths = signature.inputs_to_buffers | signature.inputs_to_parameters
    changed = [
        (node.args[1], paths.get(node.args[0].name, node.args[0].name))
        for node in nodes
        if str(node.target).startswith("aten.copy_.") and node.args[0].op == "placeholder"
    ]
    return changed + [(new, path) for path, new in signature.assigned.items()]
