"""A module in a few lines, as a lesson shows it: a `work` block becomes an op graph that `sol` prices.

    x: f32[1024, 8192] input
    w: f32[8192, 8192] parameter
    y = linear(x, w)
    z = gelu(y)
    return z

Operations: linear(x, w[, b]), matmul(a, b), conv2d(x, w, stride=1, padding=0), softmax(x), layer_norm(x), sum(x) and
mean(x) over the last axis, transpose(x) of the last two axes, and every element-wise operation that `sol` knows.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

from sol.cost.op_table import POINTWISE
from sol.graph import DTYPE_BYTES, Op, OpGraph, Tensor

KINDS = ("input", "parameter")
MOST_LINES = 60
LARGEST = 1 << 40  # elements
_NAME = r"[A-Za-z_]\w{0,63}"
# Bounded, so that no line of a stranger's lesson takes long to refuse.
_DECLARED = re.compile(rf"^({_NAME}):\s{{0,20}}(\w{{1,20}})\[([\d,\s]{{1,200}})\]\s{{0,20}}(\w{{0,20}})$")
_CALL = re.compile(rf"^({_NAME})\s{{0,20}}=\s{{0,20}}({_NAME})\((.*)\)$")
_RETURN = re.compile(rf"^return\s{{1,20}}({_NAME}(?:\s{{0,20}},\s{{0,20}}{_NAME})*)$")


class WorkError(ValueError):
    """A line that is no line of a work block. `line` counts from 0 at the block's first."""

    def __init__(self, line: int, text: str, fix: str = ""):
        super().__init__(text)
        self.line, self.text, self.fix = line, text, fix


def read(text: str) -> OpGraph:
    """The op graph of a work block. Raises WorkError."""
    tensors: dict[str, Tensor] = {}
    ops: list[Op] = []
    outputs: tuple[str, ...] = ()
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise WorkError(MOST_LINES, f"A work block has at most {MOST_LINES} lines.")
    for number, raw in enumerate(lines):
        line = raw.split("#")[0].strip()
        if not line:
            continue
        if outputs:
            raise WorkError(number, "A line stands after `return`.", "Make `return` the last line.")
        if match := _DECLARED.match(line):
            tensor = _declared(number, *match.groups())
        elif match := _CALL.match(line):
            tensor = _called(number, *match.groups(), tensors, ops)
        elif match := _RETURN.match(line):
            outputs = tuple(name.strip() for name in match[1].split(","))
            for name in outputs:
                _known(number, name, tensors)
            continue
        else:
            fix = "Write `x: f16[64, 64] input`, `y = gelu(x)` or `return y`."
            raise WorkError(number, f"`{line[:60]}` is no line of a work block.", fix)
        if tensor.name in tensors:
            raise WorkError(number, f"{tensor.name} is defined twice.", "Use a new name.")
        tensors[tensor.name] = tensor
    if not outputs:
        raise WorkError(len(lines) - 1, "The work returns nothing.", "End it with `return NAME`.")
    inputs = tuple(name for name, t in tensors.items() if t.kind == "input")
    return OpGraph(tensors, tuple(ops), inputs, outputs)


def _declared(number: int, name: str, dtype: str, dims: str, kind: str) -> Tensor:
    if dtype not in DTYPE_BYTES:
        raise WorkError(number, f"There is no element type {dtype!r}.", f"Use one of {', '.join(DTYPE_BYTES)}.")
    if kind not in KINDS:
        raise WorkError(number, f"{name} is neither an input nor a parameter.", "End the line with input or parameter.")
    shape = tuple(int(d) for d in dims.split(",") if d.strip())
    if not shape or 0 in shape or prod(shape) > LARGEST:
        raise WorkError(number, f"{name} has no usable shape [{dims}].", "Use sizes from 1 up.")
    return Tensor(name, shape, dtype, kind)


def _known(number: int, name: str, tensors: dict[str, Tensor]) -> Tensor:
    if name not in tensors:
        raise WorkError(number, f"There is no tensor {name!r} above this line.", f"Known: {', '.join(tensors)}.")
    return tensors[name]


def _called(number: int, name: str, op: str, text: str, tensors: dict[str, Tensor], ops: list[Op]) -> Tensor:
    operands: list[Tensor] = []
    attributes: dict[str, Any] = {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        if "=" in part:
            key, _, value = (p.strip() for p in part.partition("="))
            if not re.fullmatch(r"\d{1,9}", value):
                raise WorkError(number, f"`{key}` is no whole number.", f"Write for example {key}=1.")
            attributes[key] = int(value)
        elif re.fullmatch(r"-?\d{1,20}(\.\d{1,20})?", part):
            attributes.setdefault("other", float(part))
        else:
            operands.append(_known(number, part, tensors))
    if not operands:
        raise WorkError(number, f"{op} has no operand.", f"Write `{name} = {op}(x)`.")
    try:
        shape, attributes = _result(op, operands, attributes)
    except (IndexError, ValueError) as e:
        words = str(e) if isinstance(e, ValueError) and e.args else f"{op} needs more operands"
        raise WorkError(number, f"{name} = {op}(...): {words}.", "Compare the shapes of its operands.") from None
    ops.append(Op(f"{op}_{name}", op, tuple(t.name for t in operands), (name,), attributes, number + 1))
    return Tensor(name, shape, operands[0].dtype, "intermediate")


def _result(op: str, operands: list[Tensor], options: dict[str, Any]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of the result, and the operation's attributes by their ATen names. Raises ValueError, IndexError."""
    x = operands[0].shape
    if op == "linear":
        w = operands[1].shape
        if len(w) != 2 or w[1] != x[-1]:
            raise ValueError(f"its weight must be [features, {x[-1]}]; it is {list(w)}")
        return (*x[:-1], w[0]), {}
    if op == "matmul":
        b = operands[1].shape
        if len(x) < 2 or len(b) < 2 or x[-1] != b[-2] or (len(b) > 2 and b[:-2] != x[:-2]):
            raise ValueError(f"{list(x)} times {list(b)} do not fit")
        return (*x[:-1], b[-1]), {}
    if op == "conv2d":
        w, stride, pad = operands[1].shape, options.get("stride", 1), options.get("padding", 0)
        groups = options.get("groups", 1)
        if len(x) != 4 or len(w) != 4 or w[1] * groups != x[1] or not stride:
            raise ValueError(f"an image [n, c, h, w] and filters [k, {x[1] if len(x) == 4 else 'c'}, r, s] are needed")
        spatial = tuple((x[i] + 2 * pad - w[i]) // stride + 1 for i in (2, 3))
        if min(spatial) < 1:
            raise ValueError("the filters are larger than the image")
        attributes = {"stride": [stride] * 2, "padding": [pad] * 2, "dilation": [1, 1], "groups": groups}
        return (x[0], w[0], *spatial), attributes
    if op in ("softmax", "layer_norm"):
        return x, {"dim": len(x) - 1} if op == "softmax" else {"normalized_shape": [x[-1]]}
    if op in ("sum", "mean"):
        return x[:-1] or (1,), {"dim": [len(x) - 1]}
    if op == "transpose":
        if len(x) < 2:
            raise ValueError("it needs two axes")
        return (*x[:-2], x[-1], x[-2]), {"dim0": len(x) - 2, "dim1": len(x) - 1}
    if op in POINTWISE:
        return _broadcast([t.shape for t in operands]), options
    raise ValueError(f"a work block has no operation {op!r}")


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {s for s in sizes if s != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)
