"""The bound holds, falls with better hardware, and never exceeds the sum of its parts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suite59 import GEMM_IDS, PROBLEMS, Builder, gemm_problem

from sol.bounds import POLYNOMIAL_FLOPS, bounds, external_bytes, fused_bound, legal_classes, recast, roofs, t_sol
from sol.cost.graph_costs import costs_of
from sol.hardware import HardwareError, load

H200 = load("h200")
CLASSES = ("f32", "tf32", "f16", "bf16")


@pytest.mark.parametrize("pid", GEMM_IDS)
def test_flops_and_bytes_are_those_of_the_suite(pid):
    graph = gemm_problem(pid)
    assert fused_bound(graph, H200, "tf32").bytes / 1e6 == pytest.approx(PROBLEMS[pid]["compulsory_mb"], rel=2e-3)
    assert sum(c.flops for c in costs_of(graph).values()) / 1e9 == pytest.approx(PROBLEMS[pid]["gflop"], rel=0.01)


@pytest.mark.parametrize("pid", GEMM_IDS)
def test_no_recorded_time_is_below_the_bound(pid):
    graph, times = gemm_problem(pid), PROBLEMS[pid]["h200_ms"]
    assert times["strict_fp32"] > t_sol(graph, H200, "f32")
    assert min(times["tf32"], times["tf32_compiled"], times["tf32_paired"]) > t_sol(graph, H200, "tf32")
    assert times["fp16"] > t_sol(recast(graph, "f16"), H200, "f16")


def test_a_large_product_is_bound_by_the_matrix_units_and_a_vector_by_memory():
    assert bounds(gemm_problem("L1/1"), H200, "tf32").fused.bound_by == "matrix"
    assert bounds(gemm_problem("L1/4"), H200, "tf32").fused.bound_by == "memory"


def test_the_known_limit_of_one_problem():
    b = bounds(gemm_problem("L2/12"), H200, "tf32")
    assert b.ms == pytest.approx(2 * 1024 * 8192 * 8192 / 494.7e12 * 1e3)
    assert b.ceiling.ms == pytest.approx(2 * 1024 * 8192 * 8192 / 434e12 * 1e3)
    assert b.ridge == pytest.approx(494.7 / 4.8)


def test_many_special_functions_become_the_roof():
    assert roofs(0, 0, 1e12, 1e9, H200, "tf32").bound_by == "special"


def test_special_functions_are_divided_between_their_units_and_the_vector_pipes():
    alone, units = roofs(0, 0, 1e12, 0, H200, "tf32").ms, 1e12 / H200.sfu * 1e3
    on_pipes = (1 - alone / units) * 1e12 * POLYNOMIAL_FLOPS / H200.peak("f32") * 1e3
    assert alone == pytest.approx(on_pipes) and alone < 0.5 * units
    beside = roofs(0, 1e12, 1e12, 0, H200, "tf32")
    assert alone < beside.ms < alone + beside.vector_ms
    busy = roofs(0, 1e14, 1e12, 0, H200, "tf32")  # the pipes have no time for them
    assert (busy.bound_by, busy.special_ms) == ("vector", pytest.approx(units))


def test_products_and_the_rest_share_the_pipes_in_f32_only():
    both = roofs(1e12, 1e12, 0, 0, H200, "f32")
    assert both.ms == pytest.approx(2 * roofs(1e12, 0, 0, 0, H200, "f32").ms)
    assert roofs(1e12, 1e9, 0, 0, H200, "tf32").ms == roofs(1e12, 0, 0, 0, H200, "tf32").ms


def chain(rows, width, ops):
    b = Builder()
    y = b.linear(b.input("x", rows, width), width)
    for op in ops:
        y = b.op(op, y)
    return b.done(y)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 4096),
    width=st.integers(1, 4096),
    ops=st.lists(st.sampled_from(["relu", "gelu", "mish", "sigmoid", "softmax", "layer_norm"]), max_size=5),
    cls=st.sampled_from(CLASSES),
)
def test_fused_never_exceeds_unfused_and_more_work_never_costs_less(rows, width, ops, cls):
    b = bounds(chain(rows, width, ops), H200, cls)
    assert 0 < b.ms <= b.unfused_ms * (1 + 1e-12)
    assert b.ms <= b.ceiling.ms * (1 + 1e-12)
    assert b.ms <= t_sol(chain(rows, width, [*ops, "gelu"]), H200, cls)
    assert b.ms <= t_sol(chain(rows + 1, width, ops), H200, cls)
    assert b.ms <= t_sol(chain(rows, width, ops), H200.at_clock(1000), cls) * (1 + 1e-12)


@settings(max_examples=40)
@given(rows=st.integers(1, 4096), width=st.integers(1, 4096))
def test_a_lower_class_is_never_slower(rows, width):
    times = [t_sol(chain(rows, width, ["relu"]), H200, c) for c in ("f32", "tf32", "f16", "fp8")]
    assert times == sorted(times, reverse=True)


def test_a_tied_weight_is_read_once_and_an_unused_input_never():
    b = Builder()
    b.input("x", 64, 64)
    b.input("unused", 1000, 1000)
    w = b.param("w", 64, 64)
    y = b.op("linear", b.op("linear", "x", w, shape=(64, 64)), w, shape=(64, 64))
    assert sum(external_bytes(b.done(y)).values()) == 4 * 64 * 64 * 3


def test_a_slice_of_an_input_is_read_in_part():
    b = Builder()
    part = b.op("slice", b.input("x", 1000, 64), shape=(10, 64), dim=0, start=0, end=10)
    assert sum(external_bytes(b.done(b.op("relu", part))).values()) == 2 * 10 * 64 * 4


def test_the_same_slice_twice_is_read_once_and_another_one_too():
    b = Builder()
    x = b.input("x", 1000, 64)

    def part(start):
        return b.op("slice", x, shape=(10, 64), dim=0, start=start, end=start + 10)

    twice = b.op("add", b.op("relu", part(0)), b.op("tanh", part(0)))
    assert external_bytes(b.done(twice))["x"] == 10 * 64 * 4
    assert external_bytes(b.done(b.op("add", twice, part(10))))["x"] == 20 * 64 * 4


def test_an_expanded_input_is_read_at_its_own_size():
    b = Builder()
    wide = b.op("expand", b.input("x", 1, 64), shape=(1000, 64))
    assert external_bytes(b.done(b.op("relu", wide)))["x"] == 64 * 4


def test_a_view_of_an_input_moves_nothing():
    b = Builder()
    assert sum(external_bytes(b.done(b.op("reshape", b.input("x", 8, 8), shape=(64,)))).values()) == 0


def test_an_output_behind_a_view_is_written_once():
    b = Builder()
    y = b.op("relu", b.input("x", 8, 8))
    flat = b.op("reshape", y, shape=(64,))
    assert sum(external_bytes(b.done(flat, y)).values()) == 2 * 64 * 4


def test_work_that_no_output_needs_is_left_out():
    b = Builder()
    y = b.op("relu", b.input("x", 64, 64))
    graph = b.done(y)
    b.linear("x", 64)
    assert t_sol(b.done(y), H200, "f32") == t_sol(graph, H200, "f32")


def test_parameters_may_be_prepacked_and_inputs_may_not():
    b = Builder()
    y = b.op("linear", b.input("x", 16, 1024), b.param("w", 1024, 1024), shape=(16, 1024))
    graph = b.done(y)
    assert fused_bound(graph, H200, "f32").bytes - fused_bound(graph, H200, "f16").bytes == 2 * 1024 * 1024


def test_classes_follow_the_modules_own_type_and_the_chip():
    graph = chain(8, 8, [])
    assert legal_classes(graph, H200) == ("f32", "tf32", "f16", "bf16", "fp8")
    assert legal_classes(recast(graph, "f16"), H200) == ("f16", "fp8")
    assert legal_classes(graph, load("a100-80gb")) == ("f32", "tf32", "f16", "bf16")


def test_a_class_that_does_not_apply_is_refused_with_those_that_do():
    with pytest.raises(HardwareError, match=r"'tf32' does not apply.*f16, fp8"):
        bounds(recast(chain(8, 8, []), "f16"), H200, "tf32")


def test_the_native_class_is_that_of_what_the_products_read():
    from sol.bounds import native_class
    from sol.graph import Op, OpGraph, Tensor

    shapes = {"x": (64, 32), "w": (48, 32), "b": (48,), "y": (64, 48)}
    tensors = {
        n: Tensor(n, s, "f32" if n == "b" else "f16", "intermediate" if n == "y" else "input")
        for n, s in shapes.items()
    }
    mixed = OpGraph(tensors, (Op("y", "linear", ("x", "w", "b"), ("y",)),), ("x", "w", "b"), ("y",))
    assert native_class(mixed) == "f16"
    alone = OpGraph({"b": tensors["b"]}, (), ("b",), ("b",))
    assert native_class(alone) == "f32"
