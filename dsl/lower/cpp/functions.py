"""The language's pointwise functions as CUDA device functions on float.

CUTLASS has activations of its own, but they differ from PyTorch's in corners that the correctness check looks at
(fmax swallows NaN, tanh.approx keeps 11 bits), and there is none for clamp, min or exp on a scalar. So the generated
namespace carries its own, with PyTorch's definitions; only those that a program uses are emitted.
"""

from __future__ import annotations

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

# name -> (number of arguments, body). Comparisons are written so that a NaN goes through, as in PyTorch.
FUNCTIONS: dict[str, tuple[int, str]] = {
    "relu": (1, "x < 0.0f ? 0.0f : x"),
    "leaky_relu": (2, "x > 0.0f ? x : x * y"),
    "gelu": (1, "0.5f * x * (1.0f + erff(x * 0.70710678118654752f))"),
    "gelu_tanh": (1, "0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)))"),
    "silu": (1, "x / (1.0f + expf(-x))"),
    "sigmoid": (1, "1.0f / (1.0f + expf(-x))"),
    "tanh": (1, "tanhf(x)"),
    "clamp": (3, "x < y ? (y > z ? z : y) : (x > z ? z : x)"),
    "min": (2, "(x < y || x != x) ? x : y"),
    "max": (2, "(x > y || x != x) ? x : y"),
    "abs": (1, "fabsf(x)"),
    "sqrt": (1, "sqrtf(x)"),
    "exp": (1, "expf(x)"),
    "log": (1, "logf(x)"),
    "elu": (2, "x > 0.0f ? x : y * expm1f(x)"),
    "selu": (1, "1.0507009873554805f * (x > 0.0f ? x : 1.6732632423543772f * expm1f(x))"),
    "softplus": (1, "(x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)))"),
    "mish": (1, "x * tanhf((x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x))))"),
    "softsign": (1, "x / (1.0f + fabsf(x))"),
    "hardswish": (1, "x <= -3.0f ? 0.0f : (x >= 3.0f ? x : x * (x + 3.0f) * 0.16666667f)"),
    "hardsigmoid": (1, "x <= -3.0f ? 0.0f : (x >= 3.0f ? 1.0f : (x + 3.0f) * 0.16666667f)"),
    "hardtanh": (3, "x < y ? y : (x > z ? z : x)"),
}


def definition(name: str) -> str:
    """The device function `fn_<name>`: a prefix, because min, max, exp ... are taken in every scope."""
    arity, body = FUNCTIONS[name]
    params = ", ".join(f"float {p}" for p in "xyz"[:arity])
    return f"CUTLASS_HOST_DEVICE float fn_{name}({params}) {{ return {body}; }}"
