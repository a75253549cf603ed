"""The arguments of a call as a person gives them, checked: a tensor, a list, named ones, structures of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree

from engine.trace import arguments
from engine.trace.results import leaves_of

from .errors import OptimizeError


@dataclass(frozen=True)
class Call:
    """The arguments of forward, in order and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def leaves(self) -> list[Any]:
        """Tensors and plain values, as torch.export takes the arguments apart."""
        return _pytree.tree_leaves((self.args, self.kwargs))


def checked(module: Any, inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Call:
    """The call. Raises OptimizeError for what no session could run."""
    if not isinstance(module, torch.nn.Module):
        raise OptimizeError(f"`module` must be a torch.nn.Module, not a {type(module).__name__}")
    if module.training:
        raise OptimizeError("the module is in training mode, and programs are for inference: call .eval() first")
    call = _call(module, inputs, dict(kwargs or {}))
    leaves_of((call.args, call.kwargs))  # opens objects among them
    tensors = [x for x in call.leaves if torch.is_tensor(x)]
    if not tensors:
        raise OptimizeError(f"`inputs` hold no tensor{_instead(call)}: give the arguments of forward, for example [x]")
    for i, x in enumerate(tensors, 1):
        if x.layout == torch.strided and 0 in x.shape:
            raise OptimizeError(
                f"input {i} has the shape {list(x.shape)}: axis {list(x.shape).index(0)} has size 0, so there is "
                "nothing to compute; give example inputs with every axis from 1"
            )
    homes = {t.device for t in (*module.parameters(), *module.buffers())}
    if len(homes) > 1:
        raise OptimizeError(f"the module lies on {_listed(homes)}; move all of it to one device with .to()")
    away = {x.device for x in tensors} - (homes or {tensors[0].device})
    home = next(iter(homes), tensors[0].device)
    if away:
        raise OptimizeError(f"the module is on {home} and an input on {_listed(away)}; move one of them with .to()")
    if home.type == "meta":
        raise OptimizeError(
            "the module and its inputs are on meta, without values; give them some: module.to_empty(device=...), then "
            "load its weights"
        )
    return call


def _call(module: torch.nn.Module, inputs: Any, kwargs: dict[str, Any]) -> Call:
    if torch.is_tensor(inputs):
        inputs = (inputs,)
    if isinstance(inputs, Mapping):
        inputs, kwargs = (), {**inputs, **kwargs}
    if not isinstance(inputs, (list, tuple)):
        kind = type(inputs).__name__
        raise OptimizeError(f"`inputs` must be a tensor, a list, a tuple or a dictionary, not a {kind}")
    signature, inputs = inspect.signature(module.forward), tuple(inputs)
    try:
        bound = signature.bind(*inputs, **kwargs)
    except TypeError as e:
        raise OptimizeError(f"forward of {type(module).__name__} does not take these inputs: {e}") from None
    if not inputs:  # in forward's order, positional up to the first argument that is left out
        try:
            positional, named = arguments.by_name(type(module).forward, kwargs)
        except arguments.NotAnArgument:  # a forward of the instance
            positional, named = bound.args, bound.kwargs
        inputs, kwargs = positional, named
    order = [*signature.parameters, *kwargs]
    return Call(inputs, {name: kwargs[name] for name in sorted(kwargs, key=order.index)})


def _instead(call: Call) -> str:
    """What `inputs` hold in place of a tensor, for a message."""
    leaf = next(iter(call.leaves), None)
    if leaf is None:
        return ""
    known = {"ndarray": " but an array of NumPy, which torch.from_numpy makes a tensor"}
    return known.get(type(leaf).__name__, f" but {_article(type(leaf).__name__)}")


def _article(kind: str) -> str:
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _listed(devices: set[Any]) -> str:
    return " and ".join(sorted(map(str, devices)))


__all__ = ["Call", "checked"]
