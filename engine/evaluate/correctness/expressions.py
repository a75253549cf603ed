"""The meaning of epilogue expressions in PyTorch: one entry per function of dsl.functions, evaluated on whole tensors.

Everything is computed in the accumulator's type: f32, or float64 for the exact value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from dsl.functions import COMPARISONS
from dsl.ir import Acc, Call, Expr, Load, Number, Ref, Stage

F = torch.nn.functional


def _number(x: torch.Tensor | float) -> float:
    return float(x)


def _hardtanh(x, lo=-1.0, hi=1.0):
    return torch.clamp(x, _number(lo), _number(hi))


def _compared(compare):
    return lambda x, y: compare(x, y).to(x.dtype)


FUNCTIONS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "relu": torch.relu,
    "leaky_relu": lambda x, slope=0.01: F.leaky_relu(x, _number(slope)),
    "elu": lambda x, alpha=1.0: F.elu(x, _number(alpha)),
    "selu": F.selu,
    "gelu": lambda x: F.gelu(x),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x),
    "softsign": F.softsign,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": _hardtanh,
    "clamp": _hardtanh,
    "min": torch.minimum,
    "max": torch.maximum,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "erf": torch.erf,
    "floor": torch.floor,
    "round": torch.round,
    "sin": torch.sin,
    "cos": torch.cos,
    **{name: _compared(getattr(torch, name)) for name in COMPARISONS},
    "where": lambda c, x, y: torch.where(c != 0, x, y),
    "triu": lambda x, diagonal=0: torch.triu(x, int(diagonal)),
    "tril": lambda x, diagonal=0: torch.tril(x, int(diagonal)),
    "row_sum": lambda x: x.sum(-1),
    "row_max": lambda x: x.amax(-1),
    "col_sum": lambda x: x.sum(-2),
    "row_logsumexp": lambda x: torch.logsumexp(x, -1),
}
REDUCTIONS = frozenset({"row_sum", "row_max", "col_sum", "row_logsumexp"})


@dataclass
class Scope:
    """The values of the names in one stage's expressions.

    axes: the positions in `acc` of each axis that a Load may name; tensors: every tensor of the program so far.
    """

    acc: torch.Tensor
    axes: Mapping[str, tuple[int, ...]]
    tensors: Mapping[str, torch.Tensor]
    acc2: torch.Tensor | None = None
    lets: dict[str, torch.Tensor] = field(default_factory=dict)

    def define(self, stage: Stage) -> None:
        """Evaluate the stage's lets, in order."""
        for let in stage.lets:
            self.lets[let.name] = self.value(let.expr)

    def value(self, e: Expr) -> torch.Tensor:
        if isinstance(e, Acc):
            return self.acc2 if e.second else self.acc
        if isinstance(e, Number):
            return torch.tensor(e.value, dtype=self.acc.dtype, device=self.acc.device)
        if isinstance(e, Ref):
            return self.lets[e.name]
        if isinstance(e, Load):
            return self.load(e)
        assert isinstance(e, Call)
        args = [self.value(a) for a in e.args]
        if e.fn in REDUCTIONS or e.fn in ("triu", "tril"):  # these need the whole tile, even if acc is not read
            args[0] = args[0].expand(self.acc.shape) if args[0].dim() < self.acc.dim() else args[0]
        return FUNCTIONS[e.fn](*args)

    def result(self, e: Expr) -> torch.Tensor:
        """The value at every element of `acc`; for a reduction, over the remaining axes."""
        x = self.value(e)
        return x if isinstance(e, Call) and e.fn in REDUCTIONS else x.expand(self.acc.shape)

    def load(self, e: Load) -> torch.Tensor:
        """The operand with an axis of size 1 for each of acc's axes that it does not span."""
        x = self.tensors[e.name].to(self.acc.dtype)
        if not e.axes:
            return x.reshape(())
        for axis, (name, start) in enumerate(zip(e.axes, e.starts, strict=False)):
            if start is not None:
                x = x.narrow(axis, start, self.acc.shape[self.axes[name][0]])
        sizes, at = list(x.shape), {}
        for name in e.axes:
            for position in self.axes[name]:
                at[position] = sizes.pop(0)
        order = [p for name in e.axes for p in self.axes[name]]
        x = x.permute([order.index(p) for p in sorted(order)])
        return x.reshape([at.get(i, 1) for i in range(self.acc.dim())])
