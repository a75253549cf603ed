"""Convolutions that read nchw on the tensor cores, on the CPU: every lane's copies, offsets and fragments are real."""

import dataclasses

import pytest
import torch

from dsl.lower import Refusal
from dsl.lower.cpp import lower
from dsl.lower.cpp.generated import rowmajor
from dsl.lower.plan.buffers import types_of
from dsl.rules.halo import Layout, fit, layout_of
from dsl.rules.image import image_of
from engine.evaluate.correctness import oracle

from .emulated import build, inputs_of, program

WITHIN = {"tf32": 1e-3, "f16": 1e-3, "bf16": 8e-3}  # of the result's norm


def exact(text: str, folder, tile: tuple[int, int, int], stages: int) -> None:
    """Builds the program's first stage with that tile, runs it, and compares with float64."""
    p = with_tile(text, tile, stages)
    _, run = build(p, folder)
    inputs = inputs_of(p)
    got, want = run(inputs)[0].double(), oracle.run(p, inputs, exact=True)[0]
    assert not torch.isnan(got).any()  # shared memory that was never written, or read too early, holds NaN
    assert float((got - want).norm() / want.norm()) < WITHIN[p.stages[0].config.compute.value]


def with_tile(text: str, tile: tuple[int, int, int], stages: int):
    p = program(text)
    stage = p.stages[0]
    config = dataclasses.replace(stage.config, tile=tile, stages=stages)
    return dataclasses.replace(p, stages=(dataclasses.replace(stage, config=config), *p.stages[1:]))


def layout(text: str, tile: tuple[int, int, int]) -> Layout:
    p = program(text)
    return layout_of(image_of(p.stages[0], types_of(p)), tile)


def test_padding_two_steps_and_a_bias(tmp_path):
    text = """program p(x: f32[2, 16, 12, 23], w: f32[40, 16, 3, 3], b: f32[40]) -> f32[2, 40, 12, 23] {
      y = conv2d(x, w) { compute tf32  padding 1x1  epilogue relu(acc + b[c]) }
      return y }"""
    exact(text, tmp_path, (64, 64, 72), 2)


def test_few_channels_lie_along_the_windows_columns(tmp_path):
    text = """program p(x: f32[1, 3, 21, 40], w: f32[40, 3, 5, 5], r: f32[1, 40, 7, 14]) -> f32[1, 40, 7, 14] {
      y = conv2d(x, w) { compute f16  stride 3x3  padding 1x2  epilogue acc * r[b, c, h, w] }
      return y }"""
    exact(text, tmp_path, (48, 64, 32), 3)


def test_three_axes_and_channels_that_fill_no_step(tmp_path):
    text = """program p(x: f32[2, 6, 5, 6, 10], w: f32[20, 6, 3, 3, 3], g: f32[2, 20]) -> f16[2, 20, 3, 6, 10] {
      y = conv3d(x, w) { compute bf16  padding 0x1x1  store f16  epilogue acc * g[b, c] }
      return y }"""
    exact(text, tmp_path, (32, 64, 112), 3)


def test_a_long_row_of_strides_and_dilations_with_weights_that_do_not_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(rowmajor, "MULTIPROCESSORS", 1)  # one block walks all tiles
    text = """program p(x: f32[1, 160, 208], w: f32[130, 160, 3]) -> f32[1, 130, 67] {
      y = conv1d(x, w) { compute tf32  stride 3  dilation 4 }
      return y }"""
    assert "and their weights, on its way" in lower(with_tile(text, (128, 32, 24), 4)).text
    exact(text, tmp_path, (128, 32, 24), 4)


def test_a_pointwise_convolution_is_one_long_row(tmp_path):
    text = """program p(x: f32[2, 20, 6, 14], w: f32[24, 20, 1, 1], v: f32[6, 14]) -> f32[2, 24, 6, 14] {
      y = conv2d(x, w) { compute f16  epilogue acc + v[h, w] }
      return y }"""
    p = with_tile(text, (32, 128, 32), 2)
    assert " // 32 filters x (1 x 128) pixels a block" in lower(p).text
    exact(text, tmp_path, (32, 128, 32), 2)


def test_two_results_leave_in_turn_rows_cut_into_runs(tmp_path):
    text = """program p(x: f32[2, 4, 5, 133], w: f32[24, 4, 3, 3], v: f32[131])
    -> (f32[2, 24, 3, 131], f32[2, 24, 3, 131]) {
      y = conv2d(x, w) { compute f16  epilogue sigmoid(acc) + v[w]  also z = gelu(acc) }
      return y, z }"""
    assert not layout(text, (32, 64, 48)).whole_rows
    exact(text, tmp_path, (32, 64, 48), 2)


def test_one_buffer_of_results_where_two_do_not_fit(tmp_path, monkeypatch):
    text = """program p(x: f32[1, 8, 9, 22], w: f32[40, 8, 3, 3], b: f32[40]) -> f32[1, 40, 7, 20] {
      y = conv2d(x, w) { compute tf32  epilogue mish(acc + b[c]) }
      return y }"""
    two = fit(layout(text, (48, 64, 72)), 2, 227 << 10)
    less = dataclasses.replace(rowmajor.ARCHS["sm_90a"], smem_block=two.shared_bytes - 4)
    monkeypatch.setitem(rowmajor.ARCHS, "sm_90a", less)
    one = fit(two.layout, 2, two.shared_bytes - 4)
    assert (two.buffers, one.buffers, one.resident) == (2, 1, True)
    exact(text, tmp_path, (48, 64, 72), 2)


def test_a_tensor_whose_rows_and_columns_are_exchanged_is_no_long_row():
    along = rowmajor.spatial((2560, 256, 16, 1), (1, 10, 16, 16), (1, 1, 256))
    assert along == (2560, 256, 0, 0, 1)
    with pytest.raises(Refusal) as caught:
        rowmajor.spatial((2560, 256, 1, 16), (1, 10, 16, 16), (1, 1, 256))
    assert "rows and columns are exchanged" in str(caught.value) and caught.value.help == "transform it first"


def test_a_tile_that_does_not_fit_is_refused():
    text = """program p(x: f32[1, 64, 100, 100], w: f32[128, 64, 3, 3]) -> f32[1, 128, 98, 98] {
      y = conv2d(x, w) { compute tf32 }
      return y }"""
    with pytest.raises(Refusal) as caught:
        lower(with_tile(text, (128, 256, 576), 3))
    assert caught.value.code == "cpp-conv-rowmajor" and "bytes of shared memory" in str(caught.value)
