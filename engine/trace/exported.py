"""torch.export of a built module, and what the results of its program are: those of forward, and the new values of the
buffers, parameters and inputs that forward writes."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any

from engine.trace.names import autocast, of_functions, own_operators
from engine.trace.recurrent import shapes_only
from engine.trace.results import leaves_of
from engine.trace.values import numbers, packed
from engine.trace.values.validation import unvalidated
from engine.trace.writes import in_place
from engine.trace.writes.state import size

_WRITTEN = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")  # torch.export's kinds of results


class Resized(Exception):
    """Forward replaces the buffer `path` by a tensor of another shape or type, so there is no place for its new value.
    `before`, `after`: both, in words."""

    def __init__(self, path: str, before: str, after: str):
        super().__init__(f"forward replaces the module's {path}, {before}, by a tensor of {after}")
        self.path, self.before, self.after = path, before, after


@contextlib.contextmanager
def traceable() -> Iterator[None]:
    """In this context PyTorch's own checks of values are left out, and operators of a text are their bodies."""
    with unvalidated(), own_operators.opened(), of_functions.opened(), packed.opened():
        yield


def export(model: Any, inputs: tuple[Any, ...], named: dict[str, Any] | None = None) -> Any:
    """The exported program, functional. `named`: arguments by name. Raises Resized, and what torch.export raises."""
    import torch

    known, again = {id(tensor) for tensor in _kept(model)}, twins(inputs)
    inputs = tuple(x.clone() if i in again else x for i, x in enumerate(inputs))  # else they would be one input
    with (
        warnings.catch_warnings(), torch.no_grad(), _no_hook_stays(), _written_at_the_end(model), shapes_only(),
        traceable(),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        with numbers.carried(model) as carried:
            program = _functional(model, inputs, named)
        if carried.keys() & {path for _, path in writes(program)}:  # each call has another number
            program = _functional(model, inputs, named)
    for name, value in program.constants.items():
        # torch.export says so itself, unless the module's own tensors are fake too.
        if isinstance(value, torch._subclasses.fake_tensor.FakeTensor) and id(value) not in known:
            raise RuntimeError(f"forward computes {name} by operations that torch.export does not see")
    return program


def twins(inputs: tuple[Any, ...]) -> set[int]:
    """The places of tensors that stand among the inputs before, too."""
    import torch

    first = {id(x): i for i, x in reversed(list(enumerate(inputs)))}
    return {i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and first[id(x)] != i}


def _functional(model: Any, inputs: tuple[Any, ...], named: dict[str, Any] | None) -> Any:
    import torch

    program = torch.export.export(model, inputs, named or None, strict=False)
    in_place.detach(program)
    if autocast.enabled(program):
        program = autocast.without_blocks(program)
    if any(map(in_place.writes, program.graph.nodes)) and not in_place.functional(program):
        program = program.run_decompositions({})
    return program


@contextlib.contextmanager
def _no_hook_stays() -> Iterator[None]:
    """torch.export (2.11) leaves its hook on every module's buffers behind where forward raises, and the next module
    that sets a buffer would fail in it."""
    from torch.nn.modules.module import _global_buffer_registration_hooks as hooks

    before = set(hooks)
    try:
        yield
    finally:
        for key in set(hooks) - before:
            del hooks[key]


def _kept(model: Any) -> Iterator[Any]:
    """The tensors in attributes of the module and those inside it, and in the text's global variables."""
    import torch

    waiting = [value for module in model.modules() for value in vars(module).values()]
    waiting += [*getattr(type(model).forward, "__globals__", {}).values(), *model.parameters(), *model.buffers()]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple, set)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif type(value).__module__ == type(model).__module__ != "builtins" and not isinstance(
            value, (type, torch.nn.Module)
        ):
            waiting += getattr(value, "__dict__", {}).values()


@contextlib.contextmanager
def _written_at_the_end(model: Any) -> Iterator[None]:
    """Let forward replace buffers, in the module or in those inside it, and then write each new value into the buffer
    that was there. torch.export sees a replaced buffer of the outermost module alone, and takes the others for the ones
    that they were."""
    import torch

    assign, forward = torch.nn.Module.__setattr__, model.forward
    own = "forward" in vars(model)

    def replace(self: Any, name: str, value: Any) -> None:
        if name in self.__dict__.get("_buffers", ()) and isinstance(value, torch.Tensor):
            self._buffers[name] = value
        else:
            assign(self, name, value)

    @functools.wraps(forward)
    def written(*arguments: Any, **named: Any) -> Any:
        places = [(p, m, name) for p, m in model.named_modules() for name in m._buffers]
        before = [(m, name, m._buffers[name]) for _, m, name in places if m._buffers[name] is not None]
        result = forward(*arguments, **named)
        leaves_of(result)
        replaced = [(m, name, old, m._buffers[name]) for m, name, old in before if m._buffers[name] is not old]
        for module, name, old, value in replaced:
            if value is not None and size(value) != size(old):
                prefix = next(p for p, m, _ in places if m is module)
                raise Resized(f"{prefix}.{name}".lstrip("."), size(old), size(value))
        olds = {old.untyped_storage()._cdata for _, _, old, _ in replaced}

        def apart(x: Any) -> Any:
            """The value of a tensor, if it lies in a buffer that is written next."""
            dense = isinstance(x, torch.Tensor) and x.layout == torch.strided
            return x.clone() if dense and x.untyped_storage()._cdata in olds else x

        result = torch.utils._pytree.tree_map(apart, result)
        for module, name, old, value in [(m, name, old, apart(new)) for m, name, old, new in replaced]:
            module._buffers[name] = old
            if value is not None:
                old.copy_(value)
        return result

    torch.nn.Module.__setattr__ = replace
    vars(model)["forward"] = written
    base = torch._C.TensorBase.data
    torch.Tensor.data = property(_detached, base.__set__)
    try:
        yield
    finally:
        del torch.Tensor.data
        torch.nn.Module.__setattr__ = assign
        if own:
            vars(model)["forward"] = forward
        else:
            del vars(model)["forward"]


def _detached(tensor: Any) -> Any:
    """`tensor.data` of what forward computes, which torch.export would take for a constant."""
    import torch

    fake = isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor) and not isinstance(tensor, torch.nn.Parameter)
    return tensor.detach() if fake else torch._C.TensorBase.data.__get__(tensor)


def returned(values: Any, signature: Any) -> list[Any]:
    """The nodes that forward returns, among those of the output node: an exported program lists the new values of
    buffers, parameters and inputs before them, and a node may stand in both parts."""
    specs = getattr(signature, "output_specs", None)
    if specs is None:
        return [v for v in signature.returned if hasattr(v, "name")]
    own = [v for v, spec in zip(values, specs, strict=True) if spec.kind.name == "USER_OUTPUT"]
    return [v for v in own if hasattr(v, "name")]  # the others are plain values


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
