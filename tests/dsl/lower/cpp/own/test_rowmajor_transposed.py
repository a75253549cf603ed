"""Transposed convolutions of stride 1 that read nchw on the tensor cores, on the CPU: plain ones of turned filters."""

import re

import pytest

from dsl.lower.cpp import lower

from .test_rowmajor import exact, with_tile

WIDE = """program p(x: f32[2, 16, 9, 20], w: f32[16, 40, 3, 5], b: f32[40]) -> f32[2, 40, 11, 22] {
  y = conv_transpose2d(x, w) { compute tf32  padding 0x1  epilogue relu(acc + b[c]) }
  return y }"""


def test_filters_are_turned_round_and_channels_change_places(tmp_path):
    exact(WIDE, tmp_path, (48, 64, 120), 2)


def test_only_the_packing_of_the_weights_and_the_zeros_around_x_tell_it_from_a_plain_one():
    plain = WIDE.replace("conv_transpose2d", "conv2d").replace("w: f32[16, 40,", "w: f32[40, 16,")
    plain = plain.replace("padding 0x1", "padding 2x3")
    texts = [lower(with_tile(t, (48, 64, 120), 2)).text for t in (plain, WIDE)]
    kernels = [re.sub(r"uc_[0-9a-f]+", "uc", t[t.index("48 filters x") :]) for t in texts]
    assert kernels[0] == kernels[1]


def test_three_axes_a_dilation_and_padding_that_crops(tmp_path):
    text = """program p(x: f32[2, 6, 4, 6, 12], w: f32[6, 20, 2, 3, 1]) -> f32[2, 20, 5, 8, 8] {
      y = conv_transpose3d(x, w) { compute f16  padding 0x1x2  dilation 1x2x1 }
      return y }"""
    exact(text, tmp_path, (32, 64, 48), 3)


def test_output_padding_reaches_past_x_on_the_right_alone(tmp_path):
    text = """program p(x: f32[1, 5, 3, 7], w: f32[5, 18, 1, 1]) -> f32[1, 18, 4, 8] {
      y = conv_transpose2d(x, w) { compute tf32  dilation 2x2  output_padding 1x1 }
      return y }"""
    exact(text, tmp_path, (32, 64, 8), 2)


@pytest.mark.parametrize("compute", ["tf32", "bf16"])
def test_a_long_row_in_several_steps(tmp_path, compute):
    text = f"""program p(x: f32[2, 20, 130], w: f32[20, 24, 4], v: f32[139]) -> f32[2, 24, 139] {{
      y = conv_transpose1d(x, w) {{ compute {compute}  dilation 3  epilogue gelu(acc) * v[w] }}
      return y }}"""
    exact(text, tmp_path, (32, 64, 32), 2)
