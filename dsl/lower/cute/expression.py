"""An epilogue expression in the words of quack and CuTe: what one element (or f32 pair) of the accumulator becomes.

The text runs once at trace time; CuTe inlines it into the epilogue loop. Everything is f32. min, max, relu and clamp
propagate NaN, as PyTorch's do. Where the hardware's approximation is used, FUNCTIONS says so and the generated
module repeats it beside the expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dsl.ir import Acc, Call, Expr, Load, Number

WIDTH = 84  # a longer part gets a line and a name of its own

_SUM, _PRODUCT, _ATOM = 1, 2, 4
_INFIX = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT)}


@dataclass(frozen=True)
class Function:
    """How a function is written. `imports`: {module: names}; `note`: what a reader must know of its accuracy.

    `write` gets the arguments' texts (and, for `slope`, `lo`, `hi`, literals); `twice`: it repeats its first argument.
    """

    write: Callable[..., str]
    imports: tuple[tuple[str, str], ...] = ()
    note: str = ""
    twice: bool = False


def _arch(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple(("cutlass.cute.arch", name) for name in names)


def _quack(name: str, note: str = "") -> Function:
    return Function(lambda x: f"{name}({x})", (("quack.activation", name),), note)


def _math(name: str, note: str = "", options: str = "") -> Function:
    return Function(lambda x: f"cute.math.{name}({x}{options})", (("cutlass", "cute"),), note)


def _leaky(x: str, slope: str) -> str:
    s = float(slope)
    if s == 0:
        return f"fmax({x}, 0.0, nan=True)"
    if 0 < s <= 1:
        return f"fmax({x}, {slope} * {x}, nan=True)"
    if s > 1:
        return f"fmin({x}, {slope} * {x}, nan=True)"
    return f"fmax({x}, 0.0, nan=True) + ({slope}) * fmin({x}, 0.0, nan=True)"


FUNCTIONS: dict[str, Function] = {
    "relu": Function(lambda x: f"fmax({x}, 0.0, nan=True)", _arch("fmax")),
    "leaky_relu": Function(_leaky, _arch("fmax", "fmin"), twice=True),
    "min": Function(lambda x, y: f"fmin({x}, {y}, nan=True)", _arch("fmin")),
    "max": Function(lambda x, y: f"fmax({x}, {y}, nan=True)", _arch("fmax")),
    "clamp": Function(lambda x, lo, hi: f"fmin(fmax({x}, {lo}, nan=True), {hi}, nan=True)", _arch("fmax", "fmin")),
    "gelu": _quack("gelu_erf"),
    "gelu_tanh": _quack("gelu_tanh_approx", "tanh.approx.f32: relative error up to 2^-11 in the tanh"),
    "silu": _quack("silu", "ex2.approx and rcp.approx: relative error below 1e-6"),
    "sigmoid": _quack("sigmoid", "ex2.approx and rcp.approx: relative error below 1e-6"),
    "tanh": _math("tanh"),
    "abs": _math("absf"),
    "sqrt": _math("sqrt"),
    "exp": _math("exp", "ex2.approx: relative error about 1e-7 times |x|", ", fastmath=True"),
    "log": _math("log"),
}


@dataclass(frozen=True)
class Body:
    """`lines` before the return, the returned text, what to import, and the notes on accuracy, in order of use."""

    lines: tuple[str, ...]
    value: str
    imports: frozenset[tuple[str, str]]
    notes: tuple[str, ...]


def literal(value: float) -> str:
    """A float as Python text; infinities cannot come from a checked program."""
    return repr(float(value))


def write(expr: Expr, operands: dict[tuple, str], taken: set[str]) -> Body:
    """The body of an epilogue function.

    `operands`: (tensor, axes) -> the text that reads it; `taken`: names that a temporary may not have.
    """
    return _Writer(operands, taken).body(expr)


class _Writer:
    def __init__(self, operands: dict[tuple, str], taken: set[str]):
        self.operands, self.taken = operands, set(taken)
        self.lines: list[str] = []
        self.known: dict[Expr, str] = {}  # equal parts are computed once
        self.imports: set[tuple[str, str]] = set()
        self.notes: dict[str, None] = {}

    def body(self, expr: Expr) -> Body:
        counts: dict[Expr, int] = {}
        self._count(expr, counts)
        self.shared = {e for e, n in counts.items() if n > 1}
        value = self._text(expr)[0]
        return Body(tuple(self.lines), value, frozenset(self.imports), tuple(self.notes))

    def _count(self, e: Expr, counts: dict[Expr, int]) -> None:
        if isinstance(e, Call):
            counts[e] = counts.get(e, 0) + 1
            if counts[e] == 1:
                for a in e.args:
                    self._count(a, counts)

    def _name(self, text: str) -> str:
        number = len(self.lines) + 1
        while f"t{number}" in self.taken:
            number += 1
        name = f"t{number}"
        self.taken.add(name)
        self.lines.append(f"{name} = {text}")
        return name

    def _text(self, e: Expr) -> tuple[str, int]:
        """The text of a part and how tightly it binds."""
        if isinstance(e, Acc):
            return "acc", _ATOM
        if isinstance(e, Number):
            return literal(e.value), _ATOM if math.copysign(1.0, e.value) > 0 else _SUM
        if isinstance(e, Load):
            return self.operands[(e.name, e.axes)], _ATOM
        if e in self.known:
            return self.known[e], _ATOM
        text, level = self._call(e)
        if e in self.shared or len(text) > WIDTH:
            self.known[e] = self._name(text)
            return self.known[e], _ATOM
        return text, level

    def _call(self, e: Call) -> tuple[str, int]:
        if all(isinstance(a, Number) for a in e.args):
            # Python would fold it in float64 (and raise on 1.0 / 0.0); the language computes in f32.
            self.imports.add(("cutlass", "Float32"))
            constant = f"Float32({literal(e.args[0].value)})"
            parts = [(constant, _ATOM), *(self._text(a) for a in e.args[1:])]
        else:
            parts = [self._text(a) for a in e.args]
        if e.fn == "neg":
            text, level = parts[0]
            return (f"-{text}" if level == _ATOM else f"-({text})"), _PRODUCT
        if e.fn in _INFIX:
            sign, level = _INFIX[e.fn]
            (left, below), (right, above) = parts
            left = f"({left})" if below < level else left
            right = f"({right})" if above <= level else right
            return f"{left} {sign} {right}", level
        function = FUNCTIONS[e.fn]
        self.imports.update(function.imports)
        if function.note:
            self.notes[f"{e.fn}: {function.note}"] = None
        texts = [text for text, _ in parts]
        if function.twice and parts[0][1] != _ATOM:
            texts[0] = self._name(texts[0])
        return function.write(*texts), _SUM if e.fn == "leaky_relu" and e.args[1].value < 0 else _ATOM
