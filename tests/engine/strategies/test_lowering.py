"""A module's op graph becomes one program: which, to the letter, for the shapes that modules come in."""

from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.ir import Gemm
from dsl.printer import to_text
from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import lower
from tests.engine.graphs import Builder, linear


def body(graph, cls="tf32"):
    """The program without its first and last lines, having passed the language's own checks."""
    text = to_text(lower(graph).program(cls))
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return text


def epilogue(graph, cls="tf32"):
    clauses = [line.strip().removeprefix("epilogue ") for line in body(graph, cls).splitlines() if "epilogue" in line]
    return clauses[-1] if clauses else "acc"


def refusal(graph):
    with pytest.raises(SessionRefused) as caught:
        lower(graph)
    return caught.value


def test_a_linear_layer_with_a_tail_is_one_stage():
    graph = linear([("mul", {"other": 2}), ("leaky_relu", {"negative_slope": 0.1})])
    assert body(graph) == (
        "program module(x: f32[256, 128], linear_weight: f32[192, 128], linear_bias: f32[192]) -> f32[256, 192] {\n"
        "  arch sm_90a\n"
        "  y = gemm(x, linear_weight.T) {\n"
        "    compute tf32\n"
        "    store f32\n"
        "    epilogue leaky_relu((acc + linear_bias[n]) * 2.0, 0.1)\n"
        "  }\n"
        "  return y\n"
        "}\n"
    )


def test_a_half_precision_class_casts_what_the_products_read_and_stores_what_the_module_returns():
    assert body(linear(bias=False), "f16") == (
        "program module(x: f32[256, 128], linear_weight: f32[192, 128]) -> f32[256, 192] {\n"
        "  arch sm_90a\n"
        "  x_f16 = transform(x) {\n"
        "    to f16\n"
        "  }\n"
        "  linear_weight_f16 = transform(linear_weight) {\n"
        "    to f16\n"
        "  }\n"
        "  y = gemm(x_f16, linear_weight_f16.T) {\n"
        "    compute f16\n"
        "    store f32\n"
        "  }\n"
        "  return y\n"
        "}\n"
    )


def test_a_half_precision_module_needs_no_cast_and_stands_in_its_own_class_alone():
    lowered = lower(linear([("silu", {})], dtype="f16"))
    assert lowered.classes(("tf32", "f16", "bf16")) == ["f16"]
    assert "transform" not in to_text(lowered.program("f16"))
    assert lower(linear(dtype="bf16")).classes(("tf32",)) == ["bf16"]


@pytest.mark.parametrize(
    "tail, expected",
    [
        ([("relu", {})], "relu(acc)"),
        ([("gelu", {"approximate": "none"})], "gelu(acc)"),
        ([("gelu", {"approximate": "tanh"})], "gelu_tanh(acc)"),
        ([("silu", {})], "silu(acc)"),
        ([("sigmoid", {})], "sigmoid(acc)"),
        ([("tanh", {})], "tanh(acc)"),
        ([("hardtanh", {"min_val": -2, "max_val": 2})], "clamp(acc, -2.0, 2.0)"),
        ([("clamp", {"min": 0.5, "max": None})], "clamp(acc, 0.5, 3.4028234663852886e+38)"),
        ([("relu6", {})], "clamp(acc, 0.0, 6.0)"),
        ([("add", {"other": 1.0, "alpha": 3})], "acc + 3.0"),
        ([("sub", {"other": 2.0, "alpha": 1})], "acc - 2.0"),
        ([("rsub", {"other": 1.0, "alpha": 1})], "1.0 - acc"),
        ([("div", {"other": 4.0})], "acc * 0.25"),
        ([("neg", {})], "acc * -1.0"),
        ([("pow", {"exponent": 2})], "acc * acc"),
        ([("mul", {"other": 2}), ("mul", {"other": 3})], "acc * 6.0"),
        ([("add", {"other": 2}), ("sub", {"other": 2})], "acc"),
        ([("hardswish", {})], "hardswish(acc)"),
        ([("mish", {})], "mish(acc)"),
    ],
)
def test_pointwise_operations_become_the_epilogue_with_literals_folded(tail, expected):
    assert epilogue(linear(tail, bias=False)) == expected


