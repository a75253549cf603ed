"""ATen's pointwise operations as epilogue expressions: one table, with literals folded.

Each rule takes the operation's tensor arguments as expressions and its other arguments by their ATen names. It returns
an expression, or None if the language cannot express an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dsl.ir import Acc, Call, Expr, Load, Number
from sol.graph import Op

BIG = 3.4028234663852886e38  # the largest f32, for a clamp with one open side
_FOLD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
}


def binary(fn: str, a: Expr, b: Expr) -> Expr:
    """`a fn b` with literals folded: 2 * (3 * x) is 6 * x, (x + 1) + 2 is x + 3, x * 1 is x, x / 4 is x * 0.25, and
    x * 0.5 + x is x * 1.5."""
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(_FOLD[fn](a.value, b.value))
    if fn in ("add", "sub"):
        (x, many), (y, more) = _scaled(a), _scaled(b)
        if x == y and not isinstance(x, Number):
            return binary("mul", x, Number(_FOLD[fn](many, more)))
    if fn in ("add", "mul") and isinstance(a, Number):
        a, b = b, a
    if isinstance(b, Number):
        if fn == "sub":
            return binary("add", a, Number(-b.value))
        if fn == "div" and b.value and math.isfinite(1 / b.value):
            return binary("mul", a, Number(1 / b.value))
        if b.value == {"add": 0.0, "mul": 1.0}.get(fn):
            return a
        if isinstance(a, Call) and a.fn == fn and fn in ("add", "mul") and isinstance(a.args[1], Number):
            return binary(fn, a.args[0], Number(_FOLD[fn](a.args[1].value, b.value)))
        if fn == "add" and b.value < 0:
            return Call("sub", (a, Number(-b.value)))
        if fn == "add" and isinstance(a, Call) and a.fn == "sub" and isinstance(a.args[1], Number):
            return binary("add", a.args[0], Number(b.value - a.args[1].value))
    return Call(fn, (a, b))


def _scaled(e: Expr) -> tuple[Expr, float]:
    """An expression as another expression times a number."""
    if isinstance(e, Call) and e.fn == "mul" and isinstance(e.args[1], Number):
        return e.args[0], e.args[1].value
    return e, 1.0


def scale(x: Expr, by: float) -> Expr:
    return binary("mul", x, Number(by))


def _call(fn: str, *names: tuple[str, float]) -> Callable[[list[Expr], Mapping], Expr]:
    return lambda xs, at: Call(fn, (xs[0], *(Number(float(at.get(n, d))) for n, d in names)))


def _other(xs: list[Expr], at: Mapping) -> Expr | None:
    """The second operand: a tensor, or a number under its ATen name."""
    if len(xs) > 1:
        return xs[1]
    value = at.get("other")
    return Number(float(value)) if isinstance(value, int | float) else None


def _arithmetic(fn: str, reverse: bool = False) -> Callable[[list[Expr], Mapping], Expr | None]:
    def rule(xs: list[Expr], at: Mapping) -> Expr | None:
        other = _other(xs, at)
        if other is None or at.get("rounding_mode"):
            return None
        a, b = (other, xs[0]) if reverse else (xs[0], other)
        alpha = float(at.get("alpha", 1))
        if reverse:
            return binary(fn, a, scale(b, alpha))
        return binary(fn, a, scale(b, alpha)) if fn in ("add", "sub") else binary(fn, a, b)

    return rule


def _clamp(xs: list[Expr], at: Mapping) -> Expr | None:
    if len(xs) > 1:  # limits that are tensors: those that are missing are None
        x, limits = xs[0], iter(xs[1:])
        for name, fn in (("min", "max"), ("max", "min")):
            x = x if name in at else Call(fn, (x, next(limits)))
        return x
    lo, hi = (at.get(n) for n in ("min", "max"))
    return Call("clamp", (xs[0], Number(-BIG if lo is None else float(lo)), Number(BIG if hi is None else float(hi))))


def _combined(fn: str) -> Callable[[list[Expr], Mapping], Expr]:
    """addcmul and addcdiv: x + value * (a fn b)."""
    return lambda xs, at: binary("add", xs[0], scale(binary(fn, xs[1], xs[2]), float(at.get("value", 1))))


def _lerp(xs: list[Expr], at: Mapping) -> Expr:
    weight = xs[2] if len(xs) > 2 else Number(float(at["weight"]))
    return binary("add", xs[0], binary("mul", weight, binary("sub", xs[1], xs[0])))


def _gelu(xs: list[Expr], at: Mapping) -> Expr:
    return Call("gelu_tanh" if at.get("approximate") == "tanh" else "gelu", (xs[0],))


def _pow(xs: list[Expr], at: Mapping) -> Expr | None:
    e = at.get("exponent")
    if len(xs) > 1 or e not in (0.5, 1, 2, 3):
        return None
    x = xs[0]
    return (
        Call("sqrt", (x,)) if e == 0.5 else x if e == 1 else Call("mul", (x, x) if e == 2 else (Call("mul", (x, x)), x))
    )


def _softplus_op(xs: list[Expr], at: Mapping) -> Expr | None:
    return Call("softplus", (xs[0],)) if at.get("beta", 1) == 1 and at.get("threshold", 20) >= 17 else None


def _elu(xs: list[Expr], at: Mapping) -> Expr | None:
    plain = at.get("scale", 1) == 1 and at.get("input_scale", 1) == 1
    return Call("elu", (xs[0], Number(float(at.get("alpha", 1.0))))) if plain else None


def _min_max(fn: str) -> Callable[[list[Expr], Mapping], Expr | None]:
    return lambda xs, at: Call(fn, (xs[0], other)) if (other := _other(xs, at)) is not None else None


OPS: dict[str, Callable[[list[Expr], Mapping[str, Any]], Expr | None]] = {
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "subtract": _arithmetic("sub"),
    "rsub": _arithmetic("sub", reverse=True),
    "mul": _arithmetic("mul"),
    "multiply": _arithmetic("mul"),
    "div": _arithmetic("div"),
    "divide": _arithmetic("div"),
    "true_divide": _arithmetic("div"),
    "addcmul": _combined("mul"),
    "addcdiv": _combined("div"),
    "lerp": _lerp,
    "reciprocal": lambda xs, at: Call("div", (Number(1.0), xs[0])),
    "neg": lambda xs, at: scale(xs[0], -1.0),
    "square": lambda xs, at: Call("mul", (xs[0], xs[0])),
    "pow": _pow,
    "abs": _call("abs"),
    "sqrt": _call("sqrt"),
    "exp": _call("exp"),
    "log": _call("log"),
    "relu": _call("relu"),
    "leaky_relu": _call("leaky_relu", ("negative_slope", 0.01)),
    "gelu": _gelu,
    "silu": _call("silu"),
    "sigmoid": _call("sigmoid"),
    "tanh": _call("tanh"),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "hardtanh": _call("clamp", ("min_val", -1.0), ("max_val", 1.0)),
    "relu6": lambda xs, at: Call("clamp", (xs[0], Number(0.0), Number(6.0))),
    "hardsigmoid": _call("hardsigmoid"),
    "hardswish": _call("hardswish"),
    "softplus": _softplus_op,
    "softsign": _call("softsign"),
    "mish": _call("mish"),
    "selu": _call("selu"),
    "elu": _elu,
    "rsqrt": lambda xs, at: Call("div", (Number(1.0), Call("sqrt", (xs[0],)))),
    "triu": _call("triu", ("diagonal", 0)),
    "tril": _call("tril", ("diagonal", 0)),
    "minimum": _min_max("min"),
    "maximum": _min_max("max"),
}
# The in-place forms mean the same: the storages of a program are never shared.
OPS |= {f"{name}_": rule for name, rule in list(OPS.items())}


def apply(op: Op, terms: list[Expr]) -> Expr | None:
    """The operation on expressions; None if an argument cannot be expressed. Composed functions are recognised: `x *
    sigmoid(x)` is silu, `x * tanh(softplus(x))` mish."""
    return _known(OPS[{"max": "maximum", "min": "minimum"}.get(op.op, op.op)](terms, op.attrs))


def _known(e: Expr | None) -> Expr | None:
    if isinstance(e, Call) and e.fn == "mul":
        for x, gate in (e.args, e.args[::-1]):
            if gate == Call("sigmoid", (x,)):
                return Call("silu", (x,))
            if gate == Call("tanh", (Call("softplus", (x,)),)):
                return Call("mish", (x,))
    return e


def call(fn: str, *args: Expr) -> Expr:
    return Call(fn, args)


def describe(op: Op) -> str:
    """The operation's own arguments, for a message: `rounding_mode='floor'`."""
    attributes = ", ".join(f"{k}={v!r}" for k, v in op.attrs.items())
    return attributes or f"{len(op.inputs)} tensors"


def names(e: Expr | None) -> set[str]:
    """The tensors that an expression reads."""
    if isinstance(e, Load):
        return {e.name}
    return set().union(*(names(a) for a in e.args)) if isinstance(e, Call) else set()


def rename(e: Expr, to: Mapping[str, str]) -> Expr:
    if isinstance(e, Load):
        return replace(e, name=to.get(e.name, e.name))
    return Call(e.fn, tuple(rename(a, to) for a in e.args)) if isinstance(e, Call) else e


def size(e: Expr) -> int:
    """Number of nodes of an expression, a measure of an epilogue's work."""
    return 1 + (sum(size(a) for a in e.args) if isinstance(e, Call) else 0)


__all__ = ["OPS", "Acc", "apply", "binary", "call", "describe", "names", "rename", "scale", "size"]
