"""More than one result of a product, reductions, pairs and groups: what the epilogue returns and who combines it."""

import re

import pytest

from dsl.lower import Refusal
from dsl.lower.cute import lower

from . import programs


def text(signature: str, results: str, clauses: str, returned: str = "y", call: str = "gemm(x, w.T)") -> str:
    return lower(
        programs.program(
            f"program p({signature}) -> {results} {{\n  y = {call} {{ {clauses} }}\n  return {returned}\n}}"
        )
    ).text


X = "x: f16[1000, 512], w: f16[640, 512]"
TILE = "tile 128x128x64 backend cute"


def call(source: str) -> str:
    """The arguments with which `run` launches stage y."""
    return re.search(r"^        Y\((.*)\)$", source, re.MULTILINE)[1]


def test_a_second_full_result_is_a_tile_store():
    source = text(X, "(f16[1000, 640], f16[1000, 640])", "also z = relu(acc)  epilogue tanh(acc)", "y, z")
    assert '@gemm_epilogue(outputs=("z",))' in source
    assert 'return {"D": cute.math.tanh(acc), "z": fmax(acc, 0.0, nan=True)}' in source
    assert call(source) == 'x, w, y, {"z": z}'


def test_a_reduction_leaves_a_part_a_tile_and_a_kernel_combines_them():
    source = text(X, "(f16[1000, 640], f32[1000])", f"{TILE} also s = row_sum(acc * acc)  epilogue acc", "y, s")
    assert '@gemm_epilogue(outs={"s": RowReduce("s", "add", ragged=False)})' in source
    assert 'return {"D": acc, "s": acc * acc}' in source
    assert '("y_partial0", torch.float32, (1000, 5)),' in source  # 640 columns are 5 tiles
    assert call(source) == 'x, w, y, {"s": y_partial0, "s whole": s}'
    assert '{"s": Rows("sum", 5)},' in source


def test_a_reduction_within_one_tile_is_whole_at_once():
    source = text("x: f16[256, 512], w: f16[128, 512]", "f32[256]", f"{TILE} epilogue row_max(acc)")
    assert call(source) == 'x, w, None, {"y": y.view(256, 1)}'
    assert "reducing(" not in source.split("# ---- stage 1")[1]


def test_what_lies_past_a_ragged_edge_does_not_count():
    results = "(f16[1000, 640], f32[1000], f32[640], f32[1000])"
    clauses = f"{TILE} also s = row_sum(acc)  also v = col_sum(acc)  also e = row_logsumexp(acc)  epilogue acc"
    source = text(X, results, clauses, "y, s, v, e")
    assert 'ColumnSum("v", ragged=True)' in source  # 1000 rows in tiles of 128
    assert 'RowReduce("s", "add", ragged=False)' in source
    assert 'OnlineLSEReduce("e", check_oob=False)' in source


def test_columns_add_within_a_batch():
    signature = "x: f16[4, 256, 128], w: f16[192, 128]"
    source = text(signature, "f32[4, 192]", f"{TILE} epilogue col_sum(acc)")
    assert '("y_partial0", torch.float32, (4, 2, 192)),' in source and '{"y": Columns()},' in source
    source = text(signature, "f32[4, 256]", f"{TILE} epilogue row_sum(acc)")  # rows do not mind: one tall product
    assert call(source).startswith("x.view(1024, 128), w, None,")


def test_a_let_keeps_its_name_for_all_results():
    source = text(X, "(f16[1000, 640], f32[1000])", "let t = acc * 2.0  also s = row_max(t)  epilogue relu(t)", "y, s")
    assert "    t = acc * 2.0\n    return " in source and '"s": t}' in source


def test_pairs_read_two_columns_and_store_one():
    source = text(
        "x: f16[256, 512], w: f16[512, 512], b: f32[256], g: f32[256]", "f16[256, 256]",
        "pairs backend cute  epilogue silu(acc + b[n]) * acc2 * g[m]",
    )  # fmt: skip
    assert 'mode="acc_pair"' in source and "acc, acc2 = unpack(acc)" in source and "b, _ = unpack(b)" in source
    assert '"b": PairRow("b"), "g": ColVecLoad("g")' in source
    assert call(source) == 'x, w, None, {"b": b, "g": g, "y": y}'


def test_reductions_of_pairs_count_a_pair_once():
    results = "(f16[256, 256], f32[256], f32[256], f32[256])"
    source = text(
        "x: f16[256, 512], w: f16[512, 512]", results,
        "pairs also s = row_sum(acc2)  also e = row_logsumexp(acc)  also v = col_sum(acc)  epilogue acc * acc2",
        "y, s, e, v",
    )  # fmt: skip
    assert '"s": pack(acc2, 0.0)' in source and '"e": pack(acc, -math.inf)' in source and "Columns(2)" in source


def test_groups_get_their_first_rows_on_the_device():
    source = text(
        "x: f16[1000, 512], w: f16[8, 512, 640], sizes: i32[8], b: f32[640]", "f16[1000, 640]",
        "epilogue relu(acc + b[n])", call="grouped_gemm(x, w, sizes)",
    )  # fmt: skip
    assert call(source) == 'x, w, y, {"b": b}, sizes, y_first' and "Y = GroupedStage(" in source
    assert '("y_first", torch.int32, (9,)),' in source and "b_kn=True" in source


def test_int8_has_an_epilogue_of_its_own_and_fp8_has_not():
    for dtype, word in (("i8", "@whole_epilogue()"), ("e4m3", "@gemm_epilogue()")):
        source = text(f"x: {dtype}[256, 512], w: {dtype}[256, 512]", "f16[256, 256]", "store f16 epilogue acc * 0.5")
        assert word in source


def test_triangles_ask_for_the_place():
    source = text(X, "f16[1000, 640]", "epilogue triu(acc, 1)")
    assert '"offset": Offset("offset")' in source and '{"offset": 1}' in source
    assert "Float32(select_(offset >= 1, acc, Float32(0.0)))" in source


@pytest.mark.parametrize(
    ("signature", "results", "clauses", "call", "code"),
    [
        ("x: f16[64, 64], w: f16[64, 64]", "f32[64, 32]", "pairs store f32 epilogue acc * acc2", None, "pairs-store"),
        ("x: f16[64, 64], w: f16[64, 64], r: f16[64, 32]", "f16[64, 32]", "pairs epilogue acc * acc2 + r[m, n]", None,
         "load"),
        ("x: f16[64, 64], w: f16[64, 64]", "f16[64, 32]", "pairs epilogue triu(acc * acc2)", None, "indexed"),
        ("x: f16[64, 64], w: f16[2, 64, 64], s: i32[2], r: f16[64, 64]", "f16[64, 64]", "epilogue acc + r[m, n]",
         "grouped_gemm(x, w.T, s)", "load"),
    ],
)  # fmt: skip
def test_what_quack_cannot_is_refused_in_words(signature, results, clauses, call, code):
    with pytest.raises(Refusal) as caught:
        text(signature, results, clauses, call=call or "gemm(x, w.T)")
    assert caught.value.code == f"cute-{code}" and caught.value.help
