"""What an operation costs, against values derived by hand."""

import pytest
from suite59 import Builder

from sol.cost.ops import bytes_only, cost
from sol.graph import Op, Tensor


def only(build):
    """The cost of the last op of a small graph."""
    b = Builder()
    build(b)
    return cost(b.ops[-1], b.tensors)


def test_linear_is_two_flops_a_multiply_add_and_one_a_bias():
    c = only(lambda b: b.linear(b.input("x", 1024, 8192), 4096))
    assert c.matrix == 2 * 1024 * 8192 * 4096
    assert c.vector == 1024 * 4096
    assert c.bytes == 4 * (1024 * 8192 + 8192 * 4096 + 4096 + 1024 * 4096)


def test_batched_product_counts_every_batch():
    c = only(lambda b: b.matmul(b.input("a", 16, 128, 64), b.input("b", 16, 64, 32)))
    assert c.matrix == 2 * 16 * 128 * 64 * 32


def test_a_shared_second_operand_is_read_once():
    c = only(lambda b: b.matmul(b.input("a", 16, 128, 64), b.input("b", 64, 32)))
    assert c.matrix == 2 * 16 * 128 * 64 * 32
    assert c.bytes == 4 * (16 * 128 * 64 + 64 * 32 + 16 * 128 * 32)


def test_a_square_is_one_tensor_read_once():
    c = only(lambda b: b.op("mul", b.input("x", 100), "x"))
    assert c.bytes == 4 * 200


@pytest.mark.parametrize(
    ("equation", "a", "b", "flops"),
    [
        ("bijl,lk->bijk", (8, 4, 4, 16), (16, 32), 2 * 8 * 4 * 4 * 16 * 32),
        ("bik,bjk->bij", (3, 5, 7), (3, 11, 7), 2 * 3 * 5 * 7 * 11),
        ("i,j->ij", (5,), (7,), 35),
    ],
)
def test_einsum_spans_every_index_once(equation, a, b, flops):
    c = only(lambda g: g.op("einsum", g.input("a", *a), g.input("b", *b), shape=(1,), equation=equation))
    assert c.flops == flops


def test_convolution_counts_taps_times_outputs():
    def build(b):
        b.op("conv2d", b.input("x", 8, 64, 32, 32), b.param("w", 128, 64, 3, 3), shape=(8, 128, 30, 30))

    assert only(build).matrix == 2 * 8 * 128 * 30 * 30 * 64 * 9


def test_grouped_convolution_has_fewer_input_channels_a_filter():
    def build(b):
        b.op("conv2d", b.input("x", 2, 64, 16, 16), b.param("w", 64, 1, 3, 3), shape=(2, 64, 14, 14), groups=64)

    assert only(build).matrix == 2 * 2 * 64 * 14 * 14 * 9


@pytest.mark.parametrize(("op", "attrs"), [("conv_transpose2d", {}), ("convolution", {"transposed": True})])
def test_transposed_convolution_counts_taps_times_inputs(op, attrs):
    def build(b):
        b.op(op, b.input("x", 8, 64, 32, 32), b.param("w", 64, 48, 3, 3), shape=(8, 48, 34, 34), **attrs)

    assert only(build).matrix == 2 * 8 * 64 * 32 * 32 * 48 * 9


def test_attention_is_two_products_and_an_exp_a_score():
    def build(causal):
        def inner(b):
            for n in "qkv":
                b.input(n, 2, 4, 128, 64)
            b.op("scaled_dot_product_attention", "q", "k", "v", shape=(2, 4, 128, 64), is_causal=causal)

        return inner

    full, causal = only(build(False)), only(build(True))
    assert full.matrix == 2 * 2 * 4 * 128 * 128 * (64 + 64)
    assert full.special == 2 * 4 * 128 * 128
    assert causal.matrix / full.matrix == pytest.approx((128 + 1) / (2 * 128))


def test_an_embedding_reads_the_rows_it_takes():
    def build(b):
        table, ids = b.param("table", 50_000, 128), b.input("ids", 10, dtype="i64")
        b.op("embedding", table, ids, shape=(10, 128))

    c = only(build)
    assert c.bytes == 10 * 128 * 4 + 10 * 8 + 10 * 128 * 4


def test_special_functions_are_counted_beside_flops():
    exp, relu = only(lambda b: b.op("exp", b.input("x", 100))), only(lambda b: b.op("relu", b.input("x", 100)))
    assert (exp.special, relu.special) == (100, 0)
    exact = only(lambda b: b.op("gelu", b.input("x", 100)))
    fast = only(lambda b: b.op("gelu", b.input("x", 100), approximate="tanh"))
    assert exact.vector > fast.vector > relu.vector


def test_dividing_by_a_number_needs_no_reciprocal():
    assert only(lambda b: b.op("div", b.input("x", 100), other=2.0)).special == 0
    assert only(lambda b: b.op("div", b.input("x", 100), b.input("y", 100))).special == 100


def test_a_squared_tensor_is_a_multiplication():
    assert only(lambda b: b.op("pow", b.input("x", 100), exponent=2)).special == 0
    assert only(lambda b: b.op("pow", b.input("x", 100), exponent=2.5)).special == 200


def test_views_are_free_and_dropout_in_eval_is_one():
    assert only(lambda b: b.op("reshape", b.input("x", 4, 5), shape=(20,))).bytes == 0
    assert only(lambda b: b.op("dropout", b.input("x", 4, 5), p=0.5, train=False)).bytes == 0
    assert only(lambda b: b.op("dropout", b.input("x", 4, 5), p=0.5, train=True)).bytes == 160


def test_overloads_and_in_place_names_are_the_same_operation():
    plain = only(lambda b: b.op("add", b.input("x", 10), b.input("y", 10)))
    for name in ("add_", "add.Tensor", "aten.add_.Tensor", "aten::add"):
        assert only(lambda b, name=name: b.op(name, b.input("x", 10), b.input("y", 10))) == plain


def test_an_unknown_operation_is_priced_by_its_bytes_and_named():
    x, y = Tensor("x", (10,), "f32", "input"), Tensor("y", (10,), "f32", "intermediate")
    op = Op("fft_0", "fft_fft", ("x",), ("y",))
    c = cost(op, {"x": x, "y": y})
    assert (c.kind, c.bytes, c.flops) == ("bytes", 80, 0)
    assert bytes_only([op], {"x": x, "y": y}) == ("fft_fft",)


def test_a_tensor_without_elements_costs_nothing():
    assert only(lambda b: b.op("relu", b.input("x", 0, 5))).bytes == 0


def test_a_scaled_product_of_fp8_is_a_product():
    def build(b):
        b.op("_scaled_mm", b.input("a", 64, 32, dtype="e4m3"), b.input("b", 32, 16, dtype="e4m3"), shape=(64, 16))

    assert (only(build).matrix, only(build).kind) == (2 * 64 * 32 * 16, "matrix")
