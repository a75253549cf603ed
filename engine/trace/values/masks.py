"""Masks whose values are the same in every call, recognised by these values: a buffer of `tril`, a band, -inf above the
diagonal.

Attention that is written out as a product, a mask and a softmax computes every score, also those that the mask leaves
out. `share` gives the share of scores that count, from the mask's values, so that a bound need not count the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MAX_ELEMENTS = 1 << 24  # of one tensor on the way to a mask
NEGLIGIBLE = -1e4  # exp of a score that is this much lower is 0 in every type
_FILLS = ("masked_fill", "masked_fill_")
_SUMS = ("add", "sub")
_ATTENTION = "scaled_dot_product_attention"
MASKING = frozenset((*_FILLS, *_SUMS, "where", _ATTENTION))


class Masks:
    """The masks of one graph. `known`: the tensor that a placeholder or constant holds in every call, or None."""

    def __init__(self, known: Callable[[Any], Any]):
        self.known, self.values = known, {}

    def mark(self, ops: list[dict], nodes: Mapping[str, Any]) -> None:
        """Note the share of scores that each mask leaves (sol.graph.Op.unmasked). `nodes`: operation -> its node."""
        for op in ops:
            if op["op"] in MASKING and op["name"] in nodes:
                node = nodes[op["name"]]
                names = [argument.name for argument in node.target._schema.arguments]
                live, keeps = self.live(node, dict(zip(names, node.args, strict=False)) | dict(node.kwargs))
                if live is not None and not bool(live.all()):
                    op["unmasked"] = float(live.sum()) / live.numel()
                    op["causal"] = keeps and _causal(live)

    def live(self, node: Any, arguments: Mapping[str, Any]) -> tuple[Any, bool]:
        """True for each element that a masking operation leaves to the softmax after it, None if that is not known; and
        whether they keep their scores. `arguments`: its arguments by ATen's names."""
        import torch

        name, keeps = node.target._schema.name.split("::")[-1], True
        live = None  # True where an element counts
        if name in _FILLS and self._lowest(arguments.get("value")):
            live = self._logical(arguments.get("mask"), invert=True)
        elif name == "where" and self._lowest(arguments.get("other")):
            live = self._logical(arguments.get("condition"))
        elif name == "where" and self._lowest(arguments.get("self")):
            live = self._logical(arguments.get("condition"), invert=True)
        elif name in _SUMS and _before_softmax(node):
            live, keeps = self._added(arguments, -1 if name == "sub" else 1)
        elif name == _ATTENTION:
            mask = self.value(arguments.get("attn_mask"))
            if mask is not None:
                live, keeps = (mask, True) if mask.dtype is torch.bool else _above(mask)
        if live is None or not live.dim() or not live.numel() or not bool(live.any(-1).all()):
            return None, False  # a row without any element has no result that could be relied on
        return live, keeps

    def _logical(self, node: Any, invert: bool = False) -> Any:
        mask = self.value(node)
        return None if mask is None else mask.logical_not() if invert else mask.bool()

    def _added(self, arguments: Mapping[str, Any], sign: float) -> tuple[Any, bool]:
        alpha = arguments.get("alpha", 1)
        if not isinstance(alpha, int | float):
            return None, False
        for which, factor in (("other", sign * alpha), ("self", 1)):
            mask = self.value(arguments.get(which))
            if mask is not None and mask.is_floating_point():
                return _above(mask * factor)
        return None, False

    def _lowest(self, fill: Any) -> bool:
        if isinstance(fill, int | float):
            return fill <= NEGLIGIBLE
        value = self.value(fill)
        return value is not None and value.numel() == 1 and float(value) <= NEGLIGIBLE

    def value(self, node: Any) -> Any:
        """The tensor that a node makes in every call, or None if it depends on inputs or weights, or is too large."""
        import torch.fx

        if not isinstance(node, torch.fx.Node):
            return None
        pending = [node]
        while pending:  # no recursion: a mask may lie behind thousands of operations
            at = pending[-1]
            if at in self.values:
                pending.pop()
            elif at.op == "call_function" and not _computable(at):
                self.values[at] = None
            elif missing := [n for n in at.all_input_nodes if n not in self.values]:
                pending += missing if at.op == "call_function" else []
            else:
                self.values[at] = self._compute(at)
        return self.values[node]

    def _compute(self, node: Any) -> Any:
        import torch
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        if node.op != "call_function":
            value = self.known(node)
            return value if isinstance(value, torch.Tensor) and value.numel() <= MAX_ELEMENTS else None
        if any(self.values[n] is None for n in node.all_input_nodes):
            return None
        args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), self.values.__getitem__)
        try:
            with torch.no_grad(), unset_fake_temporarily():
                return node.target(*args, **kwargs)
        except Exception:
            return None


def _above(added: Any) -> tuple[Any, bool]:
    """True where what is added leaves a score, and whether it adds nothing there."""
    live = added > NEGLIGIBLE
    return live, not bool((live & (added != 0)).any())


def _causal(live: Any) -> bool:
    """Return True if the diagonal and all below it are left of every square matrix."""
    import torch

    square = live.dim() > 1 and live.shape[-1] == live.shape[-2]
    return square and bool((live == torch.ones(live.shape[-2:], dtype=torch.bool).tril()).all())


def _computable(node: Any) -> bool:
    """Return True for an operation with results of known, moderate size that has no effects and draws nothing."""
    import operator

    import torch

    if node.target is operator.getitem:
        return True
    schema, value = getattr(node.target, "_schema", None), node.meta.get("val")
    tensors = value if isinstance(value, (list, tuple)) else (value,)
    if schema is None or schema.is_mutable or not all(isinstance(t, torch.Tensor) for t in tensors):
        return False
    drawn = "nondeterministic_seeded" in {tag.name for tag in node.target.tags}
    return not drawn and all(isinstance(t.numel(), int) and t.numel() <= MAX_ELEMENTS for t in tensors)


_PASSES = ("to", "_to_copy", "view", "reshape", "_unsafe_view", "contiguous", "clone", "float", "type_as", "expand")


def _before_softmax(node: Any) -> bool:
    """Return True if a softmax over the last axis is all that reads a node's result."""
    while len(node.users) == 1:
        (node,) = node.users
        name = getattr(getattr(node.target, "_schema", None), "name", "").split("::")[-1]
        if name in ("softmax", "_softmax"):
            return node.args[1] in (-1, node.meta["val"].dim() - 1)
        if name not in _PASSES:
            return False
    return False


__all__ = ["MASKING", "Masks"]
