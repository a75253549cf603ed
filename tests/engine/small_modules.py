"""Modules of engine/problems at small sizes on the CPU: their parameters, inputs, float64 result and the error of
rounded operands.

Batches, images and matrices shrink; channels stay.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.evaluate.correctness.rounding import truncate_tf32
from engine.evaluate.correctness.tolerance import Comparison, PyTorchError
from engine.evaluate.correctness.tolerance import compare as compare_same_shape

_SMALL = {"BATCH": 2, "ROWS": 16, "DEPTH": 8, "HEIGHT": 24, "WIDTH": 26, "LENGTH": 64}
_ROUNDING = {"tf32": truncate_tf32, "f16": torch.Tensor.half, "bf16": torch.Tensor.bfloat16}


def names_of(path: Path) -> dict[str, Any]:
    """The names of a module file that was executed. These are our own examples, so they need no sandbox."""
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names


def compare(out: torch.Tensor, right: torch.Tensor) -> Comparison:
    """The comparison of engine.evaluate.correctness.tolerance. Raises ValueError if the sizes differ."""
    if out.numel() != right.numel():
        raise ValueError(f"the result has the shape {list(out.shape)}; the module gives {list(right.shape)}")
    return compare_same_shape(out.reshape(right.shape), right)


@dataclass
class Instance:
    """One module at small sizes. `right`: its float64 result, after `prepare`."""

    model: torch.nn.Module
    inputs: list[torch.Tensor]
    right: torch.Tensor | None = None

    @staticmethod
    def make(path: Path, seed: int) -> Instance:
        names = names_of(path)
        _shrink(names)
        torch.manual_seed(seed)
        with torch.no_grad():
            model = names["Model"](*names["get_init_inputs"]()).eval()
            _vary(model)
            return Instance(model, _inputs(names))

    def prepare(self) -> None:
        with torch.no_grad():
            self.right = copy.deepcopy(self.model).double()(*(x.double() for x in self.inputs))

    def rounded_error(self, cls: str) -> PyTorchError:
        """The error of the module in float64 on inputs and weights that are rounded as the class rounds them."""
        with torch.no_grad():
            model = copy.deepcopy(self.model).double()
            for p in model.parameters():
                if p.dim() > 1:
                    p.copy_(_ROUNDING[cls](p.float()).double())
            out = model(*(_ROUNDING[cls](x).double() for x in self.inputs))
        comparison = compare(out, self.right)
        return PyTorchError(comparison.error, comparison.max_error, comparison.unexpected)


def _shrink(names: dict[str, Any]) -> None:
    """Replace the sizes that a module file names. Matrices keep distinct, divisible sizes."""
    for name, value in list(names.items()):
        if not name.isupper() or not isinstance(value, int):
            continue
        if name in _SMALL:
            names[name] = min(value, _SMALL[name])
        elif value >= 1024:
            names[name] = max(value // 32, 32) if name in ("IN", "OUT", "HIDDEN") else value // 16


def _inputs(names: dict[str, Any]) -> list[torch.Tensor]:
    if any(n.isupper() for n in names):
        return names["get_inputs"]()
    real = torch.randn
    try:  # a file that writes its sizes as numbers
        torch.randn = lambda *shape, **kwargs: real(*(max(d // 16, min(d, 4)) for d in shape), **kwargs)
        return names["get_inputs"]()
    finally:
        torch.randn = real


def _vary(model: torch.nn.Module) -> None:
    """Draw new values for parameters and statistics that are all ones or all zeros, which would hide mistakes."""
    for t in (*model.parameters(), *model.buffers()):
        if not t.is_floating_point() or t.numel() < 2 or not bool((t == t.flatten()[0]).all()):
            continue
        ones = float(t.flatten()[0]) == 1.0
        t.data.copy_(torch.rand_like(t) + 0.5 if ones else torch.randn_like(t) * 0.5)