@pytest.mark.parametrize(
    "scale, op, expected",
    [(0.5, "add", "acc * 1.5"), (2.0, "sub", "acc"), (1.0, "sub", "acc * 0.0"), (None, "add", "acc * 2.0")],
)
def test_a_result_and_a_multiple_of_itself_are_one_multiple(scale, op, expected):
    g = Builder()
    y = g.op("matmul", [g.input("a", (64, 32)), g.input("b", (32, 48))], (64, 48))
    scaled = g.op("mul", [y], (64, 48), other=scale) if scale else y
    assert epilogue(g.graph(g.op(op, [scaled, y], (64, 48), alpha=1))) == expected


def test_swish_written_out_is_silu():
    g = Builder()
    y = g.op("matmul", [g.input("a", (64, 32)), g.input("b", (32, 48))], (64, 48))
    out = g.op("mul", [y, g.op("sigmoid", [y], (64, 48))], (64, 48))
    assert epilogue(g.graph(out)) == "silu(acc)"


def test_operands_are_read_at_the_axes_that_they_span():
    g = Builder()
    y = g.op("mm", [g.input("a", (64, 32)), g.input("b", (32, 48))], (64, 48))
    y = g.op("mul", [y, g.parameter("row", (48,))], (64, 48))
    y = g.op("add", [y, g.input("column", (64, 1))], (64, 48), alpha=2)
    y = g.op("sub", [y, g.input("full", (64, 48))], (64, 48), alpha=1)
    y = g.op("mul", [y, g.parameter("scale", (1,))], (64, 48))
    assert epilogue(g.graph(y)) == "(acc * row[n] + column[m] * 2.0 - full[m, n]) * scale"


def test_the_leading_axes_of_an_input_are_merged_into_rows():
    g = Builder()
    x, w = g.input("x", (4, 16, 32)), g.parameter("weight", (48, 32))
    y = g.op("linear", [x, w], (4, 16, 48))
    y = g.op("add", [y, g.input("residual", (4, 16, 48))], (4, 16, 48), alpha=1)
    lowered = lower(g.graph(y))
    assert [p.type.shape for p in lowered.params] == [(64, 32), (64, 48), (48, 32)]
    assert lowered.outputs[0].shape == (64, 48)
    assert epilogue(g.graph(y)) == "acc + residual[m, n]"


@pytest.mark.parametrize(
    "swap_a, swap_b, product", [(True, False, "a.T, b"), (False, True, "a, b.T"), (True, True, "a.T, b.T")]
)
def test_a_transposed_side_is_read_where_it_lies(swap_a, swap_b, product):
    g = Builder()
    a = g.input("a", (32, 64) if swap_a else (64, 32))
    b = g.input("b", (48, 32) if swap_b else (32, 48))
    if swap_a:
        a = g.op("numpy_T", [a], (64, 32))
    if swap_b:
        b = g.op("transpose", [b], (32, 48), dim0=0, dim1=1)
    assert f"gemm({product})" in body(g.graph(g.op("matmul", [a, b], (64, 48))))


def test_batched_products_keep_their_batch_and_a_shared_side_merges_it():
    g = Builder()
    y = g.op("bmm", [g.input("a", (4, 64, 32)), g.input("b", (4, 32, 48))], (4, 64, 48))
    assert "-> f32[4, 64, 48]" in body(g.graph(y))
    g = Builder()
    y = g.op("matmul", [g.input("a", (4, 64, 32)), g.input("b", (32, 48))], (4, 64, 48))
    assert "-> f32[256, 48]" in body(g.graph(y))


def test_baddbmm_and_addmm_scale_product_and_addend():
    g = Builder()
    inputs = [g.input("c", (64, 48)), g.input("a", (64, 32)), g.input("b", (32, 48))]
    assert epilogue(g.graph(g.op("addmm", inputs, (64, 48), alpha=2, beta=0.5))) == "acc * 2.0 + c[m, n] * 0.5"
    g = Builder()
    inputs = [g.input("c", (4, 64, 48)), g.input("a", (4, 64, 32)), g.input("b", (4, 32, 48))]
    assert epilogue(g.graph(g.op("baddbmm", inputs, (4, 64, 48), alpha=1, beta=1))) == "acc + c[l, m, n]"


@pytest.mark.parametrize("equation, b", [("bijl,lk->bijk", (32, 48)), ("bijl,kl->bijk", (48, 32))])
def test_an_einsum_that_is_a_product_is_one(equation, b):
    g = Builder()
    y = g.op("einsum", [g.input("a", (2, 4, 8, 32)), g.input("b", b)], (2, 4, 8, 48), equation=equation)
    (stage,) = lower(g.graph(y)).stages
    assert (*stage.shape, stage.k) == (64, 48, 32)


