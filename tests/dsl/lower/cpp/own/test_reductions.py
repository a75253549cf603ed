"""reduce: any axes, along rows and along columns, in one block and over several."""

import torch

from .emulated import agree, build, program


def test_rows_of_every_length(tmp_path):
    agree(
        """program p(a: f32[9, 5], b: f32[40, 64], c: f32[3, 4001], d: f16[7, 640], e: f32[300, 8], v: f32[64]) ->
            (f32[9], f32[40], f32[3], f16[7], f32[300], f32[40, 1], f32[40], f32[3], i32[40], i32[7], f32[40]) {
          a1 = reduce(a) { op sum over n }
          b1 = reduce(b) { op mean over n epilogue relu(acc) * 2.0 }
          c1 = reduce(c) { op max over n }
          d1 = reduce(d) { op sum over n }
          e1 = reduce(e) { op min over n }
          b2 = reduce(b) { op logsumexp over n keepdim }
          b3 = reduce(b) { op sum over n of acc * v[n] + 1.0 }
          c2 = reduce(c) { op logsumexp over n }
          b4 = reduce(b) { op argmax over n }
          d2 = reduce(d) { op argmax over n }
          b5 = reduce(b) { op max over n of abs(acc) }
          return a1, b1, c1, d1, e1, b2, b3, c2, b4, d2, b5
        }""",
        tmp_path,
    )


def test_columns_and_images(tmp_path):
    agree(
        """program p(a: f32[37, 24], x: f32[2, 16, 6, 10], y: f16[2, 8, 5, 7], g: f32[2], s: f32[16],
              z: f32[3, 5, 7]) ->
            (f32[24], f32[2, 6, 10], f32[2, 1, 6, 10], f32[16], f32[2, 16], f32[2, 16, 1, 1], f16[2, 8], i32[24],
              i32[2, 6, 10],
             f32[2, 6], f32[5], f32[2, 16, 6], f32[3, 7], f32[2, 10]) {
          a1 = reduce(a) { op sum over m }
          x1 = reduce(x) { op logsumexp over c epilogue relu(acc) - g[b] }
          x2 = reduce(x) { op max over c keepdim }
          x3 = reduce(x) { op mean over b, h, w }
          x4 = reduce(x) { op sum over h, w epilogue acc * s[c] }
          x5 = reduce(x) { op mean over h, w keepdim epilogue acc * s[c] }
          y1 = reduce(y) { op max over h, w }
          a2 = reduce(a) { op argmax over m }
          x6 = reduce(x) { op argmax over c }
          x7 = reduce(x) { op min over c, w of acc * s[c] }
          z1 = reduce(z) { op sum over b, w }
          x8 = reduce(x) { op sum over w }
          z2 = reduce(z) { op sum over c }
          x9 = reduce(x) { op sum over c, h }
          return a1, x1, x2, x3, x4, x5, y1, a2, x6, x7, z1, x8, z2, x9
        }""",
        tmp_path,
    )


def test_channels_last_and_several_blocks_a_result(tmp_path):
    agree(
        """program p(x: f16[2, 8, 6, 10], big: f32[2, 70001], tall: f32[20000, 8], all: f32[33, 3000]) ->
            (f16[2, 8], f16[2, 6, 10], f32[2], f32[8], f32[2], f32[8], i32[2], f32[], f16[8]) {
          l = transform(x) { layout nhwc }
          x1 = reduce(l) { op mean over h, w }
          x2 = reduce(l) { op logsumexp over c }
          b1 = reduce(big) { op logsumexp over n }
          t1 = reduce(tall) { op sum over m of acc * 0.5 epilogue acc + 1.0 }
          b2 = reduce(big) { op mean over n }
          t2 = reduce(tall) { op max over m }
          b3 = reduce(big) { op argmax over n }
          s = reduce(all) { op sum over m, n }
          x3 = reduce(l) { op max over b, h, w }
          return x1, x2, b1, t1, b2, t2, b3, s, x3
        }""",
        tmp_path,
    )


def test_a_long_sum_of_like_numbers_loses_no_more_than_pytorch_does(tmp_path):
    """A mean that is then taken off leaves its rounding: 6e-7 if each of 256 threads adds its 63 one by one."""
    p = program("program p(x: f32[264, 16001]) -> f32[264] { y = reduce(x) { op mean over n } return y }")
    (out,) = build(p, tmp_path)[1]([torch.full((264, 16001), 0.7)])
    assert ((out.double() / float(torch.tensor(0.7)) - 1).abs()).max() < 3e-7
