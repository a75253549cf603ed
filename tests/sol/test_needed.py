"""What must be done where PyTorch does more: counted again by brute force, or by hand."""

import json

import pytest
from suite59 import Builder

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.bounds import external_bytes, fused_bound  # noqa: E402
from sol.cost.graph_costs import costs_of  # noqa: E402
from sol.cost.needed import triangle_elements  # noqa: E402
from sol.graph import Op, OpGraph, Tensor  # noqa: E402
from sol.hardware import load  # noqa: E402

H200 = load("h200")
F = nn.functional


def traced(module, *inputs):
    return OpGraph.from_json(json.dumps(Capture(export(module.eval(), inputs)).graph()))


WINDOWS = {
    "padded": (nn.Conv2d(3, 8, 3, padding=1, bias=False), (2, 3, 9, 7)),
    "strided, padded": (nn.Conv2d(3, 8, (5, 4), stride=(3, 2), padding=(2, 1), bias=False), (2, 3, 17, 11)),
    "dilated": (nn.Conv1d(4, 4, 3, stride=3, dilation=4, padding=5, bias=False), (2, 4, 31)),
    "same": (nn.Conv1d(4, 4, 4, padding="same", bias=False), (2, 4, 10)),
    "strided 1x1": (nn.Conv2d(8, 4, 1, stride=2, bias=False), (2, 8, 9, 9)),
    "grouped, 3-D": (nn.Conv3d(4, 6, 3, padding=2, groups=2, bias=False), (1, 4, 5, 6, 7)),
    "wider than its input": (nn.Conv1d(2, 2, 9, padding=4, bias=False), (1, 2, 3)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, bias=False), (2, 4, 5, 6)),
    "transposed, grouped": (nn.ConvTranspose1d(4, 6, 5, stride=3, padding=4, groups=2, bias=False), (2, 4, 8)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_convolution_must_multiply_where_a_tap_meets_an_element_and_read_what_is_met(name):
    module, shape = WINDOWS[name]
    graph = traced(module, torch.rand(shape))
    nn.init.ones_(module.weight)
    x = torch.ones(shape, requires_grad=True)
    total = module(x).sum()  # of ones by ones: the number of multiply-adds that do not meet padding
    total.backward()
    (cost,) = costs_of(graph).values()
    assert cost.must == 2 * total.item() <= cost.matrix
    assert external_bytes(graph)[graph.inputs[0]] == 4 * (x.grad != 0).sum().item()
    assert fused_bound(graph, H200, "tf32").flops == cost.must


@pytest.mark.parametrize(
    "pool", [nn.AvgPool2d(2, stride=3), nn.AvgPool2d(3, stride=2, padding=1), nn.MaxPool2d(2, stride=5, dilation=2)]
)
def test_a_pool_reads_what_lies_in_its_windows(pool):
    x = torch.ones(1, 2, 13, 11, requires_grad=True)
    graph = traced(pool, torch.rand(1, 2, 13, 11))
    spread = nn.AvgPool2d(1) if isinstance(pool, nn.MaxPool2d) else pool
    if spread is pool:
        pool(x).sum().backward()
        read = (x.grad != 0).sum().item()
    else:  # windows of 2 with one left out between, every 5: rows 0 2 5 7 10 12, columns 0 2 5 7
        read = 2 * 6 * 4
    assert external_bytes(graph)[graph.inputs[0]] == 4 * read


def test_half_of_a_product_is_enough_for_its_triangle():
    b = Builder()
    y = b.op("relu", b.op("mul", b.matmul(b.input("a", 64, 32), b.input("b", 32, 64)), other=2.0))
    graph = b.done(b.op("tril", y, diagonal=-1))
    product = next(iter(costs_of(graph).values()))
    assert (product.matrix, product.must) == (2 * 64 * 64 * 32, 2 * (64 * 63 // 2) * 32)
    both = b.done(graph.outputs[0], y)
    assert next(iter(costs_of(both).values())).must == product.matrix


def test_a_slice_of_a_product_is_all_that_is_computed():
    b = Builder()
    y = b.linear(b.input("x", 64, 32), 48)
    first = b.op("slice", y, shape=(64, 16), dim=1, start=0, end=16)
    again = b.op("slice", y, shape=(64, 16), dim=1, start=0, end=16)
    assert costs_of(b.done(first, again))[b.ops[0].name].must == 2 * 64 * 16 * 32
    other = b.op("slice", y, shape=(64, 32), dim=1, start=16, end=48)
    assert costs_of(b.done(first, other))[b.ops[0].name].must == 2 * 64 * 48 * 32


def test_known_zeros_need_no_products():
    b = Builder()
    y = b.matmul(b.op("diag", b.input("d", 64), shape=(64, 64)), b.input("b", 64, 16))
    assert costs_of(b.done(y))[b.ops[-1].name].must == 2 * 64 * 16
    b = Builder()
    lower = b.op("triu", b.input("a", 64, 64), diagonal=0)
    graph = b.done(b.matmul(lower, b.input("b", 64, 16)))
    assert costs_of(graph)[b.ops[-1].name].must == 2 * (64 * 65 // 2) * 16
    assert external_bytes(graph)["a"] == 4 * 64 * 65 // 2
    twice = b.done(b.matmul(lower, lower))  # a sixth would do; nobody may claim that it is more
    assert costs_of(twice)[b.ops[-1].name].must <= 2 * 64**3 / 6


def test_an_einsum_of_three_factors_has_a_cheap_order():
    b = Builder()
    factors = [b.input(n, *s) for n, s in (("a", (4, 8)), ("b", (8, 16)), ("c", (16, 2)))]
    graph = b.done(b.op("einsum", *factors, shape=(4, 2), equation="ij,jk,kl->il"))
    (cost,) = costs_of(graph).values()
    assert (cost.matrix, cost.must) == (2 * (4 * 8 * 16 + 4 * 16 * 2), 2 * (8 * 16 * 2 + 4 * 8 * 2))


def test_an_index_of_one_factor_alone_is_summed_before():
    b = Builder()
    graph = b.done(b.op("einsum", b.input("a", 4, 8), b.input("b", 8, 16), shape=(4,), equation="ij,jk->i"))
    (cost,) = costs_of(graph).values()
    assert (cost.matrix, cost.vector) == (2 * 4 * 8, 8 * 16)


@pytest.mark.parametrize(("rows", "keys"), [(128, 128), (32, 128), (128, 32), (1, 128)])
def test_causal_attention_sees_the_keys_up_to_its_row(rows, keys):
    b = Builder()
    q, k, v = b.input("q", 2, 4, rows, 16), b.input("k", 2, 4, keys, 16), b.input("v", 2, 4, keys, 16)
    graph = b.done(b.op("scaled_dot_product_attention", q, k, v, shape=(2, 4, rows, 16), is_causal=True))
    scores = 2 * 4 * torch.ones(rows, keys).tril().sum().item()
    (cost,) = costs_of(graph).values()
    assert (cost.matrix, cost.special) == (2 * scores * 32, scores)
    assert external_bytes(graph)["k"] == 4 * 2 * 4 * min(rows, keys) * 16


def test_an_ellipsis_stands_for_the_axes_that_are_left():
    b = Builder()
    b.op("einsum", b.input("a", 3, 1, 4, 8), b.input("b", 2, 8, 5), shape=(3, 2, 4, 5), equation="...ij,...jk->...ik")
    (cost,) = costs_of(b.done(b.ops[-1].outputs[0])).values()
    assert (cost.matrix, cost.must) == (2 * 3 * 2 * 4 * 8 * 5, 2 * 3 * 2 * 4 * 8 * 5)


@pytest.mark.parametrize("name", ["linalg_multi_dot", "chain_matmul"])
def test_a_chain_is_multiplied_in_its_cheapest_order(name):
    b = Builder()
    graph = b.done(b.op(name, b.input("a", 4, 8), b.input("b", 8, 16), b.input("c", 16, 2), shape=(4, 2)))
    assert next(iter(costs_of(graph).values())).matrix == 2 * (8 * 16 * 2 + 4 * 8 * 2)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (1, 4), (2, 4, 6)])
def test_a_triangle_keeps_what_torch_keeps(shape):
    for name in ("tril", "triu"):
        for diagonal in range(-9, 10):
            op = Op(name, name, ("x",), ("y",), {"diagonal": diagonal})
            left = getattr(torch, name)(torch.ones(shape), diagonal).sum().item()
            assert triangle_elements(op, Tensor("x", shape, "f32", "input")) == left
