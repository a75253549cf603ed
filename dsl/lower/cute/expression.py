"""The text of an expression in CuTe and quack, for one element (or f32 pair) of the accumulator.

The text runs once at trace time, and CuTe inlines it into the epilogue loop. Everything is f32. min, max, relu and
clamp propagate NaN, as PyTorch's do. `acc2` is the second element of a pair, `offset` is n - m of the element.
FUNCTIONS notes the hardware's approximations, and the generated module repeats these notes.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from dataclasses import dataclass

from dsl.functions import COMPARISONS, TABLE
from dsl.ir import Acc, Call, Expr, Let, Load, Number, Ref

WIDTH = 84  # a longer subexpression gets a line and a name

_SUM, _PRODUCT, _ATOM = 1, 2, 4
Name = Callable[[str], str]
_INFIX = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT)}


@dataclass(frozen=True)
class Function:
    """The text of a function. `imports`: (module, name) pairs; `note`: its accuracy.

    `write` takes the texts of the arguments (`slope`, `lo` and `hi` are literals). `twice`: it uses its first argument
    more than once. `parts`: it also takes `name`, which puts a subexpression on a line and returns its name.
    """

    write: Callable[..., str]
    imports: tuple[tuple[str, str], ...] = ()
    note: str = ""
    twice: bool = False
    parts: bool = False


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


def _series(x: str, *divisors: int) -> str:
    """1/a + x/b + x^2/c + ... by Horner."""
    first, *rest = divisors
    return f"({1 / first:.8g} + {x} * {_series(x, *rest)})" if rest else f"{1 / first:.8g}"


def _expm1(z: str, name: Name) -> str:
    """exp(z) - 1 for z <= 0: near 0 its series to z^7, because there the difference would cancel."""
    tail = name(_series(z, 24, 120, 720, 5040)[1:-1])
    near = name(f"{z} + {z} * {z} * (0.5 + {z} * ({1 / 6:.8g} + {z} * {tail}))")
    return name(f"Float32(select_({z} > -0.35, {near}, cute.math.exp({z}, fastmath=True) - 1.0))")


def _elu(x: str, alpha: str, name: Name) -> str:
    below = _expm1(name(f"fmin({x}, 0.0, nan=True)"), name)
    return f"(fmax({x}, 0.0, nan=True) + {alpha if float(alpha) >= 0 else f'({alpha})'} * {below})"


def _selu(x: str, name: Name) -> str:
    return f"(1.0507009873554805 * {_elu(x, '1.6732632423543772', name)})"


def _softplus(x: str, name: Name) -> str:
    """max(x, 0) + log1p(u) with u = exp(-|x|): 2 artanh(u / (2 + u)), whose series needs no logarithm near 1."""
    u = name(f"cute.math.exp(-cute.math.absf({x}), fastmath=True)")
    r = name(f"{u} * rcp_approx(2.0 + {u})")
    q = name(f"{r} * {r}")
    tail = name(_series(q, 3, 5, 7, 9, 11, 13)[1:-1])
    return f"(fmax({x}, 0.0, nan=True) + 2.0 * {r} * (1.0 + {q} * {tail}))"


def _mish(x: str, name: Name) -> str:
    """tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2) and e = exp(x), without cancellation."""
    e = name(f"cute.math.exp(fmin({x}, 20.0, nan=True), fastmath=True)")
    n = name(f"{e} * ({e} + 2.0)")
    return f"({x} * {n} * rcp_approx({n} + 2.0))"


def _hardsigmoid(x: str) -> str:
    return f"(fmin(fmax({x} + 3.0, 0.0, nan=True), 6.0, nan=True) * {1 / 6!r})"


# pi in three parts, which fma takes off without a rounding that shows; sin(r) / r - 1 over r^2, fitted to 1.9e-8 of
# sin(r) for |r| up to 1.75.
_PI = (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15)  # each of f32
_SINE = (-0.166666493, 0.00833281595, -0.000197922651, 2.56973135e-06)


def _sine(x: str, shift: float, name: Name) -> str:
    """sin(x) for shift 0, cos(x) for 0.5: r = x - k pi with k = n + shift, and sin(r) with the sign of n's parity.

    The library's own function branches to a slow path, which leaves an unrolled epilogue no parallelism.
    """
    n = name(f"cute.math.roundeven({x} * 0.318309886{' - 0.5' if shift else ''})")
    r, k = x, name(f"{n} + {shift}") if shift else n
    for part in _PI:
        r = name(f"cute.math.fma({k}, Float32({-part!r}), {r})")
    q = name(f"{r} * {r}")
    odd = name(f"{n} - 2.0 * cute.math.roundeven(0.5 * {n})")
    sign = name(f"{'2.0' if shift else '-2.0'} * {odd} * {odd} {'-' if shift else '+'} 1.0")
    a, b, c, d = _SINE
    series = name(f"{r} + {r} * {q} * ({a} + {q} * ({b} + {q} * ({c} + {q} * {d})))")
    return f"({sign} * fmin(fmax({series}, -1.0, nan=True), 1.0, nan=True))"


def _triangle(sign: str) -> Callable[..., str]:
    """The element if n - m is on one side of the diagonal, else 0; a select, so the other value may be NaN."""
    return lambda x, diagonal: f"Float32(select_(offset {sign} {int(float(diagonal))}, {x}, Float32(0.0)))"


def _compared(sign: str) -> Function:
    """1 or 0. A comparison with NaN is false but for `!=`, as in PyTorch."""
    return Function(lambda x, y: f"Float32(select_({x} {sign} {y}, Float32(1.0), Float32(0.0)))", _SELECT)


_CUTE = (("cutlass", "cute"),)
_SELECT = (("cutlass", "Float32"), ("cutlass", "select_"))
_EXP = (*_arch("fmax", "fmin"), *_CUTE, *_SELECT)
_RCP = (*_arch("fmax", "fmin", "rcp_approx"), *_CUTE)
_EXP_NOTE = "ex2.approx: relative error below 1e-6, also near 0 and far from it"
_RCP_NOTE = "rcp.approx: relative error below 2e-7"
_WAVES = (*_arch("fmax", "fmin"), *_CUTE, ("cutlass", "Float32"))
_WAVES_NOTE = "sin and cos: error below 3e-7 for |x| up to 1e6; beyond 1e7 only between -1 and 1"
FUNCTIONS: dict[str, Function] = {
    **{name: _compared(TABLE[name].infix) for name in COMPARISONS},
    "where": Function(lambda c, x, y: f"Float32(select_({c} != 0.0, Float32({x}), Float32({y})))", _SELECT),
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
    "erf": _math("erf"),
    "floor": _math("floor"),
    "round": _math("roundeven"),
    "sin": Function(lambda x, name: _sine(x, 0.0, name), _WAVES, _WAVES_NOTE, twice=True, parts=True),
    "cos": Function(lambda x, name: _sine(x, 0.5, name), _WAVES, _WAVES_NOTE, twice=True, parts=True),
    "elu": Function(_elu, _EXP, _EXP_NOTE, twice=True, parts=True),
    "selu": Function(_selu, _EXP, _EXP_NOTE, twice=True, parts=True),
    "softplus": Function(_softplus, _RCP, _EXP_NOTE, twice=True, parts=True),
    "mish": Function(_mish, _RCP, _EXP_NOTE, twice=True, parts=True),
    "softsign": Function(
        lambda x: f"({x} * rcp_approx(1.0 + cute.math.absf({x})))",
        (*_arch("rcp_approx"), *_CUTE),
        _RCP_NOTE,
        twice=True,
    ),
    "hardswish": Function(lambda x: f"({x} * {_hardsigmoid(x)})", _arch("fmax", "fmin"), twice=True),
    "hardsigmoid": Function(_hardsigmoid, _arch("fmax", "fmin"), twice=True),
    "hardtanh": Function(lambda x, lo, hi: f"fmin(fmax({x}, {lo}, nan=True), {hi}, nan=True)", _arch("fmax", "fmin")),
    "triu": Function(_triangle(">="), _SELECT),
    "tril": Function(_triangle("<="), _SELECT),
}
INDEXED = ("triu", "tril")  # they read `offset`, n - m of the element, which only a gemm has


@dataclass(frozen=True)
class Body:
    """The body of a generated function.

    `lines` before the return, the returned texts (`value`: the first), the imports, and the notes on accuracy in order
    of use. `indexed`: the lines read `offset`, n - m of the element.
    """

    lines: tuple[str, ...]
    values: tuple[str, ...]
    imports: frozenset[tuple[str, str]]
    notes: tuple[str, ...]
    indexed: bool = False

    @property
    def value(self) -> str:
        return self.values[0]


def literal(value: float) -> str:
    """A float as Python text."""
    return repr(float(value)).replace("inf", 'float("inf")')


def write(expr: Expr, operands: dict[tuple, str], reserved: set[str]) -> Body:
    """The body of an epilogue function of one expression.

    `operands`: (tensor, axes) -> the text that reads it; `reserved`: names that a temporary may not have.
    """
    return write_all((), (expr,), operands, reserved)


def write_all(lets: tuple[Let, ...], exprs: tuple[Expr, ...], operands: dict[tuple, str], reserved: set[str]) -> Body:
    """The body for several expressions of one element; see `write`. A let gets a line, with its own name if free."""
    return _Writer(operands, reserved).body(lets, exprs)


class _Writer:
    def __init__(self, operands: dict[tuple, str], reserved: set[str]):
        self.operands, self.names = operands, set(reserved)
        self.lines: list[str] = []
        self.known: dict[Expr, str] = {}  # equal parts are computed once
        self.lets: dict[str, str] = {}
        self.imports: set[tuple[str, str]] = set()
        self.notes: dict[str, None] = {}
        self.indexed = False

    def body(self, lets: tuple[Let, ...], exprs: tuple[Expr, ...]) -> Body:
        counts: dict[Expr, int] = {}
        for e in (*(x.expr for x in lets), *exprs):
            self._count(e, counts)
        self.shared = {e for e, n in counts.items() if n > 1}
        for let in lets:
            self.lets[let.name] = self._let(let.name, self._text(let.expr)[0])
        values = tuple(self._text(e)[0] for e in exprs)
        return Body(tuple(self.lines), values, frozenset(self.imports), tuple(self.notes), self.indexed)

    def _let(self, name: str, text: str) -> str:
        safe = name
        while safe in self.names or keyword.iskeyword(safe):
            safe += "_"
        if text == safe:
            return safe
        self.names.add(safe)
        self.lines.append(f"{safe} = {text}")
        return safe

    def _count(self, e: Expr, counts: dict[Expr, int]) -> None:
        if isinstance(e, Call):
            counts[e] = counts.get(e, 0) + 1
            if counts[e] == 1:
                for a in e.args:
                    self._count(a, counts)

    def _name(self, text: str) -> str:
        number = len(self.lines) + 1
        while f"t{number}" in self.names:
            number += 1
        name = f"t{number}"
        self.names.add(name)
        self.lines.append(f"{name} = {text}")
        return name

    def _text(self, e: Expr) -> tuple[str, int]:
        """The text of a subexpression and its precedence."""
        if isinstance(e, Acc):
            return "acc2" if e.second else "acc", _ATOM
        if isinstance(e, Ref):
            return self.lets[e.name], _ATOM
        if isinstance(e, Number):
            return literal(e.value), _ATOM if math.copysign(1.0, e.value) > 0 else _SUM
        if isinstance(e, Load):
            return self.operands[(e.name, e.places)], _ATOM
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
        if e.fn in INDEXED:
            self.indexed = True
        if function.parts:
            return function.write(*texts, self._name), _ATOM
        return function.write(*texts), _SUM if e.fn == "leaky_relu" and e.args[1].value < 0 else _ATOM
