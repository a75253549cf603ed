"""A live module as the text of one, for a session: the same operations on tensors of the same shapes and statistics.

A session takes text, because its module runs confined, in processes of their own. The text's weights are random, drawn
with the mean, deviation and range of the module's own; indices, masks and other tensors whose values decide what is
computed are kept as they are. The module's weights never leave this process.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from engine.evaluate.candidate import aten_calls
from engine.evaluate.correctness.inputs import torch_dtype
from sol.graph import Op, OpGraph

SIZED = ("view", "reshape", "_unsafe_view")
EXACT_BYTES = 40_000  # of a tensor's values in the text, packed; more are drawn
HEAD = '''"""{title}"""

import base64
import zlib

import torch
from torch import nn


def drawn(shape, dtype, mean, deviation, low, high):
    """Floats with these statistics."""
    return torch.randn(shape).mul_(deviation).add_(mean).clamp_(low, high).to(dtype)


def exact(packed, shape, dtype):
    """A tensor by its bytes."""
    values = bytearray(zlib.decompress(base64.b85decode(packed)))
    return torch.frombuffer(values, dtype=torch.uint8).view(dtype).reshape(shape).clone()


'''


class NotWritten(ValueError):
    """The module cannot be written as text; the message names the operation or the size."""


def write(title: str, graph: OpGraph, values: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]) -> str:
    """The text of a module whose graph is `graph`. `values`: its parameters, buffers and constants by their names in
    the graph; `inputs`: the example inputs, in order. Raises NotWritten."""
    lines = [HEAD.format(title=title.replace('"', "'").replace("\\", "/")), "class Model(nn.Module):"]
    lines += ["    def __init__(self):", "        super().__init__()"]
    for name, tensor in values.items():
        value = _value(tensor.detach())
        if graph.tensors[name].kind == "parameter" and tensor.is_floating_point():
            lines.append(f"        self.{attribute(name)} = nn.Parameter({value}, requires_grad=False)")
        else:
            lines.append(f"        self.register_buffer({attribute(name)!r}, {value})")
    arguments = [_local(name) for name in graph.inputs]
    lines += ["", f"    def forward(self, {', '.join(arguments)}):"]
    lines += [f"        device = {arguments[0]}.device"]
    lines += [f"        {_operation(op, graph)}" for op in graph.live]
    for old, new in graph.written.items():
        lines.append(f"        {_read(old, graph)}.copy_({_read(new, graph)})")
    lines += [f"        return {', '.join(_read(n, graph) for n in graph.returned)}", "", ""]
    lines += ["def get_inputs():", "    return [", *(f"        {_value(x.detach())}," for x in inputs), "    ]", ""]
    return "\n".join(lines)


def attribute(name: str) -> str:
    """The attribute of one of the module's tensors, apart from what nn.Module has."""
    return f"t_{name}"


def _local(name: str) -> str:
    return f"v_{name}"


def _read(name: str, graph: OpGraph) -> str:
    return _local(name) if graph.tensors[name].kind in ("intermediate", "input") else f"self.{attribute(name)}"


def _operation(op: Op, graph: OpGraph) -> str:
    makes, reads = [_local(n) for n in op.outputs], [_read(n, graph) for n in op.inputs]
    if op.op in SIZED:
        return f"{makes[0]} = {reads[0]}.reshape({list(graph.tensors[op.outputs[0]].shape)})"
    call = aten_calls.find(op.op, len(reads), op.attrs, _DEVICE, torch_dtype)
    if call is None:
        raise NotWritten(f"PyTorch {torch.__version__} has no aten.{op.op} that takes {op.attrs}")
    arguments = [_argument(how, reads) for how in call.ordered]
    arguments += [f"{name}={_argument(how, reads)}" for name, how in call.named]
    schema = call.overload._schema
    name = f"torch.ops.{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
    single = len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor"
    return f"{makes[0] if single else ', '.join([*makes, '*_'])} = {name}({', '.join(arguments)})"


_DEVICE = object()


def _argument(how: Any, reads: list[str]) -> str:
    if isinstance(how, aten_calls.Several):
        return f"[{', '.join('None' if i is None else reads[i] for i in how)}]"
    if not isinstance(how, aten_calls.Given):
        return f"{reads[how]}.cpu()" if isinstance(how, aten_calls.OnHost) else reads[how]
    return "device" if how.value is _DEVICE else _constant(how.value)


def _constant(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(map(_constant, value))}]"
    return str(value) if isinstance(value, torch.dtype | torch.layout | torch.memory_format) else repr(value)


def _value(x: torch.Tensor) -> str:
    """The expression of a tensor like this one."""
    shape, dtype = list(x.shape), str(x.dtype)
    if not x.numel():
        return f"torch.empty({shape}, dtype={dtype})"
    if bool((x == x.flatten()[0]).all()):
        return f"torch.full({shape}, {_constant(x.flatten()[0].item())}, dtype={dtype})"
    if x.is_floating_point() and x.element_size() > 1 and bool(torch.isfinite(x).all()):
        wide = x.float()
        low, high = wide.aminmax()
        numbers = ", ".join(f"{float(v):.6g}" for v in (wide.mean(), wide.std(), low, high))
        return f"drawn({shape}, {dtype}, {numbers})"
    raw = x.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    packed = base64.b85encode(zlib.compress(raw, 9)).decode()
    if len(packed) <= EXACT_BYTES:
        return f"exact({packed!r}, {shape}, {dtype})"
    if x.dtype == torch.bool:
        return f"torch.rand({shape}) < {float(x.float().mean()):.6g}"
    if not x.is_floating_point() and not x.is_complex():
        low, high = x.aminmax()
        return f"torch.randint({int(low)}, {int(high) + 1}, {shape}, dtype={dtype})"
    raise NotWritten(f"a {dtype} tensor {shape} with infinite values is too large to be kept")


__all__ = ["NotWritten", "attribute", "write"]
