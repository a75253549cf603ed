"""ATen's pointwise operations as epilogue expressions: one table, with literals folded.

Each rule takes the operation's tensor arguments as expressions and its other arguments by their ATen names. It returns
an expression, or None if the language cannot express an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from dsl.functions import COMPARISONS
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
    return _literal(at.get("other"))


def _literal(value: Any) -> Number | None:
    """A number of a graph, whose infinities are texts."""
    number = float(value) if isinstance(value, int | float) or value in ("inf", "-inf") else math.nan
    return None if math.isnan(number) else Number(number)


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


def _gelu(xs: list[Expr], at: Mapping) -> Expr:
    return Call("gelu_tanh" if at.get("approximate") == "tanh" else "gelu", (xs[0],))


def _pow(xs: list[Expr], at: Mapping) -> Expr | None:
    if len(xs) > 1:
        return None
    if "self" in at:  # a number to the power of a tensor
        return call("exp", scale(xs[0], math.log(at["self"]))) if at["self"] > 0 else None
    e = at.get("exponent")
    x = xs[0]
    if not isinstance(e, int | float) or (abs(e) > 4 and e == int(e)):
        return None
    if e < 0:
        above = _pow(xs, {"exponent": -e})
        return above and Call("div", (Number(1.0), above))
    if e in (0, 0.5, 1, 1.5, 2, 3, 4):
        root = [call("sqrt", x)] if e % 1 else []
        return reduce(lambda a, b: call("mul", a, b), [x] * int(e) + root) if e else None
    return call("exp", scale(call("log", x), e))


def _softplus_op(xs: list[Expr], at: Mapping) -> Expr:
    x, beta, threshold = xs[0], float(at.get("beta", 1)), float(at.get("threshold", 20))
    if beta == 1 and threshold >= 17:
        return call("softplus", x)
    soft = binary("div", call("softplus", scale(x, beta)), Number(beta))
    return call("where", call("gt", scale(x, beta), Number(threshold)), x, soft)


def _elu(xs: list[Expr], at: Mapping) -> Expr | None:
    plain = at.get("scale", 1) == 1 and at.get("input_scale", 1) == 1
    return Call("elu", (xs[0], Number(float(at.get("alpha", 1.0))))) if plain else None


def _with_other(fn: str) -> Callable[[list[Expr], Mapping], Expr | None]:
    return lambda xs, at: Call(fn, (xs[0], other)) if (other := _other(xs, at)) is not None else None


# ---- comparisons and choices: 1 or 0, and true is what is not 0 ----


def _truth(x: Expr) -> Expr:
    return x if isinstance(x, Call) and x.fn in COMPARISONS else call("ne", x, Number(0.0))


def _logic(fn: str) -> Callable[[list[Expr], Mapping], Expr]:
    return lambda xs, at: call(fn, *map(_truth, xs))


def _not(xs: list[Expr], at: Mapping) -> Expr:
    return call("eq", xs[0], Number(0.0))


def _number_or(name: str, rest: Iterator[Expr], at: Mapping) -> Expr | None:
    """An argument that is a number under its ATen name, or the next tensor."""
    return _literal(at[name]) if name in at else next(rest, None)


def _where(xs: list[Expr], at: Mapping) -> Expr | None:
    rest = iter(xs[1:])
    x, y = _number_or("self", rest, at), _number_or("other", rest, at)
    return None if x is None or y is None else call("where", xs[0], x, y)


def _masked_fill(xs: list[Expr], at: Mapping) -> Expr | None:
    value = _number_or("value", iter(xs[2:]), at)
    return None if value is None else call("where", xs[1], value, xs[0])


def _limit(name: str, default: float, at: Mapping) -> Number:
    return Number(float(at.get(name, default)))


def _celu(xs: list[Expr], at: Mapping) -> Expr:
    x, alpha = xs[0], float(at.get("alpha", 1.0))
    return call("where", call("gt", x, Number(0.0)), x, call("elu", scale(x, 1 / alpha), Number(alpha)))


def _expm1(xs: list[Expr], at: Mapping) -> Expr:
    """exp(x) - 1 is elu below 0; above, -exp(x) (exp(-x) - 1), which cancels nowhere."""
    x, one = xs[0], Number(1.0)
    above = call("mul", call("exp", x), scale(call("elu", scale(x, -1.0), one), -1.0))
    return call("where", call("gt", x, Number(0.0)), above, call("elu", x, one))


def _lerp(xs: list[Expr], at: Mapping) -> Expr | None:
    weight = _number_or("weight", iter(xs[2:]), at)
    return None if weight is None else binary("add", xs[0], binary("mul", binary("sub", xs[1], xs[0]), weight))


def _add_of(fn: str) -> Callable[[list[Expr], Mapping], Expr | None]:
    """addcmul and addcdiv."""
    return lambda xs, at: binary("add", xs[0], scale(call(fn, *xs[1:]), float(at.get("value", 1))))


def _log1p(xs: list[Expr], at: Mapping) -> Expr:
    """log(1 + x) is softplus(log(x)) above 0; below, -log(1 + y) with y = -x / (1 + x)."""
    x = xs[0]
    y = call("div", scale(x, -1.0), binary("add", x, Number(1.0)))
    above, below = (call("softplus", call("log", z)) for z in (x, y))
    return call("where", call("gt", x, Number(0.0)), above, scale(below, -1.0))


def _xlogy(xs: list[Expr], at: Mapping) -> Expr | None:
    if len(xs) < 2:
        return None
    x, y = xs
    product = call("where", call("eq", x, Number(0.0)), Number(0.0), call("mul", x, call("log", y)))
    return call("where", call("ne", y, y), y, product)


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
    "minimum": _with_other("min"),
    "maximum": _with_other("max"),
    "sign": lambda xs, at: call("sub", call("gt", xs[0], Number(0.0)), call("lt", xs[0], Number(0.0))),
    "threshold": lambda xs, at: call(
        "where", call("le", xs[0], _limit("threshold", 0.0, at)), _limit("value", 0.0, at), xs[0]
    ),
    "hardshrink": lambda xs, at: call(
        "where", call("le", call("abs", xs[0]), _limit("lambd", 0.5, at)), Number(0.0), xs[0]
    ),
    "softshrink": lambda xs, at: call(
        "sub", xs[0], call("clamp", xs[0], Number(-float(at.get("lambd", 0.5))), _limit("lambd", 0.5, at))
    ),
    "celu": _celu,
    "log_sigmoid": lambda xs, at: scale(call("softplus", scale(xs[0], -1.0)), -1.0),
    "erf": _call("erf"),
    "log1p": _log1p,
    "floor": _call("floor"),
    "round": lambda xs, at: None if at.get("decimals") else call("round", xs[0]),
    "ceil": lambda xs, at: scale(call("floor", scale(xs[0], -1.0)), -1.0),
    "sin": _call("sin"),
    "cos": _call("cos"),
    "exp2": lambda xs, at: call("exp", scale(xs[0], math.log(2.0))),
    "log2": lambda xs, at: scale(call("log", xs[0]), 1 / math.log(2.0)),
    "log10": lambda xs, at: scale(call("log", xs[0]), 1 / math.log(10.0)),
    "expm1": _expm1,
    "lerp": _lerp,
    "addcmul": _add_of("mul"),
    "addcdiv": _add_of("div"),
    "xlogy": _xlogy,
}
# Operations whose result is of booleans. PyTorch's + of two booleans is `or`.
TRUTHS: dict[str, Callable[[list[Expr], Mapping[str, Any]], Expr | None]] = {
    **{fn: _with_other(fn) for fn in COMPARISONS},
    "logical_not": _not,
    "bitwise_not": _not,
    "logical_xor": _logic("ne"),
    "bitwise_xor": _logic("ne"),
    **dict.fromkeys(("logical_and", "bitwise_and", "mul", "minimum"), _logic("mul")),
    **dict.fromkeys(("logical_or", "bitwise_or", "add", "maximum"), _logic("max")),
    "isnan": lambda xs, at: call("ne", xs[0], xs[0]),
    "where": _where,
    "masked_fill": _masked_fill,
}
CONSTANTS = {  # operations whose elements are one number, None for their `fill_value`
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), 0.0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1.0),
    **dict.fromkeys(("full", "full_like", "new_full")),
}
CASTS = ("to", "_to_copy", "type_as")
OPS |= {name: rule for name, rule in TRUTHS.items() if name not in OPS}
# The in-place forms mean the same: the storages of a program are never shared.
OPS |= {f"{name}_": rule for name, rule in list(OPS.items())}


def apply(op: Op, terms: list[Expr], truth: bool = False) -> Expr | None:
    """The operation on expressions; None if an argument cannot be expressed. Composed functions are recognised: `x *
    sigmoid(x)` is silu, `x * tanh(softplus(x))` mish. `truth`: the result is of booleans, 1 or 0."""
    if op.op in CASTS:
        return _truth(terms[0]) if truth else terms[0]
    name = {"max": "maximum", "min": "minimum"}.get(op.op, op.op)
    rule = TRUTHS.get(name.rstrip("_")) if truth else OPS[name]
    return _known(rule(terms, op.attrs)) if rule is not None else None


def constant(op: Op) -> float:
    """The number that all elements of an operation of CONSTANTS have."""
    value = CONSTANTS[op.op]
    return float(op.attrs["fill_value"]) if value is None else value


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
