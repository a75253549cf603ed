"""A report takes time by the length of its graph, whatever sizes and shapes the graph has: none of these would end."""

from random import Random

import pytest
from suite59 import Builder

from sol import algebra
from sol.bounds import external_bytes
from sol.cost.cost import Work
from sol.cost.graph_costs import costs_of
from sol.cost.needed import contraction
from sol.cost.products import _einsum, _ordered, einsum_terms
from sol.graph import Op, Tensor
from sol.hardware import load
from sol.report import report

H200 = load("h200")
N = 10**11


def test_a_pool_and_a_convolution_with_windows_as_long_as_expanded_tensors():
    b = Builder()
    pool = b.op("avg_pool2d", b.input("x", 1, 1, 1, 2 * N), shape=(1, 1, 1, N + 1), kernel_size=[1, N], stride=[1, 1])
    w = b.input("w", 1, 1, N)
    conv = b.op("conv1d", b.input("y", 1, 1, 2 * N), w, shape=(1, 1, N + 1), stride=[1], padding=[0], dilation=[1])
    back = b.op("conv_transpose1d", b.input("z", 1, 1, N), w, shape=(1, 1, 2 * N - 1), stride=[1], dilation=[1])
    graph = b.done(pool, conv, back)
    assert report(graph, H200).bounds["tf32"]["ms"] > 0
    assert external_bytes(graph)["x"] == 4 * 2 * N and external_bytes(graph)["y"] == 4 * 2 * N
    assert costs_of(graph)[graph.ops[1].name].must == pytest.approx(2 * N * (N + 1))
    assert costs_of(graph)[graph.ops[2].name].must == pytest.approx(2 * N * N)


def test_views_that_part_and_meet_again_are_looked_at_once():
    b = Builder()
    copied = x = b.op("contiguous", b.op("transpose", b.input("x", 8, 8), dim0=0, dim1=1))
    for _ in range(70):  # 2 ** 70 ways lead through them
        x = b.op("view_as", b.op("view", x, size=[8, 8]), b.op("view", x, size=[8, 8]))
    graph = b.done(b.op("relu", x))
    assert copied in graph.tensors and report(graph, H200).totals["ops"] == 213


def test_a_graph_is_rewritten_a_limited_number_of_times(monkeypatch):
    looks, chain = [], algebra._chain
    monkeypatch.setattr(algebra, "_chain", lambda graph: looks.append(graph) or chain(graph))
    b = Builder()
    x = b.input("a0", 512, 512)
    for i in range(1, 400):
        x = b.matmul(x, b.input(f"a{i}", 512, 512))
    x = b.matmul(x, b.input("v", 512, 1))
    assert algebra.rewritten(b.done(x)) is not None and len(looks) == algebra._MOST


def by_every_pair(terms, out, size):
    """The cost of an einsum as sets of all other factors give it."""
    matrix = vector = 0.0
    left = []
    for i, term in enumerate(terms):
        left.append(term & out.union(*terms[:i], *terms[i + 1 :]))
        vector += float(count(term, size)) if term - left[-1] else 0.0
    indices = left[0]
    for i, term in enumerate(left[1:], 1):
        span = indices | term
        indices = span & out.union(*left[i + 1 :])
        matrix, vector = (
            (matrix + 2 * count(span, size), vector) if span - indices else (matrix, vector + count(span, size))
        )
    return matrix, vector


def count(indices, size):
    total = 1
    for c in indices:
        total *= size[c]
    return total


def einsum(equation, sizes):
    terms = equation.split("->")[0].split(",")
    ins = tuple(Tensor(f"t{i}", tuple(sizes[c] for c in t), "f32", "input") for i, t in enumerate(terms))
    out = Tensor("y", tuple(sizes[c] for c in equation.split("->")[1]), "f32", "intermediate")
    return Work(Op("e", "einsum", tuple(t.name for t in ins), ("y",), {"equation": equation}), ins, (out,))


def test_an_einsum_costs_what_it_costs_by_every_pair():
    rng = Random(11)
    for _ in range(300):
        sizes = {c: rng.randrange(1, 9) for c in "abcdef"}
        terms = ["".join(rng.sample("abcdef", rng.randrange(1, 4))) for _ in range(rng.randrange(2, 7))]
        read = sorted(set("".join(terms)))
        work = einsum(f"{','.join(terms)}->{''.join(rng.sample(read, rng.randrange(len(read))))}", sizes)
        assert _einsum(work)[1:3] == by_every_pair(*einsum_terms(work))


def test_an_einsum_of_very_many_factors():
    assert _einsum(einsum(",".join(["ab"] * 100_000) + "->a", {"a": 2, "b": 3}))[1:3] == (12.0, 6.0 * 99_998)


@pytest.mark.parametrize("length", range(2, 8))
def test_a_long_chain_costs_its_cheapest_order(length):
    rng = Random(length)
    dims = [rng.randrange(2, 50) for _ in range(length + 1)]
    terms = [frozenset((str(i), str(i + 1))) for i in range(length)]
    ends = frozenset(("0", str(length)))
    assert _ordered(dims) == contraction(terms, ends, {str(i): d for i, d in enumerate(dims)})


def test_a_chain_of_more_products_than_an_order_is_searched_for_has_a_limit_too():
    for length in (9, 60, 500):
        b = Builder()
        names = [b.input(f"a{i}", 64, 64) for i in range(length)]
        graph = b.done(b.op("linalg_multi_dot", *names, shape=(64, 64)))
        assert 2 * 64**3 <= costs_of(graph)[graph.ops[0].name].must <= 2 * 64**3 * length
