"""The expression that an operation of each element becomes has PyTorch's value: of ordinary numbers, of 0, of tiny and
of large ones, of infinities and of NaN."""

import math

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from dsl.ir import Acc, Load
from engine.evaluate.correctness.expressions import Scope
from engine.strategies.planner.lowering import pointwise
from sol.graph import Op

INF, NAN = math.inf, math.nan
POSITIVE = (1e-30, 1e-6, 1e-3, 0.3, 0.5, 0.999, 1.0, 1.5, 2.5, 7.0, 30.0, 300.0, 1e4, INF)
POINTS = torch.tensor([0.0, -0.0, *POSITIVE, *(-x for x in POSITIVE), NAN], dtype=torch.float64)
OTHERS = torch.tensor([0.0, 0.5, -0.5, 1.0, -2.0, INF, NAN], dtype=torch.float64)

# operation, its numbers by their ATen names, what PyTorch computes of one tensor (or two)
ONE = [
    ("sign", {}, torch.sign),
    ("threshold", {"threshold": 0.2, "value": -3.0}, lambda x: F.threshold(x, 0.2, -3.0)),
    ("hardshrink", {"lambd": 0.4}, lambda x: F.hardshrink(x, 0.4)),
    ("softshrink", {"lambd": 0.3}, lambda x: F.softshrink(x, 0.3)),
    ("celu", {"alpha": 1.3}, lambda x: F.celu(x, 1.3)),
    ("log_sigmoid", {}, F.logsigmoid),
    ("softplus", {"beta": 2.0, "threshold": 10.0}, lambda x: F.softplus(x, 2.0, 10.0)),
    ("erf", {}, torch.erf),
    ("sin", {}, torch.sin),
    ("cos", {}, torch.cos),
    ("floor", {}, torch.floor),
    ("ceil", {}, torch.ceil),
    ("round", {}, torch.round),
    ("exp2", {}, torch.exp2),
    ("log2", {}, torch.log2),
    ("log10", {}, torch.log10),
    ("expm1", {}, torch.expm1),
    ("log1p", {}, torch.log1p),
    ("isnan", {}, torch.isnan),
    ("logical_not", {}, torch.logical_not),
    ("gt", {"other": 0.3}, lambda x: x > 0.3),
    ("ne", {"other": 0}, lambda x: x != 0),
    ("lt", {"other": "inf"}, lambda x: x < INF),
    *(("pow", {"exponent": e}, lambda x, e=e: x**e) for e in (-2, -1, -0.5, 0.5, 1.5, 1.7, -0.3, 2, 3, 4)),
    ("pow", {"self": 2}, lambda x: 2.0**x),
]
TWO = [
    ("lt", {}, torch.lt),
    ("eq", {}, torch.eq),
    ("where", {"other": 0.5}, lambda c, x: torch.where(c != 0, x, 0.5)),
    ("where", {"self": "-inf"}, lambda c, y: torch.where(c != 0, -INF, y)),
    ("masked_fill", {"value": "-inf"}, lambda x, c: x.masked_fill(c != 0, -INF)),
    ("logical_and", {}, torch.logical_and),
    ("logical_or", {}, torch.logical_or),
    ("logical_xor", {}, torch.logical_xor),
    ("xlogy", {}, torch.xlogy),
    ("lerp", {"weight": 0.3}, lambda x, y: torch.lerp(x, y, 0.3)),
]
TRUTHS = {"isnan", "gt", "ne", "lt", "eq", "logical_not", "logical_and", "logical_or", "logical_xor"}


def value(op: str, numbers: dict, *tensors: torch.Tensor) -> torch.Tensor:
    """What the operation's expression means, in float64."""
    terms = [Acc(), *(Load(f"t{i}", ("n",)) for i in range(1, len(tensors)))]
    call = Op("op", op, tuple(f"t{i}" for i in range(len(tensors))), ("y",), numbers, None)
    expression = pointwise.apply(call, terms, op in TRUTHS)
    assert expression is not None
    return Scope(tensors[0], {"n": (0,)}, {f"t{i}": t for i, t in enumerate(tensors)}).result(expression)


def agree(have: torch.Tensor, want: torch.Tensor) -> bool:
    return torch.allclose(have, want.to(have.dtype), rtol=1e-12, atol=1e-300, equal_nan=True)


@pytest.mark.parametrize(("op", "numbers", "meaning"), ONE, ids=lambda x: str(x) if isinstance(x, str | dict) else "")
def test_of_one_tensor(op, numbers, meaning):
    root = op == "pow" and numbers.get("exponent", 1) % 1
    points = POINTS[POINTS != -INF] if root else POINTS  # of which C's pow has no root but infinity
    have, want = value(op, numbers, points), meaning(points)
    assert agree(have, want), list(zip(points.tolist(), have.tolist(), want.tolist(), strict=True))


@pytest.mark.parametrize(("op", "numbers", "meaning"), TWO, ids=lambda x: str(x) if isinstance(x, str | dict) else "")
def test_of_two_tensors(op, numbers, meaning):
    x, y = (t.flatten() for t in torch.meshgrid(POINTS, OTHERS, indexing="ij"))
    have, want = value(op, numbers, x, y), meaning(x, y)
    assert agree(have, want), list(zip(x.tolist(), y.tolist(), have.tolist(), want.tolist(), strict=True))


def test_what_has_no_expression_is_none():
    for op, numbers in (("pow", {"exponent": 7}), ("round", {"decimals": 2}), ("gt", {"other": "nan"})):
        call = Op("op", op, ("x",), ("y",), numbers, None)
        assert pointwise.apply(call, [Acc()], op == "gt") is None
