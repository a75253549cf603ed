"""A guarded program means f16 where f16 is as good as tf32, and f32 where it is not."""

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from dsl.check.program import check  # noqa: E402
from dsl.guard import CHUNK, HIGH, LOW  # noqa: E402
from engine.classes import class_of, class_words, roof_of  # noqa: E402
from engine.evaluate.correctness import inputs as data  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.evaluate.correctness.tolerance import TOLERANCES  # noqa: E402

M, K, N = 24, 256, 16
TEXT = f"""program p(x: f32[{M}, {K}], w: f32[{N}, {K}]) -> f32[{M}, {N}] {{
  guard f32
  xh = transform(x) {{ to f16 }}
  wh = transform(w) {{ to f16 }}
  y = gemm(xh, wh.T) {{ store f32 }}
  return y
}}"""
PLAIN = TEXT.replace("  guard f32\n", "")
TF32 = f"program p(x: f32[{M}, {K}], w: f32[{N}, {K}]) -> f32[{M}, {N}] {{\n  y = gemm(x, w.T)\n  return y\n}}"


def run(text: str, *tensors):
    return oracle.run(check(text).program, tensors)[0]


def error(out, x, w) -> float:
    right = x.double() @ w.double().T
    return float(torch.linalg.vector_norm(out - right) / torch.linalg.vector_norm(right))


@st.composite
def tensors(draw):
    """Rows and elements of very different magnitudes, some of them zero; each row is a chunk."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    x, w = torch.randn(M, K), torch.randn(N, K) * K**-0.5
    reach, row = draw(st.floats(0, 12)), draw(st.integers(-30, 14))
    x *= 10 ** (-reach * torch.rand(M, K))
    x[draw(st.integers(0, M - 1))] *= 2.0**row
    if draw(st.booleans()):
        x[draw(st.integers(0, M - 1))] = 0
    return x, w


@settings(max_examples=60)
@given(tensors())
def test_what_passes_the_guard_is_no_worse_than_tf32(both):
    x, w = both
    out = run(TEXT, x, w)
    if oracle.trips(x) or oracle.trips(w):
        assert error(out, x, w) < 1e-6
        return
    assert torch.equal(out, run(PLAIN, x, w))
    # The bound of the text in dsl/guard.py, element by element.
    most = x.abs().view(-1, CHUNK).amax(1, keepdim=True).expand(-1, CHUNK).reshape(x.shape).double()
    assert ((x.half().double() - x.double()).abs() <= 2.0**-11 * x.double().abs() + 2.0**-16 * most).all()
    # tf32 as the tensor cores read f32: cut off, not rounded. Where one row is 10,000 times as large as the others, its
    # few results decide, and in one of thousands of draws f16's roundings add up to 0.5% more than tf32's.
    assert error(out, x, w) <= 1.1 * error(run(TF32, x, w), x, w)


CONV = """program p(x: f32[2, 16, 12, 12], w: f32[8, 16, 3, 3]) -> f32[2, 8, 10, 10] {
  guard f32
  y = conv2d(x, w) { compute f16 }
  return y
}"""


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6, float("nan")])
def test_a_convolution_that_rounds_its_own_operands_is_watched(operand, scale):
    torch.manual_seed(1)
    tensors = [torch.randn(2, 16, 12, 12), torch.randn(8, 16, 3, 3) / 12]
    tensors[operand] *= scale
    plain, exact = run(CONV.replace("guard f32", ""), *tensors), torch.nn.functional.conv2d(*tensors)
    if scale == 1.0:
        assert torch.equal(run(CONV, *tensors), plain) and not torch.equal(plain, exact)
    else:
        assert torch.allclose(run(CONV, *tensors), exact, rtol=1e-4, atol=0.0, equal_nan=True)
        assert scale != scale or not torch.allclose(plain, exact, rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("family", data.GUARD_FAMILIES)
def test_the_families_of_guarded_programs_trip_and_come_out_in_f32(family):
    x = data.fill((M, K), "f32", family, 5, "x")
    w = data.fill((N, K), "f32", family, 5, "w", role=data.Role("weight", K, False))
    assert oracle.trips(x) and not oracle.trips(w)
    out, unguarded = run(TEXT, x, w), run(PLAIN, x, w)
    assert error(out, x, w) < 1e-6
    wrong = error(unguarded, x, w) if bool(unguarded.isfinite().all()) else float("inf")
    assert wrong > TOLERANCES["tf32"].error


@pytest.mark.parametrize(
    ("value", "up"),
    [(LOW, False), (LOW * 0.999, True), (HIGH, False), (65520.0, True), (0.0, False), (float("nan"), True),
     (float("inf"), True)],
)  # fmt: skip
def test_where_the_guard_draws_its_lines(value, up):
    x = torch.ones(4, CHUNK)
    x[2] = 0
    x[2, 7] = value
    assert oracle.trips(x) == up


def test_without_rounding_there_is_nothing_to_guard():
    x, w = torch.randn(M, K) * 1e6, torch.randn(N, K)
    assert torch.equal(oracle.run(check(TEXT).program, (x, w), exact=True)[0], x.double() @ w.double().T)


def test_guarded_f16_stands_in_tf32_under_the_roof_of_f16():
    guarded, plain = check(TEXT).program, check(PLAIN).program
    assert (class_of(guarded), roof_of(guarded), class_words(guarded)) == ("tf32", "f16", "tf32 by guarded f16")
    assert (class_of(plain), roof_of(plain), class_words(plain)) == ("f16", "f16", "f16")
    assert class_words(check(TF32).program) == "tf32"


CHAIN = """program p(x: f32[32, 256], w: f32[256, 256], v: f32[16, 256], s: f32[256]) -> f32[32, 16] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  vh = transform(v) { to f16 }
  h = gemm(xh, wh.T) { store f16  epilogue acc * s[n] }
  y = gemm(h, vh.T) { store f32 }
  return y
}"""


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e6, float("inf")])
def test_what_is_rounded_as_it_is_stored_is_watched_too(scale):
    torch.manual_seed(2)
    tensors = [torch.randn(32, 256), torch.randn(256, 256) / 16, torch.randn(16, 256) / 16, torch.full((256,), scale)]
    out, chain = run(CHAIN, *tensors), check(CHAIN).program
    assert oracle.tripped(chain, tensors) == (None if scale == 1.0 else "h")
    if scale == 1.0:  # the same as a cast of its own afterwards
        cast = CHAIN.replace("store f16", "store f32").replace(
            "  y = gemm(h,", "  k = transform(h) { to f16 }\n  y = gemm(k,"
        )
        assert torch.equal(out, run(cast, *tensors))
    else:
        x, w, v, s = tensors
        torch.testing.assert_close(out, ((x @ w.T) * s) @ v.T, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)


def test_the_first_tensor_that_trips_is_named():
    torch.manual_seed(2)
    tensors = [torch.randn(M, K) * 1e-6, torch.randn(N, K)]
    assert oracle.tripped(check(TEXT).program, tensors) == "x"
    assert oracle.tripped(check(PLAIN).program, tensors) is None
