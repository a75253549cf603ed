"""Run one of our op graphs in PyTorch, one ATen op after the other, as eager mode does for a pasted program.

A program has no module whose time could be its baseline; its op graph
(engine.strategies.planner.lowering.program_graph) gives the same computation in ATen ops. Only the ops that such a
graph can hold are supported. Needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from dsl.ir import STATES
from engine.evaluate.correctness.inputs import torch_dtype
from sol.graph import Op, OpGraph

F = torch.nn.functional
_UNARY = {
    "neg": torch.neg, "relu": torch.relu, "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "abs": torch.abs, "sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log, "reciprocal": torch.reciprocal,
    "selu": F.selu, "mish": F.mish, "softplus": F.softplus, "softsign": F.softsign, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "clone": torch.clone, "erf": torch.erf, "sin": torch.sin, "cos": torch.cos,
    "floor": torch.floor, "round": torch.round,
}  # fmt: skip
_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "rsub": torch.rsub,
    "minimum": torch.minimum, "maximum": torch.maximum,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
}  # fmt: skip
_REDUCED = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "logsumexp": torch.logsumexp,
}  # fmt: skip
_OTHERS = {
    "to": lambda x, a: x[0].to(torch_dtype(a.get("dtype", "f32"))),
    "transpose": lambda x, a: x[0].transpose(a["dim0"], a["dim1"]),
    "permute": lambda x, a: x[0].permute(a["dims"]),
    "view": lambda x, a: x[0].reshape(a["size"]),
    "stack": lambda x, a: torch.stack(x, a["dim"]),
    "constant_pad_nd": lambda x, a: F.pad(x[0], a["pad"], value=a["value"]),
    "leaky_relu": lambda x, a: F.leaky_relu(x[0], a.get("negative_slope", 0.01)),
    "elu": lambda x, a: F.elu(x[0], a.get("alpha", 1.0)),
    "gelu": lambda x, a: F.gelu(x[0], approximate=a.get("approximate", "none")),
    "clamp": lambda x, a: torch.clamp(x[0], a.get("min"), a.get("max")),
    "hardtanh": lambda x, a: F.hardtanh(x[0], a.get("min_val", -1.0), a.get("max_val", 1.0)),
    "triu": lambda x, a: torch.triu(x[0], a.get("diagonal", 0)),
    "tril": lambda x, a: torch.tril(x[0], a.get("diagonal", 0)),
    "new_zeros": lambda x, a: x[0].new_zeros(a["size"]),
    "where": lambda x, a: torch.where(x[0], *(a.get(n, t) for n, t in _in_order(x[1:], a))),
    "flip": lambda x, a: torch.flip(x[0], a["dims"]),
    "cumsum": lambda x, a: torch.cumsum(x[0], a["dim"]),
    "cumprod": lambda x, a: torch.cumprod(x[0], a["dim"]),
    "matmul": lambda x, a: torch.matmul(*map(_wide, x)),
    "batch_norm": lambda x, a: F.batch_norm(x[0], x[1], x[2], *_two(x[3:]), training=False, eps=a["eps"]),
    "group_norm": lambda x, a: F.group_norm(x[0], a["num_groups"], *_two(x[1:]), a["eps"]),
}


class UnknownOp(ValueError):
    """The graph holds an op that no program of ours produces."""


def run(graph: OpGraph, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The graph's outputs. Raises UnknownOp."""
    values: dict[str, Any] = dict(inputs)
    with torch.no_grad():
        for op in graph.ops:
            x = [values[n] for n in op.inputs]
            if op.op in STATES:
                values |= zip(op.outputs, _network(op, x), strict=True)
            else:
                values[op.outputs[0]] = _one(op, x)
    return [values[n] for n in graph.outputs]


