"""The computation of a recurrent stage in PyTorch, step by step, with products rounded as the kernel rounds them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dsl.ir import CELLS, DType, Recurrent
from engine.evaluate.correctness.rounding import operand


def recurrent(
    stage: Recurrent, env: Mapping[str, torch.Tensor], exact: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """(the sequence [t, b, D * h] in the stage's order, the last hidden state [D, b, h], the last cell state or None).

    States and gates are f32 throughout, float64 if exact; only the operands of h @ weight_hh.T are rounded.
    """
    wide = torch.float64 if exact else torch.float32
    compute = stage.compute or (DType.TF32 if env[stage.weights[0].name].dtype is torch.float32 else None)
    sides = []
    for d in range(stage.directions):
        gates = env[stage.gates[d].name].to(wide)
        gates = gates if stage.order == "tb" else gates.transpose(0, 1)
        w = env[stage.weights[d].name]
        bias = env[stage.biases[d].name].to(wide) if stage.biases else torch.zeros(w.shape[0], dtype=wide)
        first = [env[o.name][stage.layer * stage.directions + d].to(wide) for o in stage.states]
        if not first:
            first = [torch.zeros(gates.shape[1], w.shape[1], dtype=wide) for _ in range(2)]
        sides.append(_direction(stage, gates.flip(0) if d else gates, w, bias, first, (exact, compute), wide))
    sequence = torch.cat([s[0].flip(0) if d else s[0] for d, s in enumerate(sides)], -1)
    hidden, cell = (torch.stack([s[i] for s in sides]) for i in (1, 2))
    return sequence if stage.order == "tb" else sequence.transpose(0, 1), hidden, cell if stage.op == "lstm" else None


def _direction(stage, gates, w, bias, first, how, wide):
    """One direction, in the order of its steps: (all hidden states, the last one, the last cell state)."""
    exact, compute = how
    weights = w.to(wide) if exact else _read(w, compute)
    hidden, cell = first[0], first[-1]
    states = []
    for x in gates:
        product = (hidden if exact else _read(hidden, compute)) @ weights.T + bias
        if stage.op == "gru":
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), product.chunk(3, -1)
            update = torch.sigmoid(xz + hz)
            fresh = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            hidden = fresh + update * (hidden - fresh)
        elif stage.op == "lstm":
            i, f, g, o = (x + product).chunk(CELLS["lstm"], -1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
        else:
            hidden = torch.tanh(x + product) if stage.op == "rnn_tanh" else torch.relu(x + product)
        states.append(hidden)
    return torch.stack(states), hidden, cell


def _read(x: torch.Tensor, compute: DType | None) -> torch.Tensor:
    """An operand as the kernel rounds it: to the nearest, whatever type it comes in."""
    return x.to(torch.float32) if compute in (None, DType.F32) else operand(x.to(torch.float32), compute, True)


__all__ = ["recurrent"]
