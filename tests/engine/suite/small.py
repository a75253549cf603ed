"""A problem of the suite at little sizes, for tests on a CPU: batches, images and matrices shrink, channels stay.

What is right is the module in float64; a program's meaning runs in the place of its machine code.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dsl.check.program import check
from engine.evaluate.correctness import oracle
from engine.evaluate.correctness.rounding import truncate_tf32
from engine.evaluate.correctness.tolerance import PyTorchError, compare, verdict

_SMALL = {"BATCH": 2, "ROWS": 16, "DEPTH": 8, "HEIGHT": 24, "WIDTH": 26, "LENGTH": 64}
_ROUNDS = {"tf32": truncate_tf32, "f16": torch.Tensor.half, "bf16": torch.Tensor.bfloat16}


@dataclass
class Small:
    """`values`: every tensor by the name under which a program binds it; `right`: in float64."""

    model: torch.nn.Module
    inputs: list[torch.Tensor]
    values: dict[str, torch.Tensor]
    right: torch.Tensor

    def seen(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor in as many dimensions as the program sees it."""
        x = self.values[name]
        if len(shape) == x.dim():
            return x
        return x.reshape(-1) if len(shape) == 1 else x.reshape(-1, x.shape[-1])

    def wrong(self, text: str, cls: str) -> str | None:
        """Why the program is not what the module computes, or None. A module that amplifies rounding is held to what
        its own rounding makes of it."""
        program = check(text).program
        (out, *_) = oracle.run(program, [self.seen(p.name, p.type.shape) for p in program.params])
        result = compare(out.reshape(self.right.shape), self.right)
        if words := verdict(cls, result):
            words = verdict(cls, result, self._rounded_error(cls))
        return words

    def _rounded_error(self, cls: str) -> PyTorchError | None:
        if cls not in _ROUNDS:
            return None
        model = copy.deepcopy(self.model).double()
        for p in model.parameters():
            if p.dim() > 1:
                p.data.copy_(_ROUNDS[cls](p.data.float()).double())
        with torch.no_grad():
            out = model(*[_ROUNDS[cls](x).double() for x in self.inputs])
        c = compare(out, self.right)
        return PyTorchError(c.error, c.max_error, c.unexpected)


def small(path: Path, seed: int = 7) -> Small:
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    _shrink(names)
    torch.manual_seed(seed)
    with torch.no_grad():
        model = names["Model"](*names["get_init_inputs"]()).eval()
        _vary(model)
        inputs = _inputs(names)
        forward = list(inspect.signature(names["Model"].forward).parameters)[1:]
        values = dict(zip(forward, inputs, strict=True))
        values |= {path.replace(".", "_"): t.detach() for path, t in model.state_dict().items()}
        right = copy.deepcopy(model).double()(*[x.double() for x in inputs])
    return Small(model, inputs, values, right)


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
    """Parameters and statistics that begin as all ones or all zeros would hide mistakes: they are drawn anew."""
    for t in (*model.parameters(), *model.buffers()):
        if not t.is_floating_point() or t.numel() < 2 or not bool((t == t.flatten()[0]).all()):
            continue
        one = float(t.flatten()[0]) == 1.0
        t.data.copy_(torch.rand_like(t) + 0.5 if one else torch.randn_like(t) * 0.5)
