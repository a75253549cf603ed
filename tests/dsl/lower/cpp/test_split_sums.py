"""split_k(n): each split of K leaves its sums in the workspace, and a second kernel makes the result of them."""

from dsl.lower.cpp import lower

from . import programs

TEXT = """
program p(a: f32[256, 65536], b: f32[256, 65536]{more}) -> {result} {{
  arch sm_90a
  y = gemm(a, b.T) {{
    compute tf32  tile 128x128x32  cluster 1x1x1  schedule cooperative  scheduler {scheduler}  swizzle 1
    {store}  epilogue {epilogue}
  }}
  return y
}}
"""


def text(scheduler: str = "split_k(33)", epilogue: str = "relu(acc * g[m] + r[m, n])"):
    whole = "row_sum" not in epilogue
    clauses = {"scheduler": scheduler, "epilogue": epilogue, "more": ", g: f32[256], r: f32[256, 256]" if whole else ""}
    result, store = ("f16[256, 256]", "store f16") if whole else ("f32[256]", "")
    return lower(programs.program(TEXT.format(result=result, store=store, **clauses)))


def test_splits_lie_side_by_side_and_the_epilogue_comes_after_the_sum():
    source = text().text
    assert "using TileScheduler = Splits<cutlass::gemm::PersistentScheduler, 2048>;" in source
    assert "kGemm, {M, N, K, launch[1]}" in source and "parts.d = workspace;" in source
    assert "size_t(launch[1]) * M * N * sizeof(float)" in source
    assert "return fn_relu((acc * in_g_direct) + in_r_direct);" in source and "return acc;" in source
    assert "sum_splits<Later, cutlass::half_t, 65536, 256>" in source


def test_the_number_of_splits_is_a_choice_of_the_launch():
    assert text().text == text("split_k(16)").text
    assert "LAUNCH = [0, 1, 33]" in text().binding and "LAUNCH = [0, 1, 16]" in text("split_k(16)").binding


def test_stream_k_shares_no_build_with_it():
    assert text("stream_k").namespace != text().namespace


def test_a_reduced_product_is_added_up_by_cutlass():
    source = text("split_k(4)", "row_sum(acc)").text
    assert "StreamKScheduler" in source and "Splits<" not in source
