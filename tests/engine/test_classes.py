"""The class of a program, and the class in which one without products counts."""

import pytest

from dsl.check.program import check
from engine.classes import class_among

NORM = "program p(x: f32[8, 64]) -> f32[8, 64] { y = normalize(x) { op softmax  over n } return y }"
CAST = """program p(x: f32[8, 64]) -> f32[8, 64] {
  h = map(x) { store f16  epilogue relu(acc) }
  y = normalize(h) { op softmax  over n  store f32 }
  return y
}"""
EXACT = "program p(x: f32[64, 64], w: f32[64, 64]) -> f32[64, 64] { y = gemm(x, w.T) { compute f32 } return y }"
FINER = "program p(x: f32[64, 64], w: f32[64, 64]) -> f32[64, 64] { y = gemm(x, w.T) { compute tf32 } return y }"
HALF = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"


@pytest.mark.parametrize(
    ("text", "allowed", "cls"),
    [
        (NORM, ["tf32", "f16"], "tf32"),  # no products: as exact as its operands, and counted where one is allowed
        (NORM, ["f16"], "f16"),
        (NORM, ["tf32", "f32"], "f32"),
        (NORM, [], "f32"),
        (CAST, ["tf32", "f16"], "f16"),  # what it stores in between has the bits of f16
        (CAST, ["tf32"], "tf32"),
        (EXACT, ["tf32", "f16"], "f32"),  # its products have a class of their own
        (HALF, ["tf32"], "f16"),
        (FINER, ["tf32", "f16"], "tf32"),
        (FINER, ["f16"], "f16"),  # who allows f16 allows what is finer
        (FINER, ["fp8", "bf16"], "bf16"),
        (FINER, ["fp8"], "tf32"),
    ],
)
def test_a_program_counts_in_its_own_class_or_without_products_in_an_allowed_one(text, allowed, cls):
    assert class_among(check(text).program, allowed) == cls
