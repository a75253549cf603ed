"""Class fp8: which modules have a program in it, how operands are scaled, and that it means what the module means."""

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.compile import compile as generate  # noqa: E402
from dsl.ir import DType, Gemm, Normalize  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.classes import class_of  # noqa: E402
from engine.devices import Problem, SessionRefused  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.strategies.planner.lowering.choice import Choice  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.strategies.planner.lowering.pipeline import program  # noqa: E402
from engine.strategies.planner.search.structures import structures  # noqa: E402
from sol.hardware import load  # noqa: E402
from tests.engine.graphs import Builder, linear  # noqa: E402
from tests.engine.planning import planned  # noqa: E402

H200 = load("h200")


def body(graph, choice=None):
    """The program in class fp8, having passed the language's own checks."""
    text = to_text(program(lower(graph), "fp8", choice or Choice()))
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    assert class_of(checked.program) == "fp8"
    return checked.program


def values(graph, seed=0, by=1.0):
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(graph.tensors[n].shape, generator=generator) * by for n in graph.tensors}


def error(graph, right, tensors, choice=None):
    lowered, p = lower(graph), body(graph, choice)
    out = oracle.run(p, [tensors[b.tensor].reshape(b.shape) for b in lowered.inputs])[0]
    right = right.double().reshape(out.shape)
    return float((out.double() - right).norm() / right.norm())


def planner(graph, *classes):
    return planned(Problem("a module", "module", graph), classes, H200, "predicted")


def test_operands_are_scaled_by_rows_and_the_epilogue_gives_it_back():
    graph = linear([("relu", {})], bias=True)
    assert to_text(body(graph)) == (
        "program module(x: f32[256, 128], linear_weight: f32[192, 128], linear_bias: f32[192]) -> f32[256, 192] {\n"
        "  arch sm_90a\n"
        "  x_e4m3 = normalize(x) {\n"
        "    op absmax\n"
        "    over n\n"
        "    also x_scale = row_max(acc2 / 448.0)\n"
        "    store e4m3\n"
        "    epilogue acc * 448.0\n"
        "  }\n"
        "  linear_weight_e4m3 = normalize(linear_weight) {\n"
        "    op absmax\n"
        "    over n\n"
        "    also linear_weight_scale = row_max(acc2 / 448.0)\n"
        "    store e4m3\n"
        "    epilogue acc * 448.0\n"
        "  }\n"
        "  y = gemm(x_e4m3, linear_weight_e4m3.T) {\n"
        "    compute e4m3\n"
        "    store f32\n"
        "    epilogue relu(acc * x_scale[m] * linear_weight_scale[n] + linear_bias[n])\n"
        "  }\n"
        "  return y\n"
        "}\n"
    )


@pytest.mark.parametrize("by", [1e-12, 1.0, 1e12])
def test_a_linear_means_what_it_meant_whatever_the_range_of_its_rows(by):
    graph = linear(bias=False, rows=40, k=256, n=48)
    tensors = values(graph)
    tensors["x"] = tensors["x"] * torch.logspace(-6, 6, 40)[:, None] * by
    tensors["x"][3] = 0.0
    right = tensors["x"].double() @ tensors["linear_weight"].double().T
    lowered = lower(graph)
    out = oracle.run(body(graph), [tensors[b.tensor] for b in lowered.inputs])[0].double()
    rows = (out - right).norm(dim=1) / right.norm(dim=1).clamp(min=1e-300)
    assert out[3].abs().max() == 0 and rows.max() < 0.06  # each row for itself: 0.026 of each operand


@pytest.mark.parametrize("swap_a", [False, True])
@pytest.mark.parametrize("swap_b", [False, True])
def test_whatever_lies_the_other_way_is_copied_to_lie_along_k_and_odd_sizes_are_padded(swap_a, swap_b):
    g = Builder()
    m, n, k = 37, 50, 75
    a, b = g.input("a", (k, m) if swap_a else (m, k)), g.input("b", (n, k) if swap_b else (k, n))
    left = g.op("transpose", [a], (m, k), dim0=0, dim1=1) if swap_a else a
    right = g.op("transpose", [b], (k, n), dim0=0, dim1=1) if swap_b else b
    graph = g.graph(g.op("matmul", [left, right], (m, n)))
    tensors = values(graph)
    want = (tensors["a"].T if swap_a else tensors["a"]) @ (tensors["b"].T if swap_b else tensors["b"])
    assert error(graph, want, tensors) < 0.06
    for s in body(graph).stages:
        if isinstance(s, Gemm):
            assert not s.a.transposed and s.b.transposed


