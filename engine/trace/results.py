"""What forward returns: tensors in tuples, lists, dictionaries and dataclasses, and plain values beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

PLAIN = (bool, int, float, str, type(None))


def open_dataclasses(values: Iterable[Any]) -> None:
    """Let torch.utils._pytree, and so torch.export, look into instances of the dataclasses among `values`."""
    from torch import nn
    from torch.utils import _pytree

    for cls in values:
        if not isinstance(cls, type) or not dataclasses.is_dataclass(cls) or issubclass(cls, nn.Module):
            continue
        if cls not in _pytree.SUPPORTED_NODES:
            _pytree.register_dataclass(cls)


def split(result: Any) -> tuple[list[Any], list[Any]]:
    """The tensors of a result, and its other leaves."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(result)
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
