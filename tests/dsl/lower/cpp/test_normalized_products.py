"""A norm of a product is made in the product's registers where its groups lie in one tile."""

import pytest

from dsl.lower.cpp import lower

from . import programs

TEXT = """
program p(x: f32[512, 256], w: f32[{shape}], b: f32[1024], g: f32[1024], o: f32[1024]{r})
  -> {result} {{
  arch sm_90a
  h = gemm(x, {w}) {{ compute tf32  tile {tile}  epilogue silu(acc + b[n]) }}
  y = normalize(h, g, o) {{ {norm} }}
  return {returned}
}}
"""
NORM = "op groupnorm  groups 16  epilogue relu(acc + r[m, n])"


def text(**changed) -> str:
    clauses = {
        "result": "f32[512, 1024]", "w": "w.T", "shape": "1024, 256", "tile": "128x128x32", "norm": NORM,
        "returned": "y",
    } | changed  # fmt: skip
    clauses["r"] = ", r: f32[512, 1024]" if "r[" in clauses["norm"] else ""
    return lower(programs.program(TEXT.format(**clauses))).text


def alone(source: str) -> bool:
    return "NormalizedEpilogue<Stored, Later>" in source and "stage_y" not in source


def test_one_kernel_evaluates_both_expressions():
    source = text()
    assert alone(source) and "static constexpr int kWidth = 64" in source and "kCentred = true" in source
    assert "return fn_silu(acc + in_b_direct);" in source
    assert "return fn_relu(((acc * in_g_direct) + in_o_direct) + in_r_direct);" in source


def test_it_writes_the_norm_s_result_and_nothing_lies_between():
    source = text()
    assert "{inputs[0], inputs[1], outputs[0], inputs[2], inputs[3], inputs[4], inputs[5]}" in source
    assert "kIntermediates = 0;" in source


def test_a_vector_is_read_within_the_result_s_edges_where_tiles_reach_beyond():
    assert "column < N ?" not in text()
    ragged = text(tile="128x192x32  schedule cooperative")
    assert alone(ragged) and "column < N ? static_cast<float>(on.in_g_direct[int64_t(column)]) : 0.0f" in ragged
    assert "inside && column < N ? static_cast<float>(on.in_r_direct" in ragged


@pytest.mark.parametrize(
    "changed",
    [
        {"tile": "128x96x32"},  # 64 columns begin in one tile and end in the next
        {"tile": "128x192x32  schedule pingpong"},  # 192 sums a thread leave no registers for statistics
        {"norm": "op groupnorm  groups 2"},  # 512 columns: four tiles
        {"returned": "y, h", "result": "(f32[512, 1024], f32[512, 1024])"},  # the product is wanted too
        {"norm": "op groupnorm  groups 16  epilogue acc + h[m, n]"},
        {"norm": "op groupnorm  groups 256"},  # four columns: not all of the lanes
        {"w": "w", "shape": "256, 1024"},  # the transposed result: its rows lie across warps
    ],
)
def test_two_kernels_where_that_is_not_possible(changed):
    source = text(**changed)
    assert not alone(source) and "namespace stage_y" in source


def test_a_whole_row_in_one_tile_is_a_layer_norm_s_group():
    program = """
program p(x: f16[512, 256], w: f16[256, 256], g: f16[256]) -> f16[512, 256] {
  arch sm_90a
  h = gemm(x, w.T) { tile 128x256x64  schedule cooperative }
  y = normalize(h, g) { op rmsnorm  over n }
  return y
}"""
    source = lower(programs.program(program)).text
    assert alone(source) and "kWidth = 256" in source and "kCentred = false" in source
