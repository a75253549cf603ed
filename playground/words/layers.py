"""One operation -> the lines of its module. `Build` is the module under construction."""

from __future__ import annotations

import math
from typing import Any

from dsl.functions import TABLE
from playground.words.request import Request, Step, shown
from playground.words.shapes import SPATIAL, shape_text
from playground.words.tokens import Unclear

# Functions of each element as PyTorch writes them; {x} is the value.
CALLS = {
    "relu": "torch.relu({x})", "gelu": "F.gelu({x})", "gelu_tanh": 'F.gelu({x}, approximate="tanh")',
    "silu": "F.silu({x})", "sigmoid": "torch.sigmoid({x})", "tanh": "torch.tanh({x})", "abs": "torch.abs({x})",
    "sqrt": "torch.sqrt({x})", "exp": "torch.exp({x})", "log": "torch.log({x})", "selu": "F.selu({x})",
    "mish": "F.mish({x})", "softplus": "F.softplus({x})", "softsign": "F.softsign({x})", "square": "torch.square({x})",
    "hardswish": "F.hardswish({x})", "hardsigmoid": "F.hardsigmoid({x})", "neg": "-{x}",
    "erf": "torch.erf({x})", "sin": "torch.sin({x})", "cos": "torch.cos({x})", "floor": "torch.floor({x})",
    "round": "torch.round({x})",
}  # fmt: skip
POSITIVE = ("sqrt", "log")  # their inputs must not be negative
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


class Build:
    """The module under construction. `shape`: of the value x at this point. `inputs`: [(name, shape)]."""

    def __init__(self, request: Request):
        self.request, self.facts = request, request.facts
        self.dtype: str = request.facts.get("dtype", "float32")
        self.inputs: list[tuple[str, tuple[int, ...]]] = []
        self.shape: tuple[int, ...] = ()
        self.init: list[str] = []
        self.forward: list[str] = []
        self.methods: list[str] = []
        self.assumed: list[str] = []
        self.understood: list[str] = []
        self._names: dict[str, int] = {}

    def note(self, text: str) -> None:
        if text not in self.assumed:
            self.assumed.append(text)

    def name(self, base: str) -> str:
        """linear, linear2, linear3, ..."""
        self._names[base] = self._names.get(base, 0) + 1
        return base if self._names[base] == 1 else f"{base}{self._names[base]}"

    def layer(self, base: str, value: str) -> str:
        """Add a submodule or parameter; return self.NAME."""
        name = self.name(base)
        self.init.append(f"self.{name} = {value}")
        return f"self.{name}"

    def typed(self, *arguments: Any) -> str:
        """Arguments of a layer with its type, if that is not PyTorch's own."""
        more = [] if self.dtype == "float32" else [f"dtype=torch.{self.dtype}"]
        return ", ".join([*(str(a) for a in arguments if a not in (None, "")), *more])

    def set(self, expression: str, shape: tuple[int, ...] | None = None) -> None:
        self.forward.append(f"x = {expression}")
        if shape is not None:
            self.shape = tuple(shape)

    def operand(self, shape: tuple[int, ...]) -> str:
        """A further input of the module."""
        name = "yzuvw"[len(self.inputs) - 1] if 1 <= len(self.inputs) <= 5 else f"x{len(self.inputs)}"
        self.inputs.append((name, tuple(shape)))
        return name

    @property
    def axes(self) -> int:
        """Axes of the images; 0 for rows."""
        return max(0, len(self.shape) - 2) if self.images else 0

    images = False  # the value is (batch, channels, *spatial)
    positive = False  # the inputs are drawn from 0 to 1

    def flat(self) -> None:
        """Flatten images before a layer that reads rows."""
        if self.images and len(self.shape) > 2:
            self.set("torch.flatten(x, 1)", (self.shape[0], math.prod(self.shape[1:])))
            self.note("the images are flattened before the linear layer")
        self.images = False


def per_channel(b: Build) -> tuple[int, str]:
    """The number of features or channels, and the shape of a parameter with one value for each."""
    if b.images:
        return b.shape[1], ", ".join(map(str, (b.shape[1], *[1] * b.axes)))
    return b.shape[-1], str(b.shape[-1])


def parameter(b: Build, base: str) -> str:
    kind = "" if b.dtype == "float32" else f", dtype=torch.{b.dtype}"
    return b.layer(base, f"nn.Parameter(torch.randn({per_channel(b)[1]}{kind}))")


def bias_argument(b: Build, step: Step) -> str:
    if step.attrs.get("bias") is None:
        b.note("layers have a bias, as PyTorch's do")
    return "bias=False" if step.attrs.get("bias") is False else ""


