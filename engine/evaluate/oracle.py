"""What a program means, in PyTorch: the typed IR run stage by stage, rounding where the hardware rounds.

Used where no GPU is: the operands of a product are rounded as the tensor cores round them, products accumulate in
f32, the epilogue is evaluated in f32, and the result is rounded to the type it is stored in. With `exact` nothing is
rounded and everything is float64: the ideal that the program approximates.

A stage's sizes come from the tensors given, so the same program runs on fewer rows. Needs torch; workers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dsl.ir import Acc, Call, DType, Expr, Gemm, Load, Number, Operand, Program, Transform

TORCH = {DType.F64: torch.float64, DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16}
TF32_DROPPED = 13  # of f32's 23 mantissa bits, tf32 keeps 10

FUNCTIONS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "relu": torch.relu,
    "leaky_relu": lambda x, slope=0.01: torch.nn.functional.leaky_relu(x, float(slope)),
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "clamp": lambda x, lo, hi: torch.clamp(x, float(lo), float(hi)),
    "min": torch.minimum,
    "max": torch.maximum,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
}


def truncate_tf32(x: torch.Tensor) -> torch.Tensor:
    """f32 with the low 13 bits of the mantissa gone: Hopper's tensor cores ignore them, they do not round."""
    bits = x.to(torch.float32).contiguous().view(torch.int32)
    return (bits & ~((1 << TF32_DROPPED) - 1)).view(torch.float32)


def run(program: Program, inputs: Sequence[torch.Tensor], *, exact: bool = False) -> list[torch.Tensor]:
    """Results of a checked program on CPU tensors in parameter order. Raises ValueError on a shape that cannot be."""
    if len(inputs) != len(program.params):
        raise ValueError(f"{program.name} takes {len(program.params)} tensors; {len(inputs)} given")
    env: dict[str, torch.Tensor] = {}
    for p, x in zip(program.params, inputs, strict=True):
        env[p.name] = x.to(torch.float64) if exact else x.to(TORCH[p.type.dtype])
    with torch.no_grad():
        for stage in program.stages:
            if isinstance(stage, Transform):
                x = env[stage.x.name]
                env[stage.name] = x if exact else x.to(TORCH[stage.to])
            else:
                env[stage.name] = _gemm(stage, env, program, exact)
    return [env[name] for name in program.results]


def _gemm(stage: Gemm, env: dict[str, torch.Tensor], program: Program, exact: bool) -> torch.Tensor:
    a, b = _side(stage.a, env), _side(stage.b, env)
    if not exact:
        tf32 = a.dtype is torch.float32 and (stage.config.compute or DType.TF32) is DType.TF32
        a, b = (truncate_tf32(t) if tf32 else t.to(torch.float32) for t in (a, b))
    acc = torch.matmul(a, b)
    out = _expr(stage.epilogue, acc, env)
    if exact:
        return out
    store = stage.store or (stage.type.dtype if stage.type else program.type_of(stage.a.name).dtype)
    return out.to(TORCH[store])


def _side(o: Operand, env: dict[str, torch.Tensor]) -> torch.Tensor:
    x = env[o.name]
    return x.transpose(-2, -1) if o.transposed else x


def _expr(e: Expr, acc: torch.Tensor, env: dict[str, torch.Tensor]) -> torch.Tensor:
    if isinstance(e, Acc):
        return acc
    if isinstance(e, Number):
        return torch.tensor(e.value, dtype=acc.dtype)
    if isinstance(e, Load):
        return _load(e, acc, env)
    assert isinstance(e, Call)
    return FUNCTIONS[e.fn](*(_expr(a, acc, env) for a in e.args))


def _load(e: Load, acc: torch.Tensor, env: dict[str, torch.Tensor]) -> torch.Tensor:
    """The operand with an axis of size 1 for each output axis that it does not span."""
    x = env[e.name].to(acc.dtype)
    if not e.axes:
        return x.reshape(())
    lead = acc.dim() - 2
    shape: list[int] = []
    sizes = list(x.shape)
    if lead:
        shape += sizes[:lead] if "l" in e.axes else [1] * lead
        sizes = sizes[lead:] if "l" in e.axes else sizes
    for axis in ("m", "n"):
        shape.append(sizes.pop(0) if axis in e.axes else 1)
    return x.reshape(shape)
