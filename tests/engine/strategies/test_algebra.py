"""Algebraic rewrites compute the same numbers with less work, and nothing else is rewritten."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from dsl.printer import to_text  # noqa: E402
from engine.evaluate.candidate.region_runtime import RegionRuntime  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.strategies.planner.search.algebra import rewritten  # noqa: E402
from sol.cost.graph_costs import costs_of  # noqa: E402
from tests.engine.graphs import Builder  # noqa: E402


def summed(op="sum", bias=True, keepdim=True, dim=1, more=False):
    g = Builder()
    reads = [g.input("x", (64, 32)), g.parameter("w", (48, 32)), *([g.parameter("b", (48,))] if bias else [])]
    y = g.op("linear", reads, (64, 48))
    if more:
        y = g.op("relu", [y], (64, 48))
    left = (64, 48)[1 - dim]
    shape = (64, 1) if keepdim and dim else (1, 48) if keepdim else (left,)
    return g.graph(g.op(op, [y], shape, dim=[dim], keepdim=keepdim, dtype=None))


def chain(left=True, sizes=(64, 512, 48, 8), batch=()):
    m, k, n, p = sizes
    g = Builder()
    a, b, c = g.input("a", (*batch, m, k)), g.input("b", (*batch, k, n)), g.input("c", (*batch, n, p))
    if left:
        y = g.op("matmul", [g.op("matmul", [a, b], (*batch, m, n)), c], (*batch, m, p))
    else:
        y = g.op("matmul", [a, g.op("matmul", [b, c], (*batch, k, p))], (*batch, m, p))
    return g.graph(y)


def values(graph):
    torch.manual_seed(0)
    return {n: torch.randn(t.shape, dtype=torch.float64) for n, t in graph.tensors.items() if t.kind != "intermediate"}


def result(graph, tensors):
    graph = replace(graph, tensors={n: replace(t, dtype="f64") for n, t in graph.tensors.items()})
    return RegionRuntime(graph, [], "cpu", "f32").run(tensors)[graph.outputs[0]]


GRAPHS = {
    "sum": summed(), "sum without bias": summed(bias=False), "mean": summed("mean"),
    "sum, axis gone": summed(keepdim=False), "mean without bias, axis gone": summed("mean", False, False),
    "left first": chain(sizes=(512, 64, 512, 8)), "right first": chain(False, (8, 512, 64, 512)),
    "batched": chain(sizes=(512, 64, 512, 8), batch=(3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_rewrite_gives_the_same_numbers_with_less_work(name):
    graph = GRAPHS[name]
    rewrite = rewritten(graph)
    torch.testing.assert_close(result(rewrite.graph, values(graph)), result(graph, values(graph)))
    assert (rewrite.graph.inputs, rewrite.graph.outputs) == (graph.inputs, graph.outputs)
    work = [sum(costs_of(g)[op.name].flops for op in g.ops) for g in (rewrite.graph, graph)]
    assert work[0] < 0.75 * work[1] and rewrite.words


@pytest.mark.parametrize("name", GRAPHS)
def test_what_was_rewritten_is_lowered(name):
    rewrite = rewritten(GRAPHS[name])
    text = to_text(lower(rewrite.graph).program("tf32"))
    assert ("gemm(" in text) == ("order" in rewrite.words)


@pytest.mark.parametrize(
    "graph",
    [summed(dim=0), summed(more=True), chain(sizes=(8, 512, 64, 512)), chain(sizes=(64, 64, 64, 64))],
    ids=["rows", "something in between", "the better order already", "no order better"],
)
def test_nothing_else_is_rewritten(graph):
    assert rewritten(graph) is None


def test_a_product_that_is_read_twice_is_kept():
    g = Builder()
    y = g.op("mm", [g.input("a", (512, 64)), g.input("b", (64, 512))], (512, 512))
    z = g.op("mm", [y, g.input("c", (512, 8))], (512, 8))
    assert rewritten(g.graph(z, y)) is None
