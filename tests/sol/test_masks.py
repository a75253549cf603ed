"""A constant mask halves what attention must do; the values of the mask decide, not its name."""

from dataclasses import replace

import pytest
from suite59 import Builder

from sol.bounds import external_bytes, fused_bound
from sol.cost.graph_costs import costs_of
from sol.hardware import load

H200 = load("h200")
SHARE = 0.502


def attention(masking="masked_fill", share=SHARE, function="softmax", between=(), shape=(2, 3, 64, 32)):
    """Query times key, a mask from a buffer, a softmax, and a product with the values."""
    b = Builder()
    scores, keys = (*shape[:3], shape[2]), (*shape[:2], shape[3], shape[2])
    q, k, v = b.input("q", *shape), b.input("k", *keys), b.input("v", *shape)
    mask = b.op("eq", b.input("mask", shape[2], shape[2]), other=0.0)
    b.tensors["mask"] = replace(b.tensors["mask"], kind="buffer")
    b.inputs.remove("mask")
    y = b.op("matmul", q, k, shape=scores)
    y = b.op(masking, *((mask, y) if masking == "where" else (y, mask)), shape=scores)
    b.ops[-1] = replace(b.ops[-1], unmasked=share)
    for op in between:
        y = b.op(op, y)
    y = b.op(function, y, **({"dim": -1} if function == "softmax" else {}))
    return b.done(b.op("matmul", y, v, shape=shape))


@pytest.mark.parametrize("masking", ["masked_fill", "where", "add"])
@pytest.mark.parametrize("between", [(), ("to",), ("clone", "contiguous")], ids=["alone", "cast", "copies"])
def test_both_products_and_the_exponentials_need_the_masks_share(masking, between):
    masked, full = attention(masking, between=between), attention(masking, 1.0, between=between)
    products = [o.name for o in masked.ops if o.op == "matmul"]
    for name in products:
        assert costs_of(masked)[name].must == pytest.approx(SHARE * costs_of(full)[name].must)
    exps = 2 * 3 * 64 * 64
    assert fused_bound(full, H200, "f32").special_ms > fused_bound(masked, H200, "f32").special_ms
    assert sum(costs_of(masked)[o.name].special for o in masked.ops) == exps  # what PyTorch computes


def test_the_mask_itself_need_not_be_read():
    assert "mask" in external_bytes(attention(share=1.0)) and "mask" not in external_bytes(attention())


@pytest.mark.parametrize("function", ["relu", "exp", "sigmoid"])
def test_minus_infinity_vanishes_in_other_functions_too(function):
    graph = attention(function=function)
    assert [costs_of(graph)[o.name].must / costs_of(graph)[o.name].matrix for o in graph.ops if o.op == "matmul"] == [
        pytest.approx(SHARE)
    ] * 2


def test_a_function_that_keeps_masked_elements_needs_the_whole_second_product():
    graph = attention(function="neg")
    first, second = (costs_of(graph)[o.name] for o in graph.ops if o.op == "matmul")
    assert first.must < first.matrix and second.must == second.matrix


def test_a_mask_that_the_module_returns_is_read():
    graph = attention()
    shown = replace(graph, outputs=(*graph.outputs, "eq_0"), tensors=dict(graph.tensors))
    assert "mask" in external_bytes(shown)


def test_scaled_dot_product_attention_counts_the_scores_of_its_mask():
    b = Builder()
    q = b.input("q", 2, 3, 64, 32)
    y = b.op("scaled_dot_product_attention", q, b.input("k", 2, 3, 64, 32), b.input("v", 2, 3, 64, 32),
             b.input("m", 64, 64), shape=(2, 3, 64, 32))  # fmt: skip
    full = costs_of(b.done(y))[y].must
    b.ops[-1] = replace(b.ops[-1], unmasked=0.25)
    assert costs_of(b.done(y))[y].must == pytest.approx(0.25 * full)