def mlp():
    g = Builder()
    x = g.input("x", (64, 32))
    h = g.op("linear", [x, g.parameter("up.weight", (128, 32)), g.parameter("up.bias", (128,))], (64, 128))
    h = g.op("gelu", [h], (64, 128), approximate="none")
    y = g.op("linear", [h, g.parameter("down.weight", (32, 128)), g.parameter("down.bias", (32,))], (64, 32))
    return g.graph(g.op("add", [x, y], (64, 32), alpha=1))


def test_a_chain_of_products_is_a_pipeline_whose_hidden_tensor_has_the_operands_type():
    text = body(mlp(), "f16")
    program = check(text).program
    first, last = (s for s in program.stages if isinstance(s, Gemm))
    assert (first.store.value, last.store.value) == ("f16", "f32")
    assert last.a.name == first.name
    assert epilogue(mlp(), "f16") == "x[m, n] + (acc + down_bias[n])"


def test_a_product_that_nothing_returns_is_left_out():
    g = Builder()
    a, b = g.input("a", (64, 32)), g.input("b", (32, 48))
    g.op("mm", [a, b], (64, 48))
    y = g.op("mm", [a, b], (64, 48))
    assert len(lower(g.graph(y)).stages) == 1


def test_batch_norm_in_inference_is_arithmetic_along_the_columns():
    g = Builder()
    y = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32))], (64, 48))
    reads = [y, g.parameter("g", (48,)), g.parameter("b", (48,)), g.buffer("mean", (48,)), g.buffer("var", (48,))]
    y = g.op("batch_norm", reads, (64, 48), training=False, momentum=0.1, eps=1e-5)
    assert epilogue(g.graph(y)) == "(acc - mean[n]) / sqrt(var[n] + 1e-05) * g[n] + b[n]"


# ---- what cannot be said is refused by name ----


def test_an_uncovered_operation_is_named_with_its_line_and_what_is_covered():
    g = Builder()
    e = refusal(g.graph(g.op("logcumsumexp", [g.input("x", (8, 8))], (8, 8), dim=0)))
    assert (e.code, e.line) == ("not_covered", 1)
    assert (e.reason, e.why) == ("`aten.logcumsumexp` (line 1) is not covered yet", "is not covered yet")
    names = dict(e.covered)
    assert "linear" in names["products"] and "gelu" in names["functions of each element"]
    assert e.words.startswith("`aten.logcumsumexp` (line 1) is not covered yet; covered are: products (")


def test_what_is_covered_is_listed_by_kind_and_without_other_spellings():
    g = Builder()
    reason = refusal(g.graph(g.op("logcumsumexp", [g.input("x", (8, 8))], (8, 8)))).words
    assert "products (" in reason and "arithmetic (" in reason
    assert not [word for word in reason.replace(",", " ").split() if word.endswith("_")]
    assert len(reason.split()) < 145


def test_an_operation_inside_a_module_of_torch_is_named_by_that_module():
    g = Builder()
    graph = g.graph(g.op("empty", [], (8, 8)))
    e = refusal(replace(graph, ops=tuple(replace(op, module="LSTM") for op in graph.ops)))
    assert e.reason.startswith("`nn.LSTM` (line 1) is not covered yet")


def test_of_a_module_of_many_parts_the_part_is_named_too():
    g = Builder()
    graph = g.graph(g.op("logcumsumexp", [g.input("x", (8, 8))], (8, 8)))
    e = refusal(replace(graph, ops=tuple(replace(op, module="MultiheadAttention") for op in graph.ops)))
    assert e.reason.startswith("`nn.MultiheadAttention` (line 1, its aten.logcumsumexp) is not covered yet")


def test_a_rounding_division_is_refused_with_its_argument():
    assert "rounding_mode='floor'" in refusal(linear([("div", {"other": 2, "rounding_mode": "floor"})])).reason


def test_a_module_that_computes_no_product_is_refused():
    g = Builder()
    x = g.input("x", (64, 32))
    assert "nothing to optimise" in refusal(g.graph(g.op("view", [x], (32, 64), size=[32, 64]))).reason


def test_the_same_graph_gives_the_same_bytes():
    assert body(mlp(), "f16") == body(mlp(), "f16")
