"""tf32 `x @ w`: the kernel computes the transpose, and strides, tile, cluster and vectors are turned with it."""

import pytest

from dsl.lower.cpp import lower

from . import programs

TEXT = """
program p(x: f32[512, 256], w: f32[256, 1024], b: f32[1024], g: f32[512], r: f32[512, 1024])
  -> f32[512, 1024] {{
  arch sm_90a
  y = gemm(x, {w}) {{
    compute tf32
    tile 64x128x32
    cluster 2x1x1
    schedule pingpong
    epilogue (acc + b[n]) * g[m] + r[m, n]
  }}
  return y
}}
"""


@pytest.fixture(scope="module")
def text():
    return lower(programs.program(TEXT.format(w="w"))).text


def test_sizes_tile_and_cluster_are_turned(text):
    assert "L = 1, M = 1024, N = 512, K = 256" in text
    assert "using TileShape = cute::Shape<cute::Int<128>, cute::Int<64>, cute::Int<32>>" in text
    assert "using ClusterShape = cute::Shape<cute::Int<1>, cute::Int<2>, cute::Int<1>>" in text


def test_the_kernel_s_first_operand_is_w_and_lies_along_its_rows(text):
    assert "stage_y::run(device, {inputs[1], inputs[0], outputs[0], inputs[2], inputs[3], inputs[4]}" in text
    assert "static_cast<ElementA const*>(on.a), cute::make_stride(cute::Int<1>{}, int64_t(1024), int64_t(0))" in text
    assert "static_cast<ElementB const*>(on.b), cute::make_stride(int64_t(256), cute::Int<1>{}, int64_t(0))" in text
    # Both tags column-major: with two row-major ones CUTLASS's builder would turn the mainloop once more.
    assert "LayoutA = cutlass::layout::ColumnMajor" in text and "LayoutB = cutlass::layout::ColumnMajor" in text


def test_the_result_keeps_its_place_in_memory(text):
    assert "using LayoutD = cutlass::layout::ColumnMajor" in text
    assert "static_cast<ElementD*>(on.d), cute::make_stride(cute::Int<1>{}, int64_t(M), int64_t(0))" in text
    assert "in_r_source), cute::make_stride(cute::Int<1>{}, int64_t(M), int64_t(0))" in text


def test_a_vector_along_n_is_a_column_to_it(text):
    assert "return ((acc + in_b_column) * in_g_row) + in_r_source;" in text


def test_nothing_is_turned_where_both_operands_lie_along_k():
    plain = lower(programs.program(TEXT.replace("w: f32[256, 1024]", "w: f32[1024, 256]").format(w="w.T"))).text
    assert "L = 1, M = 512, N = 1024, K = 256" in plain and "LayoutD = cutlass::layout::RowMajor" in plain
    assert "in_b_row" in plain and "in_g_column" in plain
