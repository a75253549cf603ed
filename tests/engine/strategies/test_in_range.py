"""A guarded program whose results are stored times powers of two means the same, and holds what tripped its guard."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.compile import compile as generate  # noqa: E402
from dsl.guard import HIGH, LOW  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.strategies.planner.search.in_range import powers, scalable, scaled  # noqa: E402

STORED = """program p(x: f32[64, 128], w: f32[256, 128], v: f32[32, 256], b: f32[256]) -> f32[64, 32] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  vh = transform(v) { to f16 }
  h = gemm(xh, wh.T) { compute f16  store f16  epilogue relu(acc + b[n]) * 1e-5 }
  y = gemm(h, vh.T) { compute f16  store f32  epilogue acc + acc * 0.5 }
  return y
}"""
CAST = STORED.replace("store f16", "store f32").replace("  y = gemm(h,", "  k = transform(h) { to f16 }\n  y = gemm(k,")
IMAGES = """program p(x: f32[2, 8, 12, 12], w: f32[8, 8, 3, 3], d: f32[8, 1, 3, 3], v: f32[16, 8, 1, 1])
    -> f32[2, 16, 12, 12] {
  guard f32
  xh = transform(x) { layout nhwc  to f16 }
  wh = transform(w) { layout nhwc  to f16 }
  h = conv2d(xh, wh) { padding 1x1  compute f16  store f32 nchw  epilogue relu(acc) * 1e-5 }
  g = conv2d(h, d) { padding 1x1  groups 8  compute f32  store f32 }
  gh = transform(g) { layout nhwc  to f16 }
  vh = transform(v) { layout nhwc  to f16 }
  y = conv2d(gh, vh) { compute f16  store f32 nchw }
  return y
}"""


def program(text):
    checked = check(text)
    assert checked.ok, [d.message for d in checked.diagnostics]
    return checked.program


def values(p) -> list:
    torch.manual_seed(3)
    return [torch.randn(t.type.shape) * (0.25 if i else 1.0) for i, t in enumerate(p.params)]


@pytest.mark.parametrize(("text", "names"), [(STORED, ("h",)), (CAST, ("h",)), (IMAGES, ("g",))])
def test_what_is_rounded_for_products_alone_may_be_scaled(text, names):
    assert scalable(program(text)) == names


@pytest.mark.parametrize(
    "changed",
    [
        STORED.replace("-> f32[64, 32]", "-> (f32[64, 32], f32[64, 256])").replace("return y", "return y, h")
        .replace("store f16  epilogue relu", "store f32  epilogue relu").replace("gemm(h, vh", "gemm(k, vh")
        .replace("  y =", "  k = transform(h) { to f16 }\n  y ="),
        CAST.replace("epilogue acc + acc * 0.5 }", "epilogue acc }\n  z = map(h) { epilogue acc * 2.0 }")
        .replace("-> f32[64, 32]", "-> (f32[64, 32], f32[64, 256])").replace("return y", "return y, z"),
    ],
    ids=["the caller", "a residual"],
)  # fmt: skip
def test_what_anything_else_reads_is_not(changed):
    assert scalable(program(changed)) == ()


@pytest.mark.parametrize("text", [STORED, CAST, IMAGES])
def test_the_scaled_program_means_the_same_and_no_longer_trips(text):
    p = program(text)
    inputs = values(p)
    name = scalable(p)[0]
    assert oracle.tripped(p, inputs) == name
    by = powers({n: ends for n, ends in oracle.ranges(p, inputs).items() if n in scalable(p)})
    assert set(by) == {name} and by[name] > 0
    new = program(to_text(scaled(p, by)))
    assert oracle.tripped(new, inputs) is None and "cute" in generate(new, 132).sources
    for a, b in zip(oracle.run(p, inputs, exact=True), oracle.run(new, inputs, exact=True), strict=True):
        assert torch.equal(a, b), "powers of two are exact"
    right, have = oracle.run(p, inputs, exact=True)[0], oracle.run(new, inputs)[0].double()
    assert torch.linalg.vector_norm(have - right) < 1e-3 * torch.linalg.vector_norm(right)


def test_a_guard_still_trips_on_inputs_of_another_size():
    p = program(STORED)
    inputs = values(p)
    new = program(to_text(scaled(p, powers({"h": oracle.ranges(p, inputs)["h"]}))))
    assert oracle.tripped(new, [inputs[0], inputs[1] * 2.0**20, *inputs[2:]]) is not None


def test_two_scaled_operands_are_both_taken_back():
    text = """program p(x: f32[2, 32, 64], w: f32[64, 64]) -> f32[2, 32, 32] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  a = gemm(xh, wh.T) { compute f16  store f16 }
  b = gemm(xh, wh) { compute f16  store f16 }
  y = gemm(a, b.T) { compute f16  store f32 }
  return y
}"""
    p = program(text)
    assert scalable(p) == ("a", "b")
    new = program(to_text(scaled(p, {"a": 9, "b": -4})))
    inputs = values(p)
    assert torch.equal(oracle.run(p, inputs, exact=True)[0], oracle.run(new, inputs, exact=True)[0])


def test_a_power_brings_a_range_into_the_middle_of_f16_s_and_what_fits_well_is_left():
    ranges = {"small": (3e-7, 2e-4), "large": (1.0, 1e6), "narrowly": (LOW, 4 * LOW), "wide": (1e-9, 1e4)}
    by = powers(ranges | {"fits": (1.0, 100.0), "broken": (1.0, float("inf"))})
    assert set(by) == set(ranges) and by["large"] < 0 < min(by["small"], by["narrowly"], by["wide"])
    for name, (least, greatest) in ranges.items():
        below, above = least * 2.0 ** by[name] / LOW, HIGH / (greatest * 2.0 ** by[name])
        assert 0.5 <= below / above <= 2, "as much room on either side"