def linear(b: Build, step: Step) -> None:
    b.flat()
    chain = list(step.attrs.get("chain", ()))
    start = step.attrs.get("in") or (chain[0] if chain else None)
    ends = chain[1:] or ([step.attrs["out"]] if "out" in step.attrs else [])
    if start is not None and start != b.shape[-1]:
        raise Unclear(
            f"“{step.text}” takes {start} features, and the value before it has {b.shape[-1]} ({shape_text(b.shape)}).",
            f"Write a layer from {b.shape[-1]}, or change the layer before it to give {start}.",
        )
    if not ends:
        first = b.inputs[0][1][-1]
        ends = [first] if step.attrs.get("back") else [b.shape[-1]]
        b.note(f"the linear layer has {ends[0]} outputs")
    for end in ends:
        _whole(end, "outputs")
        bias = bias_argument(b, step)
        name = b.layer("linear", f"nn.Linear({b.typed(b.shape[-1], end, bias)})")
        b.understood.append(f"a linear layer from {b.shape[-1]} to {end}{', without bias' if bias else ''}")
        b.set(f"{name}(x)", (*b.shape[:-1], end))


def _whole(value: Any, what: str) -> None:
    if not isinstance(value, int) or not 1 <= value <= 1 << 24:
        raise Unclear(f"{value} is no number of {what}.", "Write a whole number from 1 to 16,777,216.")


def matmul(b: Build, step: Step) -> None:
    a, w, first = step.attrs["a"], step.attrs["b"], step.attrs.get("first")
    if len(a) < 2 or len(w) < 2:
        raise Unclear(
            f"“{step.text}” multiplies {shape_text(a)} and {shape_text(w)}, and one of them is no matrix.",
            "Write two matrices, for example 1024x8192 times 8192x512.",
        )
    left = "x.transpose(-2, -1)" if step.attrs.get("t1") else "x"
    name = b.operand(w)
    right = f"{name}.transpose(-2, -1)" if step.attrs.get("t2") else name
    rows = (a[-1], a[-2]) if step.attrs.get("t1") else a[-2:]
    columns = w[-2] if step.attrs.get("t2") else w[-1]
    inner = w[-1] if step.attrs.get("t2") else w[-2]
    if rows[1] != inner:
        raise Unclear(
            f"The inner sizes of {shape_text(a)} times {shape_text(w)} differ: {rows[1]} columns, {inner} rows.",
            f"Make both {rows[1]}, or say which matrix is transposed.",
        )
    b.understood.append(f"{'a product' if first else 'then a product'} of {shape_text(a)} and {shape_text(w)}")
    batch = a[:-2] if len(a) > 2 else w[:-2]
    b.set(f"torch.matmul({left}, {right})", (*batch, rows[0], columns))


def arithmetic(b: Build, step: Step) -> None:
    sign, number = SIGNS[step.op], step.attrs.get("number")
    words = {"add": "plus", "sub": "minus", "mul": "times", "div": "divided by"}[step.op]
    if number is not None:
        if step.op == "div" and number == 0:
            raise Unclear("The description divides by 0.", "Divide by another number.")
        b.set(f"x {sign} {float(number)}")
        b.understood.append(f"{words} {number}")
    elif step.attrs.get("learn") or step.text.lower().startswith("scal"):
        b.set(f"x {sign} {parameter(b, 'scale' if step.op == 'mul' else 'shift')}")
        b.understood.append(f"{words} a parameter with one value for each {'channel' if b.images else 'feature'}")
        if not step.attrs.get("learn"):
            b.note("the scale is a parameter; write “scale by 2” for a number")
    else:
        b.set(f"x {sign} {b.operand(b.shape)}")
        b.understood.append(f"{words} a second tensor")
        b.note(f"the second tensor of “{step.text}” has the shape {shape_text(b.shape)}")


def residual(b: Build, step: Step) -> None:
    name, shape = b.inputs[0]
    if shape == b.shape:
        b.forward.insert(0, f"residual = {name}") if "residual = x" not in b.forward else None
        b.set("x + residual")
        b.understood.append("plus the module's input (residual)")
    else:
        b.set(f"x + {b.operand(b.shape)}")
        b.understood.append("plus a residual")
        b.note(f"the residual is a second input of {shape_text(b.shape)}, for the input is {shape_text(shape)}")


def bias(b: Build, step: Step) -> None:
    b.set(f"x + {parameter(b, 'bias')}")
    b.understood.append("plus a bias")


def function(b: Build, step: Step) -> None:
    op, attrs = step.op, step.attrs
    if op == "gelu" and attrs.get("approximate"):
        op = "gelu_tanh"
    if op in ("clamp", "hardtanh"):
        lo, hi = attrs.get("lo"), attrs.get("hi")
        if op == "hardtanh" or (lo is None and hi is None):
            if lo is None and hi is None:
                b.note(f"{op} has the limits -1 and 1")
            lo, hi = (-1.0 if lo is None else lo), (1.0 if hi is None else hi)
        if lo is not None and hi is not None and lo >= hi:
            raise Unclear(f"{op} has the limits {lo} and {hi}.", "Write the lower limit first.")
        if op == "hardtanh":
            b.set(f"F.hardtanh(x, {float(lo)}, {float(hi)})")
        else:
            ends = [f"{n}={float(v)}" for n, v in (("min", lo), ("max", hi)) if v is not None]
            b.set(f"torch.clamp(x, {', '.join(ends)})")
        b.understood.append(f"{op} {'' if lo is None else f'from {lo} '}{'' if hi is None else f'to {hi}'}".rstrip())
        return
    if op in ("leaky_relu", "elu"):
        key = "slope" if op == "leaky_relu" else "alpha"
        value = attrs.get(key)
        if value is None:
            value = next(a.default for a in TABLE[op].args if a.name == key)
            b.note(f"{op.replace('_', ' ')} has {key} {value}")
        b.set(f"F.{op}(x, {float(value)})")
    else:
        if op in POSITIVE and not b.forward:
            b.note(f"the input of {op} is drawn from 0 to 1, without negative values")
            b.positive = True
        b.set(CALLS[op].format(x="x"))
    b.understood.append(op.replace("_", " "))


