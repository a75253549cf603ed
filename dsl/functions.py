"""The functions of expressions, for the checker, the back ends and the cost models.

TABLE       pointwise functions, computed in f32. A test checks that each back end lowers all of them.
INDEXED     pointwise functions that depend on the element's indices m and n in a gemm's output.
REDUCTIONS  functions of a whole row or column of a gemm's output; allowed only as the outermost call of an epilogue
            or an `also`.
EVERY       all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Argument:
    """One argument of a function. `number`: it must be a literal, which becomes a constant of the kernel."""

    name: str
    number: bool = False
    default: float | None = None


@dataclass(frozen=True)
class Function:
    """One function.

    `special`: special-function-unit operations (ex2, rcp, sqrt, lg2, tanh) for each element; `flops`: the other
    operations, in FMAs. `formula` defines the function; the reference shows it and tests compare with it.
    """

    name: str
    args: tuple[Argument, ...]
    special: int
    flops: int
    formula: str
    infix: str | None = None
    over: str | None = None  # of a reduction: the axis that it reduces

    @property
    def arity(self) -> int:
        return len(self.args)

    @property
    def required(self) -> int:
        return sum(a.default is None for a in self.args)

    @property
    def signature(self) -> str:
        """`leaky_relu(x, slope=0.01)`, or `x + y` for an operator."""
        if self.infix and self.arity == 2:
            return f"x {self.infix} y"
        if self.infix:
            return f"{self.infix}x"
        return f"{self.name}({', '.join(a.name if a.default is None else f'{a.name}={a.default}' for a in self.args)})"


_X, _Y = Argument("x"), Argument("y")

TABLE: dict[str, Function] = {
    f.name: f
    for f in (
        Function("add", (_X, _Y), 0, 1, "x + y", "+"),
        Function("sub", (_X, _Y), 0, 1, "x - y", "-"),
        Function("mul", (_X, _Y), 0, 1, "x * y", "*"),
        Function("div", (_X, _Y), 1, 2, "x / y", "/"),
        Function("neg", (_X,), 0, 1, "-x", "-"),
        Function("lt", (_X, _Y), 0, 1, "1 if x < y else 0", "<"),
        Function("le", (_X, _Y), 0, 1, "1 if x <= y else 0", "<="),
        Function("gt", (_X, _Y), 0, 1, "1 if x > y else 0", ">"),
        Function("ge", (_X, _Y), 0, 1, "1 if x >= y else 0", ">="),
        Function("eq", (_X, _Y), 0, 1, "1 if x == y else 0", "=="),
        Function("ne", (_X, _Y), 0, 1, "1 if x != y else 0", "!="),
        Function("where", (Argument("c"), _X, _Y), 0, 1, "x where c is not 0, else y"),
        Function("relu", (_X,), 0, 1, "max(x, 0)"),
        Function("leaky_relu", (_X, Argument("slope", True, 0.01)), 0, 2, "x if x > 0 else slope * x"),
        Function("gelu", (_X,), 2, 12, "0.5 x (1 + erf(x / sqrt(2))), exact"),
        Function("gelu_tanh", (_X,), 1, 6, "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"),
        Function("silu", (_X,), 2, 2, "x * sigmoid(x)"),
        Function("sigmoid", (_X,), 2, 2, "1 / (1 + exp(-x))"),
        Function("tanh", (_X,), 1, 1, "tanh(x)"),
        Function("clamp", (_X, Argument("lo", True), Argument("hi", True)), 0, 2, "min(max(x, lo), hi)"),
        Function("min", (_X, _Y), 0, 1, "min(x, y)"),
        Function("max", (_X, _Y), 0, 1, "max(x, y)"),
        Function("abs", (_X,), 0, 1, "|x|"),
        Function("sqrt", (_X,), 1, 1, "sqrt(x)"),
        Function("exp", (_X,), 1, 1, "exp(x)"),
        Function("log", (_X,), 1, 1, "log(x), natural"),
        Function("erf", (_X,), 2, 12, "the error function"),
        Function("floor", (_X,), 0, 1, "the largest whole number that is at most x"),
        Function("round", (_X,), 0, 1, "the nearest whole number, halves to even"),
        Function("sin", (_X,), 2, 18, "sin(x)"),
        Function("cos", (_X,), 2, 19, "cos(x)"),
        Function("elu", (_X, Argument("alpha", True, 1.0)), 1, 3, "x if x > 0 else alpha * (exp(x) - 1)"),
        Function("selu", (_X,), 1, 4, "1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (exp(x) - 1))"),
        Function("mish", (_X,), 3, 5, "x * tanh(softplus(x))"),
        Function("softplus", (_X,), 2, 4, "max(x, 0) + log(1 + exp(-|x|))"),
        Function("softsign", (_X,), 1, 2, "x / (1 + |x|)"),
        Function("hardswish", (_X,), 0, 4, "x * clamp(x + 3, 0, 6) / 6"),
        Function("hardsigmoid", (_X,), 0, 3, "clamp(x + 3, 0, 6) / 6"),
        Function("hardtanh", (_X, Argument("lo", True, -1.0), Argument("hi", True, 1.0)), 0, 2, "min(max(x, lo), hi)"),
    )
}

_DIAGONAL = Argument("diagonal", True, 0.0)
INDEXED: dict[str, Function] = {
    f.name: f
    for f in (
        Function("triu", (_X, _DIAGONAL), 0, 2, "x where n - m >= diagonal, else 0"),
        Function("tril", (_X, _DIAGONAL), 0, 2, "x where n - m <= diagonal, else 0"),
    )
}

REDUCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("row_sum", (_X,), 0, 1, "sum over n", over="n"),
        Function("row_max", (_X,), 0, 1, "max over n", over="n"),
        Function("row_logsumexp", (_X,), 1, 3, "log(sum over n of exp(x)), without overflow", over="n"),
        Function("col_sum", (_X,), 0, 1, "sum over m", over="m"),
    )
}

EVERY: dict[str, Function] = {**TABLE, **INDEXED, **REDUCTIONS}

# The pointwise functions without the operators.
NAMED: tuple[str, ...] = tuple(n for n, f in TABLE.items() if f.infix is None)

# The comparisons, which are 1 or 0.
COMPARISONS: tuple[str, ...] = ("lt", "le", "gt", "ge", "eq", "ne")

# The functions whose second and third arguments are a lower and an upper bound.
BOUNDED = ("clamp", "hardtanh")
