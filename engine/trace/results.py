"""What forward takes and returns: tensors in tuples, lists, dictionaries, dataclasses and other objects, such as the
cache of a decoder, and plain values beside them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

PLAIN = (bool, int, float, str, type(None))
_DEEPEST = 6  # attributes of attributes in which a tensor is looked for


def open_dataclasses(values: Iterable[Any]) -> None:
    """Let torch.utils._pytree, and so torch.export, look into instances of the dataclasses among `values`."""
    from torch import nn
    from torch.utils import _pytree

    for cls in values:
        if not isinstance(cls, type) or not dataclasses.is_dataclass(cls) or issubclass(cls, nn.Module):
            continue
        if cls not in _pytree.SUPPORTED_NODES:
            _pytree.register_dataclass(cls)


def leaves_of(values: Any) -> list[Any]:
    """The tensors of a structure and its other leaves, in torch.utils._pytree's order. From now on that module, and so
    torch.export, also looks into the classes of the objects among them that have tensors in their attributes."""
    import torch
    from torch.utils._pytree import tree_leaves

    while True:
        leaves = tree_leaves(values)
        closed = [x for x in leaves if not isinstance(x, (torch.Tensor, *PLAIN))]
        kinds = {type(x) for x in closed if dataclasses.is_dataclass(x)}
        open_dataclasses(kinds)
        others = {type(x) for x in closed if _holds_tensors(x)} - kinds
        for kind in others:
            (_open_container if issubclass(kind, (dict, list, tuple)) else _open)(kind)
        if not kinds | others:
            return leaves


def _open(kind: type) -> None:
    """Take objects of a class apart at those of their attributes that hold tensors. The others are the same in every
    call."""
    from torch.utils import _pytree

    def names(x: Any) -> list[str]:
        return [name for name, value in vars(x).items() if _holds_tensors(value)]

    def apart(x: Any) -> tuple[list[Any], tuple[list[str], dict[str, Any]]]:
        inside = names(x)
        others = {name: value for name, value in vars(x).items() if name not in inside}
        return [vars(x)[name] for name in inside], (inside, others)

    def apart_with_keys(x: Any) -> tuple[list[Any], tuple[list[str], dict[str, Any]]]:
        values, context = apart(x)
        return [(_pytree.GetAttrKey(n), v) for n, v in zip(context[0], values, strict=True)], context

    def together(values: Iterable[Any], context: tuple[list[str], dict[str, Any]]) -> Any:
        x = kind.__new__(kind)
        vars(x).update(context[1], **dict(zip(context[0], values, strict=True)))
        return x

    _pytree.register_pytree_node(kind, apart, together, flatten_with_keys_fn=apart_with_keys)


def _open_container(kind: type) -> None:
    """Take objects of a class of dictionaries, lists or tuples apart at their items. Their attributes are the same in
    every call."""
    from torch.utils import _pytree

    base = next(c for c in (OrderedDict, dict, list, tuple) if issubclass(kind, c))

    def apart(x: Any) -> tuple[list[Any], tuple[list[Any] | None, dict[str, Any] | None]]:
        others = getattr(x, "__dict__", {})
        own = None if others is x else dict(others)  # `self.__dict__ = self`: the items are the attributes
        return (list(x.values()), (list(x), own)) if issubclass(base, dict) else (list(x), (None, own))

    def apart_with_keys(x: Any) -> tuple[list[Any], tuple[list[Any] | None, dict[str, Any] | None]]:
        values, context = apart(x)
        names = [_pytree.SequenceKey(i) for i in range(len(values))]
        if context[0] is not None:
            names = [_pytree.MappingKey(name) for name in context[0]]
        return list(zip(names, values, strict=True)), context

    def together(values: Iterable[Any], context: tuple[list[Any] | None, dict[str, Any] | None]) -> Any:
        names, own = context
        x = base.__new__(kind, values) if base is tuple else base.__new__(kind)
        if names is not None:
            for name, value in zip(names, values, strict=True):
                base.__setitem__(x, name, value)
        elif base is list:
            list.extend(x, values)
        if own is None:
            x.__dict__ = x
        elif own:
            vars(x).update(own)
        return x

    _pytree.register_pytree_node(kind, apart, together, flatten_with_keys_fn=apart_with_keys)


def _holds_tensors(value: Any, deep: int = 0) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return True
    if deep == _DEEPEST or isinstance(value, (*PLAIN, type, torch.nn.Module)) or callable(value):
        return False
    if isinstance(value, dict):
        return any(_holds_tensors(v, deep + 1) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(v, deep + 1) for v in value)
    return any(_holds_tensors(v, deep + 1) for v in getattr(value, "__dict__", {}).values())


def split(result: Any) -> tuple[list[Any], list[Any]]:
    """The tensors of a result, and its other leaves."""
    import torch

    leaves = leaves_of(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return tensors, [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]


def why_not(result: Any) -> str:
    """What is wrong with a result, as the end of "forward returns ..."; "" if nothing is."""
    try:
        tensors, others = split(result)
    except RecursionError:
        return "something that contains itself, or that is nested too deeply."
    odd = next((x for x in others if not isinstance(x, PLAIN)), None)
    if tensors and odd is None:
        return ""
    leaf = odd if odd is not None else next(iter(others), None)
    kind = type(leaf).__name__
    value = f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}" if leaf is not None else "nothing"
    value += " (None)" if leaf is None and others else ""
    if tensors:
        return f"{value} beside its tensors; return tensors, plain values, and tuples, lists, dictionaries and " \
            "dataclasses of them."  # fmt: skip
    return f"{value}; it must return a tensor, or several in a tuple, list, dictionary or dataclass."
