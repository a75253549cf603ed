"""The oracle says what a program means: held against the same formula written in PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.functions import EVERY  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402

F = torch.nn.functional


def program(text):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def test_every_function_of_the_language_has_a_meaning():
    assert set(oracle.FUNCTIONS) == set(EVERY)


def test_exact_is_float64_without_any_rounding():
    p = program("""program p(x: f32[64, 32], w: f32[48, 32], b: f32[48]) -> f32[64, 48] {
      h = transform(x) { to f16 }
      v = transform(w) { to f16 }
      y = gemm(h, v.T) { store f32  epilogue gelu((acc + b[n]) * 2.0) }
      return y
    }""")
    x, w, b = randn(64, 32), randn(48, 32), randn(48)
    (out,) = oracle.run(p, [x, w, b], exact=True)
    want = F.gelu((x.double() @ w.double().T + b.double()) * 2)
    assert out.dtype is torch.float64 and torch.equal(out, want)


def test_casts_and_stores_round_and_products_do_not():
    p = program("""program p(x: f32[64, 32], w: f16[32, 48]) -> f16[64, 48] {
      h = transform(x) { to f16 }
      y = gemm(h, w)
      return y
    }""")
    x, w = randn(64, 32), randn(32, 48, dtype=torch.float16)
    (out,) = oracle.run(p, [x, w])
    assert torch.equal(out, (x.half().float() @ w.float()).half())


def test_tf32_operands_lose_their_last_thirteen_bits():
    x = torch.tensor([1.0 + 2.0**-10, 1.0 + 2.0**-11, -1.0 - 2.0**-11, 3.0e38])
    assert oracle.truncate_tf32(x)[:3].tolist() == [1.0 + 2.0**-10, 1.0, -1.0]
    p = program("program p(x: f32[64, 32], w: f32[32, 48]) -> f32[64, 48] {\n  y = gemm(x, w)\n  return y\n}")
    x, w = randn(64, 32), randn(32, 48)
    (out,) = oracle.run(p, [x, w])
    assert torch.equal(out, oracle.truncate_tf32(x) @ oracle.truncate_tf32(w))


def test_operands_of_the_epilogue_are_read_along_their_axes():
    p = program("""program p(x: f16[2, 8, 16], w: f16[2, 16, 8], g: f32[8], c: f32[8], r: f32[2, 8, 8], s: f32[]) ->
    f32[2, 8, 8] {
      y = gemm(x, w) { store f32  epilogue (acc * g[m] + c[n] - r[l, m, n]) / s }
      return y
    }""")
    x, w = randn(2, 8, 16, dtype=torch.float16), randn(2, 16, 8, dtype=torch.float16)
    g, c, r, s = randn(8), randn(8, seed=1), randn(2, 8, 8), torch.tensor(3.0)
    (out,) = oracle.run(p, [x, w, g, c, r, s])
    acc = x.float() @ w.float()
    assert torch.allclose(out, (acc * g[:, None] + c[None, :] - r) / s, rtol=1e-6, atol=1e-6)


def test_a_pipeline_runs_on_fewer_rows_than_it_was_written_for():
    p = program("""program p(x: bf16[512, 32], u: bf16[64, 32], d: bf16[32, 64]) -> bf16[512, 32] {
      h = gemm(x, u.T) { epilogue relu(acc) }
      y = gemm(h, d.T)
      return y
    }""")
    x, u, d = (randn(*s, dtype=torch.bfloat16) for s in ((16, 32), (64, 32), (32, 64)))
    (out,) = oracle.run(p, [x, u, d])
    hidden = torch.relu(x.float() @ u.float().T).bfloat16()
    assert out.shape == (16, 32) and torch.equal(out, (hidden.float() @ d.float().T).bfloat16())


def test_the_wrong_number_of_tensors_is_an_error():
    p = program("program p(x: f16[64, 32], w: f16[32, 48]) -> f16[64, 48] {\n  y = gemm(x, w)\n  return y\n}")
    with pytest.raises(ValueError, match="takes 2 tensors; 1 given"):
        oracle.run(p, [randn(64, 32)])
