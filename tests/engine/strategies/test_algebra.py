"""Algebraic rewrites compute the same numbers with less work, and nothing else is rewritten."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from dsl.printer import to_text  # noqa: E402
from engine.evaluate.candidate.region_runtime import RegionRuntime  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from sol.algebra import rewritten  # noqa: E402
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


def between(links, op="sum", dims=(1,), keepdim=True):
    """A linear layer, these operations, each perhaps with another tensor of a shape, and a sum."""
    g = Builder()
    y = g.op("linear", [g.input("x", (64, 32)), g.parameter("w", (48, 32)), g.parameter("b", (48,))], (64, 48))
    for i, (name, attrs, *shape) in enumerate(links):
        y = g.op(name, [y, *(g.parameter(f"p{i}", s) for s in shape)], (64, 48), **attrs)
    return g.graph(total(g, y, list(dims), keepdim, op))


def spread(shape, dims=(2,), keepdim=False):
    g = Builder()
    y = g.op("linear", [g.input("x", shape), g.parameter("w", (48, shape[-1])), g.parameter("b", (48,))],
             (*shape[:-1], 48))  # fmt: skip
    return g.graph(total(g, g.op("mul", [y], (*shape[:-1], 48), other=0.1), list(dims), keepdim))


def batched(dims):
    g = Builder()
    y = g.op("bmm", [g.input("x", (3, 64, 32)), g.input("y", (3, 32, 48))], (3, 64, 48))
    return g.graph(total(g, g.op("div", [y], (3, 64, 48), other=4.0), dims, True))


def convolved(dims, kernel=3, transposed=False, keepdim=True):
    """A 2-D convolution with 4 channels in and 6 out on images of 8 x 8, a scale, and a mean over these axes."""
    g, size, padding = Builder(), 8 if transposed or kernel == 1 else 6, 1 if transposed else 0
    weight = (4, 6, kernel, kernel) if transposed else (6, 4, kernel, kernel)
    reads = [g.input("x", (2, 4, 8, 8)), g.parameter("w", weight), g.parameter("b", (6,))]
    attrs = {"stride": [1, 1], "padding": [padding] * 2, "dilation": [1, 1], "groups": 1}
    attrs |= {"output_padding": [0, 0]} if transposed else {}
    y = g.op("conv_transpose2d" if transposed else "conv2d", reads, (2, 6, size, size), **attrs)
    y = g.op("mul", [y], (2, 6, size, size), other=3.0)
    return g.graph(total(g, y, dims, keepdim, "mean"))


def total(g, y, dims, keepdim, op="sum"):
    t = g.tensors[y].shape
    shape = tuple(1 if i in dims else n for i, n in enumerate(t) if keepdim or i not in dims)
    return g.op(op, [y], shape, dim=dims, keepdim=keepdim, dtype=None)


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
    "sum of rows": summed(dim=0), "mean of rows": summed("mean", dim=0, keepdim=False),
    "sum of all": between([], dims=[0, 1]), "halved": between([("div", {"other": 2})]),
    "shifted, then halved": between([("add", {"other": 3.0, "alpha": 1}), ("mul", {"other": 0.5})]),
    "taken from a number": between([("rsub", {"other": 3.0, "alpha": 2})], op="mean"),
    "negated, of rows": between([("neg", {})], dims=[0]),
    "a scale of each row": between([("mul", {}, (64, 1))]),
    "a row added": between([("sub", {"alpha": 2}, (48,)), ("div", {"other": 2})]),
    "a row added to summed rows": between([("add", {"alpha": 1}, (48,))], op="mean", dims=[0]),
    "a matrix added": between([("add", {"alpha": 1}, (64, 48))], keepdim=False),
    "scaled columns, summed rows": between([("mul", {}, (48,))], dims=[0, 1], keepdim=False),
    "more axes": spread((3, 64, 32)), "more axes, first summed": spread((3, 64, 32), [0, 2]),
    "batched": batched([2]), "batched rows": batched([1]),
    "convolution": convolved([1]), "convolution, all but batch": convolved([1, 2, 3], keepdim=False),
    "pointwise convolution": convolved([2, 3], kernel=1), "transposed convolution": convolved([1], transposed=True),
    "left first": chain(sizes=(512, 64, 512, 8)), "right first": chain(False, (8, 512, 64, 512)),
    "batched chain": chain(sizes=(512, 64, 512, 8), batch=(3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_rewrite_gives_the_same_numbers_with_less_work(name):
    graph = GRAPHS[name]
    rewrite = rewritten(graph)
    torch.testing.assert_close(result(rewrite.graph, values(graph)), result(graph, values(graph)))
    assert (rewrite.graph.inputs, rewrite.graph.outputs) == (graph.inputs, graph.outputs)
    work = [sum(costs_of(g)[op.name].flops for op in g.ops) for g in (rewrite.graph, graph)]
    assert work[0] < 0.75 * work[1] and rewrite.words


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "sum of all"])  # one number is no program yet
def test_what_was_rewritten_is_lowered(name):
    rewrite = rewritten(GRAPHS[name])
    text = to_text(lower(rewrite.graph).program("tf32"))
    assert "return" in text and ("columns" not in rewrite.words or name == "batched" or "gemm(" not in text)


@pytest.mark.parametrize(
    "graph",
    [
        summed(more=True),
        between([("mul", {}, (48,))]),
        between([("div", {}, (64, 48))]),
        batched([0]),
        convolved([2, 3]),
        chain(sizes=(8, 512, 64, 512)),
        chain(sizes=(64, 64, 64, 64)),
    ],
    ids=[
        "something in between",
        "a factor of each column",
        "a divisor of each element",
        "a sum over a product's batch",
        "places of a window",
        "the better order already",
        "no order better",
    ],
)
def test_nothing_else_is_rewritten(graph):
    assert rewritten(graph) is None


def test_a_product_that_is_read_twice_is_kept():
    g = Builder()
    y = g.op("mm", [g.input("a", (512, 64)), g.input("b", (64, 512))], (512, 512))
    z = g.op("mm", [y, g.input("c", (512, 8))], (512, 8))
    assert rewritten(g.graph(z, y)) is None
