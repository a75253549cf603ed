"""Levers: what the report recommends, why, and what it promises."""

from dataclasses import replace

import pytest
from suite59 import PROBLEMS, Builder, gemm_problem
from test_masks import attention

from sol.bounds import t_sol
from sol.hardware import load
from sol.levers import levers

H200 = load("h200")


def actions(graph, cls, **more):
    return {lever.action: lever for lever in levers(graph, H200, cls, **more)}


def test_fusing_the_tail_saves_its_traffic():
    lever = actions(gemm_problem("L2/12"), "tf32", allowed=())["fuse_tail"]
    assert "134.2 MB" in lever.why and "2 launches" in lever.why  # two round trips of 1024x8192 floats
    assert lever.op == "linear_0" and 1.05 < lever.speedup < 1.2


def test_attention_that_is_written_out_is_one_flash_style_kernel():
    masked = actions(attention(between=("to",), shape=(8, 12, 512, 64)), "tf32", allowed=())
    lever = masked["fuse_attention"]
    assert lever.title == "Run matmul, masked_fill, to, softmax, matmul as one flash-style attention kernel"
    assert "100.7 MB of scores" in lever.why and lever.speedup > 2 and "fuse_pointwise" not in masked


@pytest.mark.parametrize("shown", ["softmax", "matmul"])
def test_attention_whose_scores_the_module_returns_is_not_one_kernel(shown):
    graph = attention()
    inner = next(op.outputs[0] for op in graph.ops if op.op == shown)
    assert "fuse_attention" not in actions(replace(graph, outputs=(*graph.outputs, inner)), "tf32", allowed=())


def test_a_lower_class_is_proposed_only_where_allowed():
    assert "lower_class" in actions(gemm_problem("L2/12"), "f32", allowed=("f32", "tf32"))
    assert "lower_class" not in actions(gemm_problem("L2/12"), "f32", allowed=("f32",))


def test_few_tiles_and_a_long_k_call_for_split_k_with_the_idle_sms():
    lever = actions(gemm_problem("L1/6"), "tf32", allowed=())["split_k"]
    assert "4 tiles of 128x128 leave 128 of 132 SMs idle" in lever.why


def test_misaligned_rows_call_for_padding():
    assert actions(gemm_problem("L1/8"), "tf32", allowed=())["align"].speedup > 2


def test_levers_are_ranked_by_what_they_save():
    ranking = levers(gemm_problem("L2/37"), H200, "tf32")
    assert [x.saves_ms for x in ranking] == sorted((x.saves_ms for x in ranking), reverse=True)
    assert all(x.speedup > 1 and x.why and x.title for x in ranking)


def test_operations_that_a_product_parts_are_not_one_kernel():
    b = Builder()
    x = b.op("sigmoid", b.op("softmax", b.input("x", 4096, 1024), dim=-1))
    y = b.linear(x, 2048)
    b.op("softmax", y, dim=-1)
    graph = b.done(b.op("sum", b.ops[-1].outputs[0], shape=(4096, 1), dim=[1]))
    fuse = [lever.title for lever in levers(graph, H200, "tf32") if lever.action == "fuse_pointwise"]
    assert sorted(fuse) == ["Run softmax, sigmoid as one kernel", "Run softmax, sum as one kernel"]


def test_making_and_joining_tensors_are_no_copies_to_drop():
    b = Builder()
    x = b.input("x", 4096, 1024)
    zeros = b.op("zeros", shape=(4096, 1024))
    both = b.op("cat", b.op("relu", x), zeros, shape=(4096, 2048), dim=1)
    assert "drop_copy" not in actions(b.done(b.linear(both, 1024)), "tf32")


def test_a_layout_change_before_a_product_can_be_dropped_and_one_that_is_the_module_cannot():
    b = Builder()
    y = b.op("contiguous", b.t(b.op("relu", b.input("x", 4096, 1024))))
    assert "drop_copy" in actions(b.done(b.linear(y, 1024)), "tf32", allowed=())
    for last in ("contiguous", "relu"):
        b = Builder()
        y = b.op("contiguous", b.t(b.input("x", 4096, 1024)))
        assert "drop_copy" not in actions(b.done(b.op(last, y)), "tf32")


@pytest.mark.parametrize("pid", [i for i, p in PROBLEMS.items() if p["family"] == "gemm"])
def test_no_lever_promises_more_than_the_limit_allows(pid):
    graph = gemm_problem(pid)
    for lever in levers(graph, H200, "tf32", ("tf32", "f16")):
        cls = lever.title.split()[2] if lever.action == "lower_class" else "tf32"
        before = lever.saves_ms / (1 - 1 / lever.speedup)
        assert before - lever.saves_ms >= t_sol(graph, H200, cls) * (1 - 1e-9)


def test_the_same_lever_in_many_layers_is_one():
    def layers(n):
        b = Builder()
        y = b.input("x", 4096, 1024)
        for _ in range(n):
            y = b.op("gelu", b.linear(y, 1024))
        return actions(b.done(y), "tf32", allowed=())["fuse_tail"]

    one, four = layers(1), layers(4)
    assert four.title == "Fuse gelu into the epilogue of linear_0 and 3 like it" and four.op == "linear_0"
    assert four.saves_ms == pytest.approx(4 * one.saves_ms, rel=0.1)
    assert four.speedup == pytest.approx(one.speedup, rel=0.1)


def test_where_no_product_is_a_lower_class_saves_bytes_and_not_matrix_time():
    b = Builder()
    y = b.input("x", 8192, 8192)
    for name in ("neg", "exp", "relu", "neg", "exp", "relu"):
        y = b.op(name, y)
    lever = actions(b.done(y), "tf32")["lower_class"]
    assert "matrix" not in lever.why and "fewer bytes" in lever.why


def test_a_product_of_few_rows_gains_by_the_bytes_of_its_weight():
    for rows, words in ((96, "takes fewer bytes"), (4096, "the matrix peak is 2.0 times that of tf32")):
        b = Builder()
        lever = actions(b.done(b.linear(b.input("x", rows, 8192), 8192)), "tf32", allowed=("f16",))["lower_class"]
        assert words in lever.why


def test_a_convolution_that_is_in_channels_last_already_need_not_be_kept_there():
    def conv(strides):
        b = Builder()
        x, w = b.input("x", 8, 64, 56, 56), b.param("w", 64, 64, 3, 3)
        graph = b.done(b.op("conv2d", x, w, shape=(8, 64, 56, 56), padding=[1, 1]))
        return replace(graph, tensors={**graph.tensors, x: replace(graph.tensors[x], strides=strides)})

    assert "channels_last" in actions(conv(()), "tf32")
    assert "channels_last" not in actions(conv((64 * 56 * 56, 1, 64 * 56, 64)), "tf32")
