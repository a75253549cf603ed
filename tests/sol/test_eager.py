"""PyTorch eager as predicted, held against what one H200 really took (tests/sol/data/suite59.json)."""

from statistics import median

import pytest
from suite59 import GEMM_IDS, PROBLEMS, Builder, gemm_problem

from sol.attainable import predict_eager
from sol.bounds import t_sol
from sol.hardware import load

H200 = load("h200")
RECORDED = {"f32": "strict_fp32", "tf32": "tf32", "f16": "fp16"}


def errors(cls):
    for pid in GEMM_IDS:
        # the recorded half runs had inputs that were cast before
        ms = predict_eager(gemm_problem(pid), H200, cls, cast_inputs=False).ms
        yield pid, ms / PROBLEMS[pid]["h200_ms"][RECORDED[cls]] - 1


@pytest.mark.parametrize("cls", RECORDED)
def test_the_median_error_on_the_gemm_family_is_under_a_tenth(cls):
    differences = dict(errors(cls))
    assert median(map(abs, differences.values())) < 0.10, differences
    assert max(map(abs, differences.values())) < 0.35, differences


@pytest.mark.parametrize("cls", ["f32", "tf32", "f16", "bf16"])
@pytest.mark.parametrize("pid", GEMM_IDS)
def test_eager_is_never_predicted_below_the_limit_of_its_class(pid, cls):
    graph = gemm_problem(pid)
    assert predict_eager(graph, H200, cls).ms > t_sol(graph, H200, cls)


def test_each_pointwise_op_is_a_round_trip_through_memory():
    b = Builder()
    y = b.op("relu", b.op("mul", b.input("x", 16384, 4096), other=2.0))
    a = predict_eager(b.done(y), H200, "f32")
    assert [s.kind for s in a.stages] == ["pointwise", "pointwise"]
    one_way = 16384 * 4096 * 4
    assert a.ms == pytest.approx(2 * 2 * one_way / (0.9 * 4.3e12) * 1e3, rel=0.05)


def test_a_small_tensor_stays_in_l2_and_costs_its_launch():
    b = Builder()
    y = b.op("relu", b.input("x", 64, 64))
    a = predict_eager(b.done(y), H200, "f32")
    assert 0.003 < a.ms < 0.006


def test_views_launch_nothing():
    b = Builder()
    y = b.op("reshape", b.input("x", 64, 64), shape=(4096,))
    a = predict_eager(b.done(y), H200, "f32")
    assert a.stages == () and "only takes views" in a.notes[0]


def test_half_of_a_float32_module_pays_for_its_casts():
    graph = gemm_problem("L2/12")
    paid, free = predict_eager(graph, H200, "f16"), predict_eager(graph, H200, "f16", cast_inputs=False)
    assert [s.kind for s in paid.stages].count("cast") == 2
    assert paid.ms > free.ms


def test_rows_that_are_not_aligned_fall_off_a_cliff_and_the_note_says_so():
    a = predict_eager(gemm_problem("L1/8"), H200, "tf32")
    assert a.ms > 3 * t_sol(gemm_problem("L1/8"), H200, "tf32")
    assert "16-byte" in a.notes[0] and a.stages[0].slowed == "unaligned"


def test_a_convolution_pays_for_layout_changes_on_the_tensor_cores_only():
    b = Builder()
    y = b.op("conv2d", b.input("x", 16, 64, 128, 128), b.param("w", 128, 64, 3, 3), shape=(16, 128, 126, 126))
    graph = b.done(y)
    assert predict_eager(graph, H200, "tf32").stages[0].parts["layout"] > 0
    assert predict_eager(graph, H200, "f32").stages[0].parts["layout"] == 0