def triangle(b: Build, step: Step) -> None:
    b.set(f"torch.{step.op}(x)")
    b.understood.append("the upper triangle" if step.op == "triu" else "the lower triangle")


def axis_of(b: Build, step: Step) -> tuple[Any, str]:
    """(dim or None for all, its name) of a reduction or a softmax."""
    wanted, rank = step.attrs.get("axis"), len(b.shape)
    if wanted == "all":
        return None, "all elements"
    if isinstance(wanted, int):
        if not -rank <= wanted < rank:
            fix = f"Its dimensions are 0 to {rank - 1}."
            raise Unclear(f"“{step.text}” over dimension {wanted}: the value is {shape_text(b.shape)}.", fix)
        return wanted, f"dimension {wanted}"
    if wanted == "spatial" and b.images:
        return tuple(range(2, rank)), "the positions of each image"
    if wanted == "channels" and b.images:
        return 1, "the channels"
    if wanted == "first":
        return (0 if rank == 2 or b.images else -2), "each column"
    if wanted == "sequence" and rank >= 3 and not b.images:
        return -2, "the sequence"
    if wanted is None:
        b.note(f"{step.op.replace('_', '-')} goes over {'the channels' if b.images else 'the last dimension'}")
    elif wanted == "columns":
        b.note(f"{step.op} over the columns gives one value for each row (dimension {rank - 1})")
    return (
        1 if b.images and wanted is None else -1
    ), "the channels" if b.images and wanted is None else "the last axis"


def softmax(b: Build, step: Step) -> None:
    dim, words = axis_of(b, step)
    if dim is None or isinstance(dim, tuple):
        raise Unclear(
            f"{step.text} over {words} has no rule.", "Name one dimension, such as “over the last dimension”."
        )
    b.set(f"torch.{step.op}(x, dim={dim})")
    b.understood.append(f"{step.op.replace('_', ' ')} over {words}")


def reduction(b: Build, step: Step) -> None:
    number = step.attrs.get("number")
    if number is not None:
        b.set(f"torch.clamp(x, {'min' if step.op == 'max' else 'max'}={float(number)})")
        b.understood.append(f"at {'least' if step.op == 'max' else 'most'} {number}")
        return
    if step.attrs.get("tensor"):
        b.set(f"torch.{step.op}imum(x, {b.operand(b.shape)})")
        b.understood.append(f"the {step.op}imum with a second tensor")
        return
    call = {"max": "amax", "min": "amin"}.get(step.op, step.op)
    dim, words = axis_of(b, step)
    keep = bool(step.attrs.get("keepdim"))
    dims = tuple(range(len(b.shape))) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    gone = {d % len(b.shape) for d in dims} if b.shape else set()
    shape = tuple(1 if i in gone else n for i, n in enumerate(b.shape) if keep or i not in gone)
    dim = dims if call == "logsumexp" and dim is None else dim
    b.set(f"torch.{call}(x{'' if dim is None else f', dim={dim}'}{', keepdim=True' if keep else ''})", shape)
    b.images = b.images and keep
    b.understood.append(f"{step.op} over {words}{', which stays with size 1' if keep else ''}")


def window(b: Build, step: Step, name: str, default: int) -> tuple[int, ...]:
    """An attribute of a window, one number for each axis of the images."""
    value, n = step.attrs.get(name, default), b.axes
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    values = values * n if len(values) == 1 else values
    least = 0 if "padding" in name else 1
    if len(values) != n or any(not isinstance(v, int) or v < least for v in values):
        sizes = f"{n} sizes of {least} or more"
        fix = f"Write {name.replace('_', ' ')} {shown((max(3, least),) * n)}."
        raise Unclear(f"{name.replace('_', ' ')} {shown(value)} of “{step.text}” does not fit: it needs {sizes}.", fix)
    return values


def need_images(b: Build, step: Step) -> None:
    n = step.attrs.get("nd") or b.axes
    if not b.images or len(b.shape) != n + 2:
        example = shape_text(SPATIAL[n or 2])
        raise Unclear(
            f"“{step.text}” needs images, and the value before it is {shape_text(b.shape)}.",
            f"Name images, for example {example} with 64 channels, or leave it out.",
        )


def brief(values: tuple[int, ...]) -> str:
    """One number if all are equal."""
    return str(values[0]) if len(set(values)) == 1 else str(values)
