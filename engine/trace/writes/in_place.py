"""In-place operations as functional ones, where a tensor's memory has one name: `relu_(x)` after a convolution.

torch.export keeps them, and makes a graph functional by tracing it a second time, which takes longer than the first.
Most are simple: an activation writes over the result of the operation before it, and nothing else sees that memory.
Then every later reader reads the new value. Any other write (to a view, an input, a buffer) is left to PyTorch.
"""

from __future__ import annotations

import contextlib
from typing import Any

# Composed operations that always make a new tensor. Others may give back their input, as dropout does in eval mode.
_NEW = frozenset((
    *(f"{name}{axes}d" for name in ("conv", "conv_transpose", "max_pool", "adaptive_avg_pool") for axes in (1, 2, 3)),
    "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "linear", "matmul", "softmax",
    "log_softmax", "relu6", "hardsigmoid", "upsample_nearest2d", "upsample_bilinear2d", "cross_entropy_loss",
    "scaled_dot_product_attention", "gru", "lstm",
))  # fmt: skip


def functional(program: Any) -> bool:
    """Rewrite the graph of an exported program without writes. Returns False, with the graph as it was, if one of its
    writes is not simple."""
    nodes = list(program.graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    steps = []
    memory: dict[Any, list[Any]] = {}  # node -> the nodes that name its memory, the newest last
    for node in nodes:
        if not writes(node):
            continue
        target = _functional_overload(node)
        names = memory.setdefault(node.args[0], [node.args[0]]) if target is not None else []
        if not names or not (len(names) > 1 or _makes_new(names[0])):
            return False
        earlier = {user for name in names for user in name.users if place[user] < place[node] and user not in names}
        if not all(_makes_new(user) for user in earlier):
            return False  # a view that was taken before sees the write
        names.append(node)
        memory[node] = names
        steps.append((node, target))
    for node, target in steps:
        for name in memory[node][: memory[node].index(node)]:
            name.replace_all_uses_with(node, delete_user_cb=lambda user, at=place[node]: place[user] > at)
        node.target = target
    return True


def detach(program: Any) -> None:
    """Let each `detach_` of the graph be a `detach`, which computes the same. PyTorch 2.11 ends the process where it
    makes a graph with the former functional."""
    import torch

    for node in program.graph.nodes:
        if node.target is torch.ops.aten.detach_.default:
            node.target = torch.ops.aten.detach.default


def writes(node: Any) -> bool:
    """Return True for an operation that changes one of its tensors. By its schema a batch norm changes none, but in
    training mode it updates its running statistics."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return False
    if schema.name == "aten::batch_norm":
        *_, mean, _, training = node.args[:6]
        return training is True and mean is not None
    return schema.is_mutable


def _functional_overload(node: Any) -> Any:
    """The operation that gives the same result in a new tensor, with the same arguments; None without one, for an
    operation that writes to more than its first tensor, and where a new tensor would have another type (`x.eq_(y)`)."""
    import torch

    schema = node.target._schema
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    name = schema.name.split("::")[-1]
    if not name.endswith("_") or name.endswith("__") or written != [schema.arguments[0].name]:
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    overload = getattr(packet, schema.overload_name or "default", None) if packet is not None else None
    if overload is None or overload._schema.is_mutable:
        return None
    same = [a.name for a in overload._schema.arguments] == [a.name for a in schema.arguments]
    if not same or len(overload._schema.returns) != 1:
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    own = node.meta["val"]
    with getattr(own, "fake_mode", contextlib.nullcontext()):  # what is computed of constants alone is real
        result = overload(*args, **kwargs)
    return overload if (result.dtype, result.shape) == (own.dtype, own.shape) else None


def _makes_new(node: Any) -> bool:
    """Return True if none of the node's results shares memory with its inputs. The end of the graph makes nothing: it
    returns a tensor with its newest value."""
    if node.op == "output":
        return True
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable:
        return False
    if any(result.alias_info is not None for result in schema.returns):
        return False
    return schema.name.split("::")[-1] in _NEW or not node.target._can_decompose()


__all__ = ["detach", "functional", "writes"]
