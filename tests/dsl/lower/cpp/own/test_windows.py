"""pool and direct convolution: strides, paddings, dilations, groups, one to three axes."""

import pytest

from dsl.lower.cpp import lower
from engine.build import toolchain
from tests import compiled
from tests.dsl.matrix.build import whole

from .emulated import agree, program


def test_pools(tmp_path):
    agree(
        """program p(a: f32[2, 3, 17], b: f32[2, 3, 12, 14], c: f16[1, 2, 6, 7, 8], s: f32[3]) ->
            (f32[2, 3, 8], f32[2, 3, 6, 7], f32[2, 3, 6, 7], f32[2, 3, 12, 14], f16[1, 2, 3, 3, 4],
              f32[2, 3, 1, 1], f16[1, 2, 1, 1, 1], f32[2, 3, 6, 7], f32[2, 3, 5, 6]) {
          a1 = pool(a) { op max window 3 stride 2 }
          b1 = pool(b) { op max window 2x2 stride 2x2 epilogue relu(acc) * s[c] }
          b2 = pool(b) { op avg window 2x2 stride 2x2 }
          b3 = pool(b) { op avg window 3x3 stride 1x1 padding 1x1 }
          c1 = pool(c) { op max window 2x2x2 stride 2x2x2 }
          b4 = pool(b) { op avg window global epilogue acc + s[c] }
          c2 = pool(c) { op max window global }
          l = transform(b) { layout nhwc }
          b5 = pool(l) { op max window 3x3 stride 2x2 padding 1x1 store f32 nchw }
          b6 = pool(b) { op max window 3x4 stride 2x2 }
          return a1, b1, b2, b3, c1, b4, c2, b5, b6
        }""",
        tmp_path,
    )


DILATED = """program p(a: f32[2, 3, 23], b: f32[2, 3, 12, 14], c: f16[1, 2, 8, 9, 10], s: f32[3]) ->
    (f32[2, 3, 19], f32[2, 3, 5, 5], f16[1, 2, 2, 3, 3], f32[2, 3, 8, 10], f32[2, 3, 4, 2]) {
  a1 = pool(a) { op max window 4 stride 1 padding 1 dilation 2 }
  b1 = pool(b) { op max window 3x2 stride 2x3 padding 1x1 dilation 2x3 epilogue relu(acc) * s[c] }
  c1 = pool(c) { op max window 3x3x3 stride 2x2x2 padding 1x1x1 dilation 3x3x3 }
  l = transform(b) { layout nhwc }
  b2 = pool(l) { op max window 3x3 stride 1x1 dilation 2x2 store f32 nchw }
  b3 = pool(b) { op max window 2x3 stride 3x4 dilation 1x4 }
  return a1, b1, c1, b2, b3
}"""


def test_dilated_pools(tmp_path):
    agree(DILATED, tmp_path)


@pytest.mark.toolchain
def test_dilated_pools_compile():
    if not (tools := toolchain.find()).cpp:
        pytest.skip("; ".join(tools.missing()))
    source = lower(program(DILATED))
    if compiled.wanted("cpp", {"dilated": source.text}, always=0):
        whole(source)
        compiled.compiled("cpp", source.text)


def test_direct_convolutions(tmp_path):
    agree(
        """program p(x: f32[2, 3, 14, 13], w: f32[16, 3, 3, 3], b: f32[16], dx: f32[2, 6, 15, 18],
              dw: f32[6, 1, 3, 3],
                     gw: f32[8, 3, 3, 5], s: f32[2, 4, 70], sw: f32[10, 4, 3], v: f16[1, 2, 5, 6, 7],
              vw: f16[12, 2, 3, 3, 3],
                     big: f32[24, 3, 5, 5]) ->
            (f32[2, 16, 12, 11], f32[2, 16, 7, 7], f32[2, 6, 15, 18], f32[2, 6, 11, 14], f32[2, 8, 13, 16],
              f32[2, 10, 31], f16[1, 12, 3, 4, 5],
             f32[2, 24, 4, 3], f16[1, 12, 5, 6, 7]) {
          y1 = conv2d(x, w) { compute f32 epilogue relu(acc + b[c]) }
          y2 = conv2d(x, w) { compute f32 stride 2x2 padding 1x1 }
          y3 = conv2d(dx, dw) { compute f32 groups 6 padding 1x1 }
          y4 = conv2d(dx, dw) { compute f32 groups 6 dilation 2x2 }
          y5 = conv2d(dx, gw) { compute f32 groups 2 padding 0x1 }
          y6 = conv1d(s, sw) { compute f32 stride 2 dilation 4 }
          y7 = conv3d(v, vw) { compute f32 }
          y8 = conv2d(x, big) { compute f32 stride 3x4 padding 0x1 }
          y9 = conv3d(v, vw) { compute f32 padding 1x1x1 }
          return y1, y2, y3, y4, y5, y6, y7, y8, y9
        }""",
        tmp_path,
    )
