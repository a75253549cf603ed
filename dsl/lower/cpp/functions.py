"""The language's pointwise functions as CUDA device functions on float.

CUTLASS's functors differ from PyTorch's formulas (its ReLU drops NaN, tanh.approx has 11 bits), and there is none for
clamp, min or exp on a scalar. So the generated namespace has functions of its own with PyTorch's definitions. Only
those that a program uses are emitted.

The tensor cores do not hide an epilogue's arithmetic, and a warp computes 16 elements at once; a branch (the slow path
of a division, a square root, tanhf or log1pf) would serialise them. So all functions are free of branches: 2^x and 1/x
use the hardware's approximation (2 ulp), and a select chooses a series where a difference would cancel.
"""

from __future__ import annotations

from collections.abc import Iterable

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

# name -> (number of arguments, body). Comparisons propagate NaN, as in PyTorch.
FUNCTIONS: dict[str, tuple[int, str]] = {
    "lt": (2, "x < y ? 1.0f : 0.0f"),
    "le": (2, "x <= y ? 1.0f : 0.0f"),
    "gt": (2, "x > y ? 1.0f : 0.0f"),
    "ge": (2, "x >= y ? 1.0f : 0.0f"),
    "eq": (2, "x == y ? 1.0f : 0.0f"),
    "ne": (2, "x != y ? 1.0f : 0.0f"),
    "where": (3, "x != 0.0f ? y : z"),
    "relu": (1, "x < 0.0f ? 0.0f : x"),
    "leaky_relu": (2, "x > 0.0f ? x : x * y"),
    "gelu": (1, "(x < 0.0f ? 0.0f : x) - 0.5f * gelu_tail(fminf(fabsf(x), 16.0f))"),
    "gelu_tanh": (1, "x * fast_reciprocal(1.0f + fast_exp(-1.5957691216057308f * (x + 0.044715f * x * x * x)))"),
    "silu": (1, "x * fast_reciprocal(1.0f + fast_exp(-x))"),
    "sigmoid": (1, "fast_reciprocal(1.0f + fast_exp(-x))"),
    "tanh": (1, "tanh_either(x, x * x, fast_exp(2.0f * fabsf(x)))"),
    "clamp": (3, "x < y ? (y > z ? z : y) : (x > z ? z : x)"),
    "min": (2, "(x < y || x != x) ? x : y"),
    "max": (2, "(x > y || x != x) ? x : y"),
    "abs": (1, "fabsf(x)"),
    "sqrt": (1, "fast_sqrt(x)"),
    "exp": (1, "expf(x)"),
    "log": (1, "logf(x)"),
    "erf": (1, "erf_either(x, x * x, fabsf(x) > 6.0f ? 6.0f : fabsf(x))"),
    "floor": (1, "floorf(x)"),
    "round": (1, "rintf(x)"),
    "sin": (1, "sine(x, rintf(0.318309886f * x), 0.0f)"),
    "cos": (1, "-sine(x, rintf(0.318309886f * x - 0.5f), 0.5f)"),
    "elu": (2, "(x < 0.0f ? 0.0f : x) + y * expm1_below(fminf(x, 0.0f))"),
    "selu": (1, "1.0507009873554805f * (x < 0.0f ? 0.0f : x) + 1.7580993408473766f * expm1_below(fminf(x, 0.0f))"),
    "softplus": (1, "(x < 0.0f ? 0.0f : x) + log1p_unit(fast_exp(-fabsf(x)))"),
    "mish": (1, "x * mish_gate(fast_exp(fminf(x, 20.0f)))"),
    "softsign": (1, "fast_divide(x, 1.0f + fabsf(x))"),
    "hardswish": (1, "x <= -3.0f ? 0.0f : (x >= 3.0f ? x : x * (x + 3.0f) * 0.16666667f)"),
    "hardsigmoid": (1, "x <= -3.0f ? 0.0f : (x >= 3.0f ? 1.0f : (x + 3.0f) * 0.16666667f)"),
    "hardtanh": (3, "x < y ? y : (x > z ? z : x)"),
}


# An instruction for the GPU, and the equivalent for the host.
_DEVICE = """
#if defined(__CUDA_ARCH__)
  {gpu}
#else
  {host}
#endif
"""


def _device(gpu: str, host: str) -> str:
    return _DEVICE.format(gpu=gpu, host=host)


def _asm(instruction: str, host: str) -> str:
    return _device(f'float y; asm("{instruction} %0, %1;" : "=f"(y) : "f"(x)); return y;', host)


