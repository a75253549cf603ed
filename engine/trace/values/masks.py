"""Masks whose values are the same in every call, recognised by these values: a buffer of `tril`, a band, -inf above the
diagonal.

Attention that is written out as a product, a mask and a softmax computes every score, also those that the mask leaves
out. `mark` gives the share of scores that count, from the mask's values, so that a bound need not count the others. A
mask that leaves every score as it is goes: a model makes one at each call where it was handed none, and attention
without a mask has faster kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

MAX_ELEMENTS = 1 << 24  # of one tensor on the way to a mask
NEGLIGIBLE = -1e4  # exp of a score that is this much lower is 0 in every type
_FILLS = ("masked_fill", "masked_fill_")
_SUMS = ("add", "sub")
_ATTENTION = "scaled_dot_product_attention"
MASKING = frozenset((*_FILLS, *_SUMS, "where", _ATTENTION))


@dataclass(frozen=True)
class Mask:
    """`live`: True for each element that a masking operation leaves to the softmax after it; `keeps`: whether these
    keep their scores; `of`: the operation's argument that has the scores; `loaded`: other weights, or a state,
    may bring another one."""

    live: Any
    keeps: bool
    of: str
    loaded: bool = False

    @property
    def idle(self) -> bool:
        """Whether it changes nothing, and never will."""
        return self.keeps and bool(self.live.all()) and not self.loaded

    @property
    def causal(self) -> bool:
        """Whether the diagonal and all below it are left of every square matrix, with their scores."""
        import torch

        square = self.live.dim() > 1 and self.live.shape[-1] == self.live.shape[-2]
        lower = torch.ones(self.live.shape[-2:], dtype=torch.bool).tril() if square else None
        return self.keeps and square and bool((self.live == lower).all())


class Masks:
    """The masks of one graph. `graph`: of torch.fx; `constants`: the names of its placeholders that hold a buffer or a
    constant; `known`: the tensor that such a one holds in every call, or None; `loaded`: whether later calls may see
    another one, of other weights or of a state."""

    def __init__(
        self, graph: Any, constants: Collection[str], known: Callable[[Any], Any], loaded: Callable[[Any], bool]
    ):
        self.known, self.loaded = known, loaded
        self.fixed = _fixed(graph, constants)
        self.values: dict[Any, Any] = {}
        self.of_start: set[Any] = set()  # nodes whose values are of this start only

    def mark(
        self, ops: list[dict], nodes: Mapping[str, Any], tensors: Mapping[str, dict], outputs: Collection[str]
    ) -> list[dict]:
        """The operations without masks that change nothing, and with PyTorch's own attention causal where its mask is.
        The others have the share of scores that their mask leaves (sol.graph.Op.unmasked). `nodes`: operation -> its
        node; `tensors`: name -> its entry; `outputs`: the names of what the graph returns."""
        left, same = [], {}  # same: the result of an idle mask -> the scores
        for op in ops:
            op["inputs"] = [same.get(name, name) for name in op["inputs"]]
            mask, places = self._of(op, nodes)
            if mask is not None and op["op"] == _ATTENTION and (mask.idle or (mask.causal and not mask.loaded)):
                op["inputs"] = op["inputs"][:3]
                op["attrs"] = {"attn_mask": None} | op["attrs"] | {"is_causal": not mask.idle}
            elif mask is not None and mask.idle and mask.of in places:
                scores, result = op["inputs"][places.index(mask.of)], op["outputs"][0]
                alike = all(tensors[scores][key] == tensors[result][key] for key in ("shape", "dtype"))
                if alike and result not in outputs:
                    same[result] = scores
                    continue
            elif mask is not None and not bool(mask.live.all()):
                op["unmasked"] = float(mask.live.sum()) / mask.live.numel()
                op["causal"] = mask.causal
            left.append(op)
        return left

    def _of(self, op: dict, nodes: Mapping[str, Any]) -> tuple[Mask | None, list[str]]:
        """An operation's mask, and the arguments that its tensors are."""
        import torch.fx

        if op["op"] not in MASKING or op["name"] not in nodes:
            return None, []
        node = nodes[op["name"]]
        names = [argument.name for argument in node.target._schema.arguments]
        arguments = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        places = [name for name in names if isinstance(arguments.get(name), torch.fx.Node)]
        return (self.of(node, arguments) if len(places) == len(op["inputs"]) else None), places

    def of(self, node: Any, arguments: Mapping[str, Any]) -> Mask | None:
        """The mask of a masking operation, None if its values are not known. `arguments`: by ATen's names."""
        import torch

        name, mask = node.target._schema.name.split("::")[-1], None
        if name in _FILLS and self._lowest(arguments.get("value")):
            mask = self._logical(arguments.get("mask"), "self", invert=True)
        elif name == "where" and self._lowest(arguments.get("other")):
            mask = self._logical(arguments.get("condition"), "self")
        elif name == "where" and self._lowest(arguments.get("self")):
            mask = self._logical(arguments.get("condition"), "other", invert=True)
        elif name in _SUMS:
            mask = self._added(arguments, -1 if name == "sub" else 1, _before_softmax(node))
        elif name == _ATTENTION:
            value = self.value(arguments.get("attn_mask"))
            if value is not None:
                mask = Mask(value, True, "query") if value.dtype is torch.bool else Mask(*_above(value), "query")
        if mask is None or not mask.live.dim() or not mask.live.numel() or not bool(mask.live.any(-1).all()):
            return None  # a row without any element has no result that could be relied on
        return replace(mask, loaded=bool(self.of_start.intersection(node.all_input_nodes)))

    def _logical(self, node: Any, scores: str, invert: bool = False) -> Mask | None:
        mask = self.value(node)
        return None if mask is None else Mask(mask.logical_not() if invert else mask.bool(), True, scores)

    def _added(self, arguments: Mapping[str, Any], sign: float, softmax_next: bool) -> Mask | None:
        """Elsewhere than before a softmax only zeros are a mask: one that leaves everything."""
        alpha = arguments.get("alpha", 1)
        if not isinstance(alpha, int | float):
            return None
        for which, scores, factor in (("other", "self", sign * alpha), ("self", "other", 1)):
            mask = self.value(arguments.get(which))
            if mask is not None and mask.is_floating_point():
                live, keeps = _above(mask * factor)
                keeps &= which == "other" or sign * alpha == 1
                return Mask(live, keeps, scores) if softmax_next or (keeps and bool(live.all())) else None
        return None

    def _lowest(self, fill: Any) -> bool:
        if isinstance(fill, int | float):
            return fill <= NEGLIGIBLE
        value = self.value(fill)
        return value is not None and value.numel() == 1 and float(value) <= NEGLIGIBLE

    def value(self, node: Any) -> Any:
        """The tensor that a node makes in every call, or None if it depends on inputs or weights, or is too large."""
        import torch.fx

        if not isinstance(node, torch.fx.Node) or node not in self.fixed:
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
            if self.loaded(node):
                self.of_start.add(node)
            value = self.known(node)
            return value if isinstance(value, torch.Tensor) and value.numel() <= MAX_ELEMENTS else None
        if any(self.values[n] is None for n in node.all_input_nodes):
            return None
        if self.of_start.intersection(node.all_input_nodes):
            self.of_start.add(node)
        args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), self.values.__getitem__)
        try:
            with torch.no_grad(), unset_fake_temporarily():
                return node.target(*args, **kwargs)
        except Exception:
            return None


def _fixed(graph: Any, constants: Collection[str]) -> set[Any]:
    """The nodes that depend on nothing but these, so that only their values need be looked at."""
    fixed: set[Any] = set()
    for node in graph.nodes:
        alone = node.op == "get_attr" or (node.op == "placeholder" and node.name in constants)
        if alone or (node.op == "call_function" and fixed.issuperset(node.all_input_nodes)):
            fixed.add(node)
    return fixed


def _above(added: Any) -> tuple[Any, bool]:
    """True where what is added leaves a score, and whether it adds nothing there."""
    live = added > NEGLIGIBLE
    return live, not bool((live & (added != 0)).any())


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
