"""One module of the suite on one device: its parameters, fresh inputs, what is right, and PyTorch's own error.

What is right is the module itself in float64. A product is computed whole; of a convolution's batch a few images are,
drawn from the run's seed with the last one always among them, because float64 has no fast convolution. So that no
other image goes unseen, a program's whole result is also held against PyTorch's whole result with TF32.

`small` makes everything little, for the CPU: batches, images and matrices shrink, channels stay.
"""

from __future__ import annotations

import copy
import inspect
import random
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import torch

from engine.evaluate.correctness.inputs import FAR, LARGE, TINY
from engine.evaluate.correctness.rounding import truncate_tf32
from engine.evaluate.correctness.tolerance import Comparison, PyTorchError
from engine.evaluate.reference.pytorch_classes import HALF, UNUSED, as_class

CHUNK = 1 << 26  # elements compared at a time
CONV_FLOPS = 60e9  # of the images whose float64 result is computed
_SMALL = {"BATCH": 2, "ROWS": 16, "DEPTH": 8, "HEIGHT": 24, "WIDTH": 26, "LENGTH": 64}


def names_of(path: Path) -> dict[str, Any]:
    """The module file executed. These are our own examples, so they need no sandbox."""
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names


def shrink(names: dict[str, Any]) -> None:
    """Replace the sizes that a module file names. Matrices keep distinct, divisible sizes."""
    for name, value in list(names.items()):
        if not name.isupper() or not isinstance(value, int):
            continue
        if name in _SMALL:
            names[name] = min(value, _SMALL[name])
        elif value >= 1024:
            names[name] = max(value // 32, 32) if name in ("IN", "OUT", "HIDDEN") else value // 16


def _inputs(names: dict[str, Any], small: bool) -> list[torch.Tensor]:
    if not small or any(n.isupper() for n in names):
        return names["get_inputs"]()
    real = torch.randn
    try:  # a file that writes its sizes as numbers
        torch.randn = lambda *shape, **kwargs: real(*(max(d // 16, min(d, 4)) for d in shape), **kwargs)
        return names["get_inputs"]()
    finally:
        torch.randn = real


@dataclass
class Instance:
    """`values`: every tensor by the name under which a program binds it."""

    model: torch.nn.Module
    inputs: list[torch.Tensor]
    values: dict[str, torch.Tensor]
    images: list[int] | None  # of the batch, those whose float64 result is computed; None: all
    small: bool
    right: torch.Tensor | None = None
    eager: torch.Tensor | None = None
    own: dict[str, PyTorchError] = field(default_factory=dict)
    permitted: bool = False  # whether own["tf32"] has been asked: is it TF32 at all?

    @staticmethod
    def make(path: Path, seed: int, device: str, small: bool = False) -> Instance:
        names = names_of(path)
        if small:
            shrink(names)
        torch.manual_seed(seed)
        with torch.no_grad(), torch.device(device):
            model = names["Model"](*names["get_init_inputs"]()).eval()
            _vary(model)
            inputs = _inputs(names, small)
        forward = list(inspect.signature(names["Model"].forward).parameters)[1:]
        values = dict(zip(forward, inputs, strict=True))
        values |= {path.replace(".", "_"): t.detach() for path, t in model.state_dict().items()}
        return Instance(model, inputs, values, _images(model, inputs, seed) if not small else None, small)

    def seen(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor as the program sees it. Raises ValueError where the module has none or its size differs."""
        if name not in self.values:
            raise ValueError(f"the module has no `{name}`; it has {', '.join(self.values)}")
        x = self.values[name]
        if not self.small:
            if x.numel() != prod(shape):
                raise ValueError(f"`{name}` has the shape {list(x.shape)}; the program wants {list(shape)}")
            return x.reshape(shape).contiguous()
        if len(shape) == x.dim():
            return x
        return x.reshape(-1) if len(shape) == 1 else x.reshape(-1, x.shape[-1])

    def call(self) -> torch.Tensor:
        """The module as it is, on all of its inputs."""
        with torch.no_grad():
            return self.model(*self.inputs)

    def uneven(self) -> Instance:
        """The same module where the last row, or image, of its first input is 10^6 times as large."""
        first = self.inputs[0].clone()
        first[-1:] *= FAR
        return self.with_first(first)

    def scaled(self) -> dict[str, Instance]:
        """The same module on its first input times what the families of that name have
        (engine.evaluate.correctness.inputs): overflow, or what is flushed to zero, shows."""
        return {name: self.with_first(self.inputs[0] * by) for name, by in (("large", LARGE), ("tiny", TINY))}

    def with_first(self, first: torch.Tensor) -> Instance:
        """The same module with another first input; what is right of it is not known yet."""
        _, *rest = self.inputs
        values = {name: first if x is self.inputs[0] else x for name, x in self.values.items()}
        return replace(self, inputs=[first, *rest], values=values, right=None, eager=None, own={}, permitted=False)

    def sampled(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.images is None else x[self.images]

    def prepare(self) -> None:
        """Compute what is right, and the whole result that PyTorch gives with TF32. Once."""
        if self.right is not None:
            return
        with torch.no_grad():
            self.eager = self.call()
            wide = copy.deepcopy(self.model).double()
            inputs = [self.sampled(x).double() for x in self.inputs]
            try:
                self.right = wide(*inputs)
            except RuntimeError:  # cuDNN has no float64 kernel for this one; PyTorch's own is slow and always there
                with torch.backends.cudnn.flags(enabled=False):
                    self.right = wide(*inputs)
        if not self.small:
            self.own["tf32"] = _own(compare(self.sampled(self.eager), self.right))

    def pytorch_error(self, cls: str) -> PyTorchError | None:
        """PyTorch's error when the whole module runs in the class; None for f32.

        TF32 is a permission: cuDNN multiplies in f32 all the same where it likes that better (three channels, say).
        Such a run is none of the class, and the class's error is then that of the module on rounded operands.
        """
        if self.small and cls != "fp8":
            return self._rounded_error(cls)
        if cls == "tf32" and not self.permitted:
            self.permitted = True
            rounded = self._rounded_error(cls)
            if rounded is not None and self.own["tf32"].error < rounded.error / UNUSED:
                self.own["tf32"] = rounded
        if cls not in self.own and cls in (*HALF, "fp8"):
            with torch.no_grad(), as_class(cls, self.inputs[0].device.type):
                self.own[cls] = _own(compare(self.model(*map(self.sampled, self.inputs)), self.right))
        return self.own.get(cls)

    def _rounded_error(self, cls: str) -> PyTorchError | None:
        """Where PyTorch has no such run: the module in float64 on inputs and weights rounded as the class does."""
        rounds = {"tf32": truncate_tf32, "f16": torch.Tensor.half, "bf16": torch.Tensor.bfloat16}
        if cls not in rounds:
            return None
        with torch.no_grad():
            model = copy.deepcopy(self.model).double()
            for p in model.parameters():
                if p.dim() > 1:
                    p.copy_(rounds[cls](p.float()).double())
            inputs = [rounds[cls](self.sampled(x)).double() for x in self.inputs]
            try:
                out = model(*inputs)
            except RuntimeError:  # as in `prepare`
                with torch.backends.cudnn.flags(enabled=False):
                    out = model(*inputs)
        return _own(compare(out, self.right))

    def scope(self) -> str:
        """How much of the result was held against float64, in words."""
        if self.images is None:
            return "all elements against float64"
        return f"{len(self.images)} of {self.inputs[0].shape[0]} images against float64, all against eager TF32"


def _own(c: Comparison) -> PyTorchError:
    return PyTorchError(c.error, c.max_error, c.unexpected)


def _vary(model: torch.nn.Module) -> None:
    """Parameters and statistics that begin as all ones or all zeros would hide mistakes: they are drawn anew."""
    for t in (*model.parameters(), *model.buffers()):
        if not t.is_floating_point() or t.numel() < 2 or not bool((t == t.flatten()[0]).all()):
            continue
        one = float(t.flatten()[0]) == 1.0
        t.data.copy_(torch.rand_like(t) + 0.5 if one else torch.randn_like(t) * 0.5)


def _images(model: torch.nn.Module, inputs: list[torch.Tensor], seed: int) -> list[int] | None:
    convs = [m for m in model.modules() if isinstance(m, torch.nn.modules.conv._ConvNd)]
    if not convs:
        return None
    batch, pixels = inputs[0].shape[0], prod(inputs[0].shape[2:])
    each = 2.0 * pixels * sum(m.weight.numel() / prod(m.stride) ** (not m.transposed) for m in convs)
    many = min(batch, max(2, int(CONV_FLOPS / each)))
    return sorted({*random.Random(seed).sample(range(batch), many - 1), batch - 1})


def compare(out: torch.Tensor, right: torch.Tensor) -> Comparison:
    """engine.evaluate.correctness.tolerance.compare a piece at a time: results of 8 GB leave no room for five copies
    in f64."""
    if out.numel() != right.numel():
        raise ValueError(f"the result has the shape {list(out.shape)}; the module gives {list(right.shape)}")
    total = squares = 0.0
    worst, unexpected = 0.0, 0
    for x, y in zip(out.reshape(-1).split(CHUNK), right.reshape(-1).split(CHUNK), strict=True):
        x, y = x.to(torch.float64), y.to(torch.float64)
        wrong = torch.isfinite(x) != torch.isfinite(y)
        wrong |= ~torch.isfinite(y) & (torch.nan_to_num(x) != torch.nan_to_num(y))
        unexpected += int(wrong.sum())
        d = torch.where(torch.isfinite(x) & torch.isfinite(y), x - y, 0.0)
        squares += float(d.square().sum())
        total += float(torch.where(torch.isfinite(y), y, 0.0).square().sum())
        worst = max(worst, float(d.abs().max()))
    scale = total**0.5 if total > 0 else 1.0
    rms = scale / right.numel() ** 0.5 if total > 0 else 1.0
    return Comparison(squares**0.5 / scale, worst / rms, unexpected, right.numel())
