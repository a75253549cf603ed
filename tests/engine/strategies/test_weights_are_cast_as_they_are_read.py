"""In a class of half precision a product with few rows casts its f32 weight itself, where its kernel can."""

import pytest

from dsl.ir import Gemm, Transform
from engine.devices import Problem
from engine.strategies.planner import memory
from sol.hardware import load
from tests.engine.graphs import Builder, linear
from tests.engine.planning import planned

WORDS = "weights cast as they are read"


def structures(graph, cls="f16"):
    planner = planned(Problem("", "module", graph), (cls,), load("h200"), "measured", memory=memory.known("h200", 132))
    return next(x for x in planner.all if x.cls == cls).structures


def casts_of(structure, name="linear_weight"):
    return [s for s in structure.base.stages if isinstance(s, Transform) and s.x.name == name]


@pytest.mark.parametrize("cls", ["f16", "bf16"])
def test_a_linear_layer_of_few_rows_begins_so_and_tries_a_cast_apart_too(cls):
    several = structures(linear([("gelu", {})], rows=16, k=8192, n=8192), cls)
    assert WORDS in several[0].words and not casts_of(several[0]) and several[0].backend == "cute"
    assert any(casts_of(s) for s in several)


def test_with_more_rows_it_is_tried_beside_the_other():
    several = structures(linear([("gelu", {})], rows=1024, k=8192, n=8192))
    assert {WORDS in s.words for s in several} == {True, False}


@pytest.mark.parametrize(
    "graph",
    [
        linear([("gelu", {})], rows=16384, k=4096, n=4096),  # the product is longer than the cast
        linear([("gelu", {})], rows=1024, k=8200, n=8192),  # rows of the weight are no whole lines
        linear([("gelu", {})], rows=1024, k=8192, n=8192, dtype="f16"),
    ],
)
def test_other_weights_are_cast_before_the_product_or_not_at_all(graph):
    assert not any(WORDS in s.words for s in structures(graph))


def test_a_weight_that_lies_along_n_is_cast_before_the_product():
    g = Builder()
    y = g.op("matmul", [g.input("x", (1024, 8192)), g.parameter("w", (8192, 8192))], (1024, 8192))
    several = structures(g.graph(y))
    assert not any(WORDS in s.words for s in several)


def test_no_other_class_has_it():
    graph = linear([("gelu", {})], rows=1024, k=8192, n=8192)
    for cls in ("tf32", "fp8"):
        assert not any(WORDS in s.words for s in structures(graph, cls))


def test_what_won_with_it_begins_no_product_with_a_cast_apart():
    first = structures(linear([("gelu", {})], rows=1024, k=8192, n=8192))
    own, apart = (next(s for s in first if bool(casts_of(s)) is casts) for casts in (False, True))
    kinds = [memory.described(s.base, next(x for x in s.base.stages if isinstance(x, Gemm))) for s in (own, apart)]
    assert kinds[0].name("cute") != kinds[1].name("cute")