def _one(op: Op, x: list[torch.Tensor]) -> torch.Tensor:
    a = op.attrs
    if op.op in _UNARY:
        return _UNARY[op.op](x[0])
    if op.op in _BINARY:
        return _BINARY[op.op](x[0], x[1] if len(x) > 1 else a["other"])
    if op.op in _OTHERS:
        return _OTHERS[op.op](x, a)
    if op.op in _REDUCED:
        return _REDUCED[op.op](x[0], a["dim"], keepdim=a["keepdim"])
    if op.op == "slice":
        at = [slice(None)] * x[0].dim()
        at[a["dim"]] = slice(a["start"], a["end"], a["step"])
        return x[0][tuple(at)]
    if op.op.startswith("conv"):
        return getattr(F, op.op)(x[0], x[1], **a)
    if "_pool" in op.op:
        return getattr(F, op.op)(x[0], **a)
    if op.op == "_grouped_mm":
        parts = x[0].split([int(n) for n in x[2]])
        return torch.cat([torch.matmul(rows, w) for rows, w in zip(parts, x[1], strict=True)])
    if op.op == "argmax":
        return _argmax(x[0], a["dim"], a["keepdim"])
    if op.op in ("softmax", "log_softmax"):
        if len(a["dim"]) == 1:
            return getattr(F, op.op)(x[0], a["dim"][0])
        log = x[0] - torch.logsumexp(x[0], a["dim"], keepdim=True)
        return log if op.op == "log_softmax" else log.exp()
    if op.op in ("layer_norm", "rms_norm", "instance_norm"):
        return _normalized(op.op, x, a)
    raise UnknownOp(f"the op graph of a program holds {op.op!r}")


def _network(op: Op, x: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """PyTorch's recurrent network: the sequence and the last states. `x`: its input, states and weights."""
    a, count = op.attrs, STATES[op.op]
    hx = x[1] if count == 1 else x[1:3]
    names = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
    return getattr(torch, op.op)(x[0], hx, x[1 + count :], *(a[n] for n in names))


def _in_order(tensors: list[torch.Tensor], a: dict[str, Any]) -> list[tuple[str, torch.Tensor | None]]:
    """The two values of a `where`: each tensor under the name that is no number."""
    rest = iter(tensors)
    return [(name, None if name in a else next(rest)) for name in ("self", "other")]


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Widen 8-bit elements, which PyTorch's matmul does not take."""
    return x.to(torch.float32) if x.element_size() == 1 else x


def _two(x: list[torch.Tensor]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return tuple((*x, None, None)[:2])


def _argmax(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
    if len(dims) == 1:
        return x.argmax(dims[0], keepdim=keepdim).to(torch.int32)
    remaining = [i for i in range(x.dim()) if i not in dims]
    index = x.permute(*remaining, *dims).flatten(len(remaining)).argmax(-1).to(torch.int32)
    return index.reshape([1 if i in dims else n for i, n in enumerate(x.shape)]) if keepdim else index


def _normalized(op: str, x: list[torch.Tensor], a: dict[str, Any]) -> torch.Tensor:
    """PyTorch's own kernel if it has one for these axes, else the formula."""
    x0, (weight, bias) = x[0], _two(x[1:])
    rank = x0.dim()
    if op == "instance_norm":
        return F.instance_norm(x0, weight=weight, bias=bias, eps=a["eps"])
    dims = a["dim"]
    if dims == list(range(dims[0], rank)):
        shape = x0.shape[dims[0] :]
        weight, bias = (p if p is None else p.reshape(shape) for p in (weight, bias))
        if op == "layer_norm":
            return F.layer_norm(x0, shape, weight, bias, a["eps"])
        y = F.rms_norm(x0, shape, weight, a["eps"])
        return y if bias is None else y + bias
    center = x0 - x0.mean(dims, keepdim=True) if op == "layer_norm" else x0
    y = center * torch.rsqrt(center.square().mean(dims, keepdim=True) + a["eps"])
    wide = [x0.shape[i] if i in dims else 1 for i in range(rank)]
    y = y if weight is None else y * weight.reshape(wide)
    return y if bias is None else y + bias.reshape(wide)