# Helper functions: name -> (parameters, body, the helpers that the body uses).
PARTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # Relative error: 2^-22, and that of the rounded x * log2(e): |x| / 2^24.
    "fast_exp": (
        "float x",
        _asm("ex2.approx.ftz.f32", "return expf(x);").replace('"f"(x)', '"f"(x * 1.4426950408889634f)'),
        (),
    ),
    "fast_reciprocal": ("float x", _asm("rcp.approx.ftz.f32", "return 1.0f / x;"), ()),
    "fast_sqrt": ("float x", _asm("sqrt.approx.f32", "return sqrtf(x);"), ()),
    "fast_divide": ("float x, float y", _device("return __fdividef(x, y);", "return x / y;"), ()),
    # |x| erfc(|x| / sqrt 2): erfc(z) exp(z^2) as a polynomial of t = 1 / (1 + 0.37 z), fitted to 6e-7 of itself for z
    # up to 9. Free of the cancellation in 1 + erf(x).
    "gelu_tail": (
        "float x",
        "float const t = fast_reciprocal(1.0f + 0.26162950903902257f * x); "
        "return x * fast_exp(-0.5f * x * x) * t * (0.20835318f + t * (0.215210219f + t * (0.151060554f + t * "
        "(0.321362535f + t * (-0.191717397f + t * (0.43927708f + t * -0.143545616f))))));",
        ("fast_exp", "fast_reciprocal"),
    ),
    # Near 0 a series fitted to 9e-8 of itself for |x| up to 0.6; q = x^2, e = exp(2 |x|).
    "tanh_either": (
        "float x, float q, float e",
        "float const near = x + x * q * "
        "(-0.333325973f + q * (0.133131114f + q * (-0.0522115002f + q * 0.0156121101f))); "
        "float const far = 1.0f - 2.0f * fast_reciprocal(e + 1.0f); return q < 0.36f ? near : copysignf(far, x);",
        ("fast_reciprocal",),
    ),
    # Near 0 a series fitted to 2.3e-8 of itself for |x| up to 0.6; far from it 1 - erfc(a), where gelu_tail(a sqrt 2)
    # is a sqrt 2 erfc(a). q = x^2, a = |x| up to where erf is 1.
    "erf_either": (
        "float x, float q, float a",
        "float const near = x * (1.12837916f + q * (-0.3761254f + q * (0.1128143f + q * (-0.02666884f + q * "
        "0.00454589f)))), z = 1.4142135623730951f * a; "
        "float const far = 1.0f - gelu_tail(z) * fast_reciprocal(z); return q < 0.36f ? near : copysignf(far, x);",
        ("fast_exp", "fast_reciprocal", "gelu_tail"),
    ),
    # sin(r) with the sign of n's parity, where r = x - (n + shift) pi, pi in three parts. The series is fitted to 2e-8
    # of itself for |r| up to 1.75. For |x| beyond 1e7 only the result's range is right.
    "sine": (
        "float x, float n, float shift",
        "float const k = n + shift, odd = n - 2.0f * rintf(0.5f * n), "
        "r = fmaf(k, 3.43024902e-15f, fmaf(k, 8.74227766e-08f, fmaf(k, -3.14159274f, x))), q = r * r; "
        "float const y = r + r * q * "
        "(-0.166666493f + q * (0.00833281595f + q * (-0.000197922651f + q * 2.56973135e-06f))); "
        "return (1.0f - 2.0f * odd * odd) * (y < -1.0f ? -1.0f : (y > 1.0f ? 1.0f : y));",
        (),
    ),
    # exp(x) - 1 for x <= 0: near 0 its series to x^7, because there the difference would cancel.
    "expm1_below": (
        "float x",
        "float const near = x + x * x * (0.5f + x * (0.166666667f + x * (0.0416666667f + x * (0.00833333333f + x * "
        "(0.00138888889f + x * 0.000198412698f))))), far = fast_exp(x) - 1.0f; return x > -0.35f ? near : far;",
        ("fast_exp",),
    ),
    # log(1 + u) for u from 0 to 1: 2 artanh(u / (2 + u)), whose series needs no logarithm near 1.
    "log1p_unit": (
        "float u",
        "float const r = u * fast_reciprocal(2.0f + u), q = r * r; "
        "return 2.0f * r * (1.0f + q * (0.333333333f + q * (0.2f + q * (0.142857143f + q * (0.111111111f + q * "
        "(0.0909090909f + q * 0.0769230769f))))));",
        ("fast_reciprocal",),
    ),
    # tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), without cancellation.
    "mish_gate": (
        "float e",
        "float const n = e * (e + 2.0f); return n * fast_reciprocal(n + 2.0f);",
        ("fast_reciprocal",),
    ),
}


def definitions(names: Iterable[str]) -> list[str]:
    """The texts of the device functions `fn_<name>`, after the helpers that they use; `div` is the division.

    The prefix avoids a clash with min, max, exp and others, which exist in every scope.
    """
    names = sorted(set(names))
    texts = {name: "fast_divide(" if name == "div" else FUNCTIONS[name][1] for name in names}
    parts = [part for part in PARTS if any(f"{part}(" in text for text in texts.values())]
    needed_parts: dict[str, None] = {}
    for part in parts:
        for needed in (*PARTS[part][2], part):
            needed_parts[needed] = None
    lines = [_function(part, *PARTS[part][:2]) for part in PARTS if part in needed_parts]
    for name in names:
        if name != "div":
            arity, body = FUNCTIONS[name]
            lines.append(_function(f"fn_{name}", ", ".join(f"float {p}" for p in "xyz"[:arity]), f"return {body};"))
    return lines


def _function(name: str, parameters: str, body: str) -> str:
    inner = body if body.startswith("\n") else f" {body} "
    return f"CUTLASS_HOST_DEVICE float {name}({parameters}) {{{inner}}}"
