"""Example inputs of any structure: named, keyword-only, or inside lists, tuples and dictionaries.

The rest of the engine knows a module's inputs as a flat tuple. Where the text gives another structure, its class gets a
forward that takes the flat tuple, puts the structure together again and calls the text's own forward.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from engine.trace import results

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class NotAnArgument(ValueError):
    """A name that forward does not have."""


def by_name(forward: Callable[..., Any], values: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """(positional, keyword) arguments of a call with these names: positional up to the first argument that is left
    out, the others in forward's order. Raises NotAnArgument with a sentence."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if not takes_any and (unknown := [name for name in values if name not in named]):
        raise NotAnArgument(f"forward has no argument {unknown[0]!r}; it has {', '.join(named)}.")
    positional: list[Any] = []
    for p in parameters:
        if p.kind not in _POSITIONAL or p.name not in values:
            break
        positional.append(values[p.name])
    left = {n: v for n, v in values.items() if n not in named[: len(positional)]}
    return tuple(positional), {n: left[n] for n in dict.fromkeys((*(n for n in named if n in left), *left))}


def flattened(cls: type, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs as a flat tuple. If they have another structure, `cls.forward` takes them flat from now on."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    results.leaves_of((args, kwargs))
    leaves, spec = tree_flatten((args, kwargs))
    if not kwargs and len(leaves) == len(args) and all(a is b for a, b in zip(leaves, args, strict=True)):
        return args
    own = getattr(cls.forward, "own_forward", cls.forward)
    inside: list[Any] = []  # the modules whose forward runs: where it calls itself, it gives its own arguments

    def forward(self: Any, *values: Any, **more: Any) -> Any:
        if any(module is self for module in inside):
            return own(self, *values, **more)
        positional, named = tree_unflatten(values, spec)
        inside.append(self)
        try:
            return own(self, *positional, **named)
        finally:
            inside.pop()

    forward.own_forward = own
    cls.forward = forward
    return tuple(leaves)
