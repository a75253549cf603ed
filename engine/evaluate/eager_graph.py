"""An op graph of ours run by PyTorch, one ATen op after the other: what eager mode does with a pasted program.

A program has no module whose time could be its baseline; its op graph (engine.strategies.program_graph) says in
ATen's words what a module would have said. Only the ops that that graph can hold are known here. Needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from engine.evaluate.inputs import torch_dtype
from sol.graph import Op, OpGraph

F = torch.nn.functional
_UNARY = {
    "neg": torch.neg, "relu": torch.relu, "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "abs": torch.abs, "sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log, "reciprocal": torch.reciprocal,
}  # fmt: skip
_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "rsub": torch.rsub,
    "matmul": torch.matmul, "minimum": torch.minimum, "maximum": torch.maximum,
}  # fmt: skip


class UnknownOp(ValueError):
    """The graph holds an op that no program of ours makes."""


def run(graph: OpGraph, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The graph's outputs. Raises UnknownOp."""
    values: dict[str, Any] = dict(inputs)
    with torch.no_grad():
        for op in graph.ops:
            values[op.outputs[0]] = _one(op, [values[n] for n in op.inputs])
    return [values[n] for n in graph.outputs]


def _one(op: Op, x: list[torch.Tensor]) -> torch.Tensor:
    a = op.attrs
    if op.op in _UNARY:
        return _UNARY[op.op](x[0])
    if op.op in _BINARY:
        return _BINARY[op.op](x[0], x[1] if len(x) > 1 else a["other"])
    if op.op == "to":
        return x[0].to(torch_dtype(a.get("dtype", "f32")))
    if op.op == "transpose":
        return x[0].transpose(a["dim0"], a["dim1"])
    if op.op == "view":
        return x[0].reshape(a["size"])
    if op.op == "leaky_relu":
        return F.leaky_relu(x[0], a.get("negative_slope", 0.01))
    if op.op == "gelu":
        return F.gelu(x[0], approximate=a.get("approximate", "none"))
    if op.op == "clamp":
        return torch.clamp(x[0], a.get("min"), a.get("max"))
    raise UnknownOp(f"the op graph of a program holds {op.op!r}")
