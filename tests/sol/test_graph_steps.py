"""The order of a graph's operations when some of them run together."""

import pytest

from tests.engine.graphs import Builder


def graph():
    g = Builder()
    x = g.input("x", (4, 4))
    a = g.op("relu", [x], (4, 4))
    b = g.op("cumsum", [a], (4, 4), dim=0)
    c = g.op("add", [a, b], (4, 4))
    g.op("neg", [x], (4, 4))
    return g.graph(g.op("mul", [c, x], (4, 4)))


def names(steps):
    return [(at, tuple(op.name for op in ops)) for at, ops in steps]


def test_without_groups_the_live_operations_stand_in_their_own_order():
    assert names(graph().steps()) == [(None, (op.name,)) for op in graph().live]
    assert all("neg" not in op for _, ops in names(graph().steps()) for op in ops)


def test_a_group_runs_once_all_that_it_reads_is_there():
    assert names(graph().steps([("add_2", "mul_4")])) == [
        (None, ("relu_0",)), (None, ("cumsum_1",)), (0, ("add_2", "mul_4")),
    ]  # fmt: skip


def test_groups_that_wait_for_each_other_are_refused():
    with pytest.raises(ValueError, match="wait for each other"):
        list(graph().steps([("relu_0", "add_2"), ("cumsum_1", "mul_4")]))
