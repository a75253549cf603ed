"""The shipped check gives a module its inputs by the rules of a session, and compares the tensors of any result."""

import importlib.util
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import engine.export  # noqa: E402

SHIPPED = Path(engine.export.__file__).parent / "shipped" / "check.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("shipped_check", SHIPPED)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forward(self, x, scale=1.0, *, cache=None):
    pass


def pair(self, parts, options):
    pass


@pytest.mark.parametrize(
    ("function", "value", "positional", "named"),
    [
        (forward, [1, 2], [1, 2], {}),
        (forward, 1, [1], {}),
        (forward, {"x": 1, "cache": 3}, [1], {"cache": 3}),
        (forward, [[1], {"scale": 2}], [1], {"scale": 2}),  # KernelBook's form
        (pair, ([1, 2], {"scale": 2}), [[1, 2], {"scale": 2}], {}),  # names that forward does not take
    ],
)
def test_inputs_are_bound_to_forward(check, function, value, positional, named):
    assert check.arguments(function, value, (None,)) == (positional, named)


@dataclass(frozen=True)
class Out:
    y: object
    n: int


Point = namedtuple("Point", "x y")


def test_every_tensor_of_a_value_is_found_and_changed(check):
    one, two, three = (torch.full((2,), float(i)) for i in range(3))
    value = Out({"a": [one, 1.5, None]}, 3), Point(two, "text"), three
    assert [x is y for x, y in zip(check.leaves(torch, value), (one, two, three), strict=True)] == [True] * 3
    doubled = check.mapped(torch, value, lambda x: x * 2)
    assert doubled[1].x[0] == 2 and doubled[0].n == 3 and doubled[0].y["a"][1:] == [1.5, None]
    assert value[1].x[0] == 1, "the value itself stays"


def test_a_result_without_a_tensor_has_none(check):
    assert check.leaves(torch, (None, 2.0, "text")) == []
