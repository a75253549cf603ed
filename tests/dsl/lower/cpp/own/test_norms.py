"""normalize: rows held in registers and rows that are not, in both layouts."""

import torch

from .emulated import agree, build, program


def test_softmax_layernorm_rmsnorm_of_rows(tmp_path):
    agree(
        """program p(a: f32[9, 40], h: f16[5, 1000], b: f32[3, 7, 11], w: f32[40], v: f32[40], long: f32[3, 20000],
              r: f32[9, 40]) ->
            (f32[9, 40], f32[9, 40], f16[5, 1000], f32[9, 40], f32[9, 40], f32[3, 7, 11], f32[3, 20000],
              f32[3, 20000], f32[9, 40]) {
          a1 = normalize(a) { op softmax over n }
          a2 = normalize(a) { op log_softmax over n of acc * 2.0 }
          h1 = normalize(h) { op softmax over n }
          a3 = normalize(a, w, v) { op layernorm over n eps 1e-3 epilogue relu(acc) + r[m, n] }
          a4 = normalize(a, w) { op rmsnorm over n }
          b1 = normalize(b) { op layernorm over m, n }
          l1 = normalize(long) { op softmax over n }
          l2 = normalize(long) { op layernorm over n }
          a5 = normalize(a) { op softmax over m }
          return a1, a2, h1, a3, a4, b1, l1, l2, a5
        }""",
        tmp_path,
    )


def test_norms_of_images(tmp_path):
    agree(
        """program p(x: f32[2, 12, 6, 10], w: f32[12], v: f32[12], mean: f32[12], positive: f32[12], row: f32[6, 32],
                     gw: f32[32], gv: f32[32], big: f32[1, 4, 130, 140], seq: f32[2, 6, 30]) ->
            (f32[2, 12, 6, 10], f32[2, 12, 6, 10], f32[2, 12, 6, 10], f32[2, 12, 6, 10], f32[6, 32],
              f32[2, 12, 6, 10],
             f32[2, 12, 6, 10], f32[1, 4, 130, 140], f32[2, 6, 30], f32[2, 12, 6, 10], f32[2, 12, 6, 10]) {
          x1 = normalize(x, w, v) { op groupnorm groups 3 epilogue clamp(acc, -1.0, 1.0) }
          x2 = normalize(x) { op instancenorm of acc * 0.5 + w[c] }
          x3 = normalize(x, mean, positive, w, v) { op batchnorm epilogue silu(acc) }
          x4 = normalize(x) { op softmax over c }
          r1 = normalize(row, gw, gv) { op groupnorm groups 4 }
          l = transform(x) { layout nhwc }
          x5 = normalize(l, w, v) { op groupnorm groups 3 store f32 nchw }
          y6 = normalize(l) { op instancenorm }
          x6 = transform(y6) { layout nchw }
          big1 = normalize(big) { op groupnorm groups 2 }
          s1 = normalize(seq) { op instancenorm }
          x7 = normalize(l, mean, positive) { op batchnorm store f32 nchw }
          x8 = normalize(l) { op softmax over c store f32 nchw }
          return x1, x2, x3, x4, r1, x5, x6, big1, s1, x7, x8
        }""",
        tmp_path,
    )


def test_far_from_zero_the_spread_is_still_right(tmp_path):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(3, 20000, generator=g) + 1000.0
    p = program("program p(x: f32[3, 20000]) -> f32[3, 20000] { y = normalize(x) { op layernorm over n } return y }")
    (y,) = build(p, tmp_path)[1]([x])
    want = torch.nn.functional.layer_norm(x.double(), (20000,))
    assert float((y - want).abs().max()) < 5e-3  # an ulp of x is 6e-5; squares of x would have lost everything
