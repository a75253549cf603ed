"""Running sums on the GPU mean what they mean in float64, along rows and across them."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.lower.cpp import lower
from engine.build import pool
from engine.build.cache import Cache
from engine.evaluate.correctness import oracle
from tests.dsl.lower.cpp.own.emulated import TOLERANCE, inputs_of, program
from tests.dsl.lower.cpp.own.test_scans import COLUMNS, PRODUCTS, ROWS

pytestmark = pytest.mark.gpu

LONG = """program p(x: f32[700, 40000], y: f16[3, 100000], z: f32[30000, 260]) ->
    (f32[700, 40000], f32[3, 100000], f32[30000, 260]) {
  a = scan(x) { op sum  over n }
  b = scan(y) { op sum  over n  reverse  store f32 }
  c = scan(z) { op sum  over m }
  return a, b, c
}"""
LOOSE = {"long": 20}  # times the tolerance: errors of a sum grow with its length


@pytest.mark.parametrize("name, text", [("rows", ROWS), ("columns", COLUMNS), ("products", PRODUCTS), ("long", LONG)])
def test_every_element_is_what_came_up_to_it(cuda, name, text, tmp_path):
    p = program(text)
    source, inputs = lower(p), inputs_of(p)
    library, space = pool.build_cpp(source, Cache(tmp_path), seconds=300), {}
    exec(source.binding, space)
    outputs = [torch.full(t.shape, float("nan"), dtype=oracle.TORCH[t.dtype], device="cuda") for t in p.result_types]
    space["load"](str(library.path))([x.cuda() for x in inputs], outputs)
    torch.cuda.synchronize()
    for got, want, kind in zip(outputs, oracle.run(p, inputs, exact=True), p.result_types, strict=True):
        tolerance = TOLERANCE[kind.dtype] * LOOSE.get(name, 1)
        torch.testing.assert_close(
            got.double().cpu(), want.double(), rtol=tolerance, atol=tolerance * float(want.abs().mean())
        )
