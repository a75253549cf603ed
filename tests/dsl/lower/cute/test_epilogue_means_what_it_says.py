"""The text of an epilogue, run on numbers, gives what the expression means; and every function has a text."""

import math

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dsl.functions import COMPARISONS, INDEXED, NAMED
from dsl.ir import Acc, Call, Expr, Let, Load, Number, Ref
from dsl.lower.cute.expression import FUNCTIONS, write, write_all
from tests.dsl.programs import expressions

ROW, FULL = Load("b", ("n",)), Load("r", ("m", "n"))
erf = np.vectorize(math.erf, otypes=[float])


class _Math:
    tanh, absf, sqrt, log, floor, roundeven = np.tanh, np.abs, np.sqrt, np.log, np.floor, np.round
    erf = erf
    exp = staticmethod(lambda x, fastmath: np.exp(x))
    fma = staticmethod(lambda x, y, z: x * y + z)


class _Cute:
    math = _Math


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# What CuTe and quack give these names, on numbers.
WORDS = {
    "fmax": lambda x, y, nan: np.maximum(x, y),
    "fmin": lambda x, y, nan: np.minimum(x, y),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh_approx": gelu_tanh,
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "cute": _Cute,
    "Float32": np.float64,
    "rcp_approx": lambda x: 1 / x,
    "select_": np.where,
}

MEANING = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, s: np.where(x > 0, x, s * x),
    "gelu": WORDS["gelu_erf"],
    "gelu_tanh": gelu_tanh,
    "silu": WORDS["silu"],
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "clamp": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "erf": erf,
    "floor": np.floor,
    "round": np.round,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
    "softsign": lambda x: x / (1 + np.abs(x)),
}

# Those whose text is a series: right to f32's precision, which a chain of functions may amplify.
SERIES = {
    "sin": (np.sin, ()),
    "cos": (np.cos, ()),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), (Number(1.0),)),
    "selu": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), ()),
    "softplus": (lambda x: np.logaddexp(x, 0), ()),
    "mish": (lambda x: x * np.tanh(np.logaddexp(x, 0)), ()),
}


def meant(e: Expr, values: dict):
    if isinstance(e, Call):
        return np.float64(MEANING[e.fn](*(meant(a, values) for a in e.args)))
    return np.float64(e.value) if isinstance(e, Number) else values["acc" if isinstance(e, Acc) else e.name]


def written(e: Expr, values: dict):
    body = write(e, {("b", ("n",)): "b", ("r", ("m", "n")): "r"}, {"acc", "b", "r", "t2"})
    scope = {**WORDS, **values}
    exec("\n".join([*body.lines, f"answer = {body.value}"]), scope)
    return scope["answer"]


def is_chained_series(e: Expr) -> bool:
    return isinstance(e, Call) and (e.fn in SERIES or any(map(is_chained_series, e.args)))


@settings(max_examples=300)
@given(
    expressions([Acc(), ROW, FULL]).filter(lambda e: not is_chained_series(e)),
    st.lists(st.floats(-30, 30), min_size=3, max_size=3),
)
def test_text_and_meaning_agree(expr, numbers):
    values = dict(zip(("acc", "b", "r"), map(np.float64, numbers), strict=True))
    with np.errstate(all="ignore", divide="raise"):
        try:
            want, have = meant(expr, values), written(expr, values)
        except FloatingPointError:  # 1/0: the language does not say which zero a zero is
            reject()
    if np.isfinite(want):
        assert have == pytest.approx(want, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("slope", [0.0, 0.01, 1.0, 1.5, -0.2])
@pytest.mark.parametrize("x", [-3.0, -0.0, 2.5])
def test_leaky_relu_of_every_slope(slope, x):
    e = Call("sub", (Number(1.0), Call("leaky_relu", (Acc(), Number(slope)))))
    assert written(e, {"acc": np.float64(x)}) == pytest.approx(1.0 - (x if x > 0 else slope * x))


@pytest.mark.parametrize("name", SERIES)
def test_series_are_right_to_single_precision_near_zero_and_far_from_it(name):
    meaning, more = SERIES[name]
    x = np.concatenate([np.linspace(-30, 30, 20001), np.linspace(-1e-3, 1e-3, 2001), -np.logspace(-8, 1.9, 500)])
    body = write(Call(name, (Acc(), *more)), {}, {"acc"})
    scope = {**WORDS, "acc": x, "Float32": np.asarray}
    exec("\n".join([*body.lines, f"answer = {body.value}"]), scope)
    want = meaning(x)
    assert np.max(np.abs(scope["answer"] - want) / np.maximum(np.abs(want), 1e-30)) < 1e-7


def test_every_function_of_the_language_has_a_text():
    assert {*NAMED, *INDEXED, *COMPARISONS} == set(FUNCTIONS)


def test_triangles_select_by_place_and_say_so():
    body = write(Call("triu", (Acc(), Number(1.0))), {}, {"acc"})
    assert body.indexed
    for offset in (0, 1, 2):
        assert eval(body.value, {**WORDS, "acc": np.nan, "offset": offset}) == pytest.approx(
            np.nan if offset >= 1 else 0.0, nan_ok=True
        )


def test_lets_keep_their_names_and_are_computed_once():
    lets = (Let("t", Call("add", (Acc(), ROW))), Let("b", Call("mul", (Ref("t"), Ref("t")))))
    body = write_all(lets, (Call("relu", (Ref("t"),)), Ref("b")), {("b", ("n",)): "b"}, {"acc", "b"})
    assert body.lines == ("t = acc + b", "b_ = t * t")
    assert body.values == ("fmax(t, 0.0, nan=True)", "b_")


def test_constants_are_folded_in_f32_not_by_python():
    e = Call("div", (Number(1.0), Number(0.0)))
    assert write(Call("add", (Acc(), e)), {}, set()).value == "acc + Float32(1.0) / 0.0"


def test_long_expressions_are_cut_into_named_parts():
    e = Acc()
    for _ in range(40):
        e = Call("add", (Call("tanh", (e,)), ROW))
    body = write(e, {("b", ("n",)): "b"}, {"acc", "b"})
    assert len(body.lines) > 4 and max(map(len, [*body.lines, body.value])) < 120


def test_approximations_are_said():
    assert "2^-11" in write(Call("gelu_tanh", (Acc(),)), {}, set()).notes[0]
    assert not write(Call("gelu", (Acc(),)), {}, set()).notes
