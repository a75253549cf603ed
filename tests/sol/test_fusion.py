"""Which operations can share a kernel: a product's tail, and groups that no product parts."""

from suite59 import Builder, gemm_problem

from sol.cost.fusion import groups, tail
from sol.cost.graph_costs import costs_of


def test_a_tail_reaches_as_far_as_the_tile_does():
    graph = gemm_problem("L2/22")  # ... clamp; logsumexp; y * mish(y): the reduction ends it
    ops, extra = tail(graph, graph.ops[0])
    assert [o.op for o in ops] == ["mul", "add", "clamp"] and extra == ()
    graph = gemm_problem("L2/40")  # x0.5, then the unscaled value is added: both are in registers
    assert [o.op for o in tail(graph, graph.ops[0])[0]] == ["mul", "add"]


def test_a_tail_names_the_tensors_it_adds():
    graph = gemm_problem("L2/33")
    ops, extra = tail(graph, graph.ops[0])
    assert [o.op for o in ops] == ["mul", "batch_norm"] and len(extra) == 5


def grouped(b, *outputs):
    """The groups of everything but products and copies, as the words of their ops."""
    graph = b.done(*outputs)
    loose = {o.name for o in graph.ops if costs_of(graph)[o.name].kind in ("pointwise", "norm", "reduction")}
    return [[o.op for o in group] for group in groups(graph, loose)]


def test_a_group_ends_at_a_product():
    b = Builder()
    x = b.op("tanh", b.op("relu", b.input("x", 64, 64)))
    y = b.op("softmax", b.op("exp", b.linear(x, 64)), dim=-1)
    assert grouped(b, y) == [["relu", "tanh"], ["exp", "softmax"]]


def test_a_residual_does_not_join_what_its_product_parts():
    b = Builder()
    x = b.op("relu", b.input("x", 64, 64))
    y = b.op("add", b.linear(x, 64), x)
    assert grouped(b, y) == []


def test_operations_that_share_nothing_are_no_group():
    b = Builder()
    x, y = b.op("relu", b.input("x", 64, 64)), b.op("tanh", b.input("y", 64, 64))
    assert grouped(b, x, y) == []


def test_a_group_reaches_through_views_and_branches():
    b = Builder()
    x = b.op("relu", b.input("x", 64, 32))
    left, right = b.op("tanh", b.op("view", x, shape=(32, 64))), b.op("exp", b.op("view", x, shape=(32, 64)))
    assert grouped(b, b.op("mul", left, right)) == [["relu", "tanh", "exp", "mul"]]


def test_a_cast_rides_along_in_the_tail():
    b = Builder()
    y = b.op("to", b.linear(b.input("x", 64, 32), 64), dtype="f16")
    assert [o.op for o in tail(b.done(b.op("relu", y, dtype="f16")), b.ops[0])[0]] == ["to", "relu"]
