"""A program with products in tf32 that was tried in f16 is as exact as PyTorch in f16, or as PyTorch in tf32."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dsl.check.program import check
from engine.devices import TrialError
from engine.evaluate.correctness.tolerance import Comparison, PyTorchError
from engine.evaluate.correctness.verification import Round, RoundResult, Rounds

TEXT = """program p(a: f32[64, 128], b: f32[64, 128]) -> f32[64, 64] {{
  arch sm_90a
  {casts}y = gemm({a}, {b}.T) {{
    compute {compute}
    store f32
  }}
  return y
}}
"""
CASTS = "x = transform(a) {\n    to f16\n  }\n  w = transform(b) {\n    to f16\n  }\n  "
IN_F16 = check(TEXT.format(casts=CASTS, a="x", b="w", compute="f16")).program
IN_TF32 = check(TEXT.format(casts="", a="a", b="b", compute="tf32")).program
OWN = {"f16": 3.7e-4, "tf32": 7.8e-4}  # PyTorch's own errors: f16 rounds operands, the tensor cores cut tf32's bits off


class One(Rounds):
    """One round in which a result is off by `error`."""

    def __init__(self, error: float):
        self.error = error

    def begin(self, candidate):
        return [Round("own", 1)]

    def run(self, candidate, round_):
        return RoundResult([Comparison(self.error, 0.0, 0, 100)])

    def pytorch_error(self, round_, cls, suspected):
        return PyTorchError(OWN[cls], 0.01)

    def scope(self, checks, repeats):
        return ""


def candidate(program, cls="f16"):
    return SimpleNamespace(trial=1, cls=cls, program=program, placed=())


def test_what_pytorch_gives_in_tf32_is_right_in_f16():
    validated = One(7.8e-4).validate(candidate(IN_TF32))
    assert validated.checks[0]["pytorch_error"] == OWN["tf32"]
    assert validated.tolerance == pytest.approx(2 * OWN["tf32"])


def test_half_precision_is_held_to_its_own_class():
    with pytest.raises(TrialError, match="in class f16"):
        One(7.8e-4).validate(candidate(IN_F16))


def test_products_in_tf32_are_no_excuse_for_more():
    with pytest.raises(TrialError, match="in class f16"):
        One(1.7e-3).validate(candidate(IN_TF32))


def test_one_region_in_tf32_is_enough_in_a_module_of_several():
    one = candidate(IN_F16)
    one.placed = (SimpleNamespace(program=IN_F16), SimpleNamespace(program=IN_TF32))
    assert One(7.8e-4).validate(one).tolerance == pytest.approx(2 * OWN["tf32"])


def test_a_guarded_program_in_tf32_is_judged_as_ever():
    guarded = replace(IN_F16, guard=True)
    assert One(7.8e-4).validate(candidate(guarded, "tf32")).tolerance == pytest.approx(2 * OWN["tf32"])
