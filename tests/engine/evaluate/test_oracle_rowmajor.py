"""What a convolution that reads nchw means on the CPU: f32 operands, rounded to the nearest of its precision."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from engine.evaluate.correctness import oracle, rounding  # noqa: E402

TEXT = """program p(x: f32[2, 5, 9, 8], w: f32[6, 5, 3, 3], b: f32[6]) -> f32[2, 6, 9, 8] {{
  y = conv2d(x, w) {{ padding 1x1  compute {compute}  epilogue relu(acc + b[c]) }}
  return y
}}"""
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def run(compute, *, exact=False):
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(*shape, generator=generator) for shape in ((2, 5, 9, 8), (6, 5, 3, 3), (6,))]
    return inputs, oracle.run(check(TEXT.format(compute=compute)).program, inputs, exact=exact)[0]


@pytest.mark.parametrize(("compute", "bits"), [("tf32", 11), ("f16", 11), ("bf16", 8)])
def test_operands_are_rounded_to_nearest_and_never_cut_off(compute, bits):
    inputs, out = run(compute)
    ideal = run(compute, exact=True)[1]
    error = float((out.double() - ideal).norm() / ideal.norm())
    assert 0.1 * 2.0**-bits < error < 2.0**-bits
    x, w, b = inputs

    def to(t):
        return rounding.nearest_tf32(t) if compute == "tf32" else t.to(HALVES[compute]).float()

    want = torch.relu(torch.nn.functional.conv2d(to(x), to(w), padding=1) + b[:, None, None])
    torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-6)


def test_the_nearest_tf32_is_at_most_half_a_step_away_and_ties_go_away_from_zero():
    step = 2.0**-10
    x = torch.tensor([1 + 0.4 * step, 1 + 0.5 * step, -1 - 0.5 * step, 1 + 0.6 * step, float("inf"), 3.4028235e38])
    near = rounding.nearest_tf32(x)
    assert near[:5].tolist() == [1.0, 1 + step, -1 - step, 1 + step, float("inf")]
    assert rounding.nearest_tf32(torch.tensor([float("nan")])).isnan().all()
    assert near[5].item() == float("inf")  # as cvt.rna: the exponent grows


def test_channels_last_operands_are_still_cut_as_the_tensor_cores_cut_them():
    text = """program p(x: f32[1, 4, 6, 6], w: f32[4, 4, 1, 1]) -> f32[1, 4, 6, 6] {
      xt = transform(x) { layout nhwc }
      wt = transform(w) { layout nhwc }
      y = conv2d(xt, wt) { compute tf32  store nchw }
      return y
    }"""
    x, w = torch.full((1, 4, 6, 6), 1 + 2.0**-11 + 2.0**-12), torch.ones(4, 4, 1, 1)
    (out,) = oracle.run(check(text).program, [x, w])
    assert torch.equal(out, torch.full_like(out, 4.0))