@pytest.mark.parametrize("shared", [False, True])
def test_of_batches_every_row_has_its_scale(shared):
    g = Builder()
    x, w = g.input("x", (3, 24, 64)), g.parameter("w", (64, 32) if shared else (3, 64, 32))
    graph = g.graph(g.op("matmul", [x, w], (3, 24, 32)))
    tensors = values(graph)
    tensors["x"] *= torch.tensor([1e-4, 1.0, 1e4])[:, None, None]
    assert error(graph, tensors["x"] @ tensors["w"], tensors) < 0.06


def chain(**kinds):
    g = Builder()
    x, up, down = g.input("x", (64, 96)), g.parameter("up", (128, 96)), g.parameter("down", (80, 128))
    h = g.op("relu", [g.op("linear", [x, up], (64, 128))], (64, 128))
    return g.graph(g.op("linear", [h, down], (64, 80)))


def test_what_lies_between_two_products_has_f32s_range_and_is_scaled_like_any_operand():
    graph = chain()
    p = body(graph)
    types = {s.name: s.type.dtype for s in p.stages}
    assert types["h1"] is DType.BF16 and types["h1_e4m3"] is DType.E4M3
    tensors = values(graph, by=1e5)  # squares of what f16 holds
    right = torch.relu(tensors["x"].double() @ tensors["up"].double().T) @ tensors["down"].double().T
    assert error(graph, right, tensors) < 0.08


def test_a_tensor_that_two_products_read_is_scaled_once():
    g = Builder()
    x, q, k = g.input("x", (64, 96)), g.parameter("q", (128, 96)), g.parameter("k", (128, 96))
    graph = g.graph(g.op("linear", [x, q], (64, 128)), g.op("linear", [x, k], (64, 128)))
    assert sum(isinstance(s, Normalize) for s in body(graph).stages) == 3


def test_a_product_whose_rows_are_reduced_in_the_epilogue_has_both_structures():
    g = Builder()
    x, w = g.input("x", (256, 128)), g.parameter("w", (192, 128))
    y = g.op("linear", [x, w], (256, 192))
    graph = g.graph(g.op("sum", [y], (256,), dim=[1]))
    reasons = []
    words = {s.words for s in structures(lower(graph), "fp8", H200, reasons)}
    assert {"each operation as it comes", "reduced in the epilogue"} <= words and not reasons
    tensors = values(graph)
    assert error(graph, (tensors["x"] @ tensors["w"].T).sum(1), tensors, Choice(fuse=True)) < 0.06


def test_its_first_program_is_written_by_the_fast_back_end():
    compiled = generate(body(linear()), H200.sms)
    assert "cute" in compiled.sources and "absmax" in compiled.refused["cpp"].message


def test_the_planner_offers_it_where_it_is_asked_for():
    search = planner(linear(), "tf32", "fp8")
    assert search.problem.classes == ["tf32", "fp8"] and search.lines["fp8"].backend == "cute"
    assert planner(linear(), "tf32", "f16").problem.classes == ["tf32", "f16"]


def test_a_half_precision_module_stands_in_its_own_class_too():
    assert planner(linear(dtype="f16"), "f16", "fp8").problem.classes == ["f16", "fp8"]
    assert planner(linear(dtype="bf16"), "fp8").problem.classes == ["fp8"]


def depthwise():
    g = Builder()
    x, w = g.input("x", (4, 32, 20, 20)), g.parameter("w", (32, 1, 3, 3))
    more = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 32}
    return g.graph(g.op("conv2d", [x, w], (4, 32, 20, 20), **more))


def test_a_module_without_a_matrix_product_is_left_out_with_the_reason():
    assert planner(depthwise(), "tf32", "fp8").problem.notes[0].text == (
        "fp8 is left out: fp8 is for matrix products, and there is none"
    )
    with pytest.raises(SessionRefused, match="fp8 is for matrix products, and there is none"):
        planner(depthwise(), "fp8")


def test_rows_that_no_kernel_holds_are_left_out_with_the_reason():
    search = planner(linear(k=65536, rows=128), "tf32", "fp8")
    assert search.problem.classes == ["tf32"] and "at most 32,768 elements" in search.problem.notes[0].text
