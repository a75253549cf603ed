"""The text of an epilogue, run on numbers, gives what the expression means; and every function has a text."""

import math

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from dsl.functions import NAMED
from dsl.ir import Acc, Call, Expr, Load, Number
from dsl.lower.cute.expression import FUNCTIONS, write
from tests.dsl.programs import expressions

ROW, FULL = Load("b", ("n",)), Load("r", ("m", "n"))
erf = np.vectorize(math.erf, otypes=[float])


class _Math:
    tanh, absf, sqrt, log = np.tanh, np.abs, np.sqrt, np.log
    exp = staticmethod(lambda x, fastmath: np.exp(x))


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
}


def meant(e: Expr, values: dict):
    if isinstance(e, Call):
        return MEANING[e.fn](*(meant(a, values) for a in e.args))
    return np.float64(e.value) if isinstance(e, Number) else values["acc" if isinstance(e, Acc) else e.name]


def written(e: Expr, values: dict):
    body = write(e, {("b", ("n",)): "b", ("r", ("m", "n")): "r"}, {"acc", "b", "r", "t2"})
    scope = {**WORDS, **values}
    exec("\n".join([*body.lines, f"answer = {body.value}"]), scope)
    return scope["answer"]


@settings(max_examples=300, deadline=None)
@given(expressions([Acc(), ROW, FULL]), st.lists(st.floats(-30, 30), min_size=3, max_size=3))
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


def test_every_function_of_the_language_has_a_text():
    assert set(NAMED) == set(FUNCTIONS)


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
