"""Tensors without elements do no harm where they are only joined to others or written into them."""

import pytest

from engine.devices import SessionRefused
from tests.engine.trace.test_graph import graph_of

pytestmark = pytest.mark.usefixtures("full_sandbox")

X = "torch.randn(4, 8)"


@pytest.mark.parametrize(
    ("forward", "init", "left"),
    [
        ("torch.cat([args[0], self.p, args[0]]) * 2", "self.p = nn.Parameter(torch.empty(0, 8))", ["cat", "mul"]),
        ("torch.cat([self.p, args[0]]) * 2", "self.p = nn.Parameter(torch.empty(0, 8))", ["mul"]),
        ("torch.cat([torch.empty(0), args[0]]) * 2", "pass", ["mul"]),
        ("torch.cat([args[0], args[0][:0]])", "pass", ["clone"]),
        ("torch.slice_scatter(args[0], args[0][4:] * 3, 0, 4, 4) + 1", "pass", ["add"]),
        ("torch.slice_scatter(args[0], args[0][4:], 0, 4, 4)", "pass", ["clone"]),
    ],
    ids=["joined", "joined to one", "of one axis", "joined and returned", "written", "written and returned"],
)
def test_what_has_no_elements_is_not_there(forward, init, left):
    graph = graph_of(f"return {forward}", X, init)
    assert sorted(op.op for op in graph.ops) == left and not any(0 in t.shape for t in graph.tensors.values())


def test_strips_of_windows_that_are_not_shifted():
    forward = "m = args[0].new_zeros(4, 8)\nm[:, :-8] = 1\nm[:, -8:] = 2\nreturn args[0] + m"
    graph = graph_of(forward, X)
    assert [op.op for op in graph.ops if op.op == "slice_scatter"] == ["slice_scatter"]
    assert not any(0 in t.shape for t in graph.tensors.values())


def test_a_product_of_such_a_tensor_is_refused_with_its_line():
    with pytest.raises(SessionRefused, match=r"makes a tensor without elements, \[0, 8\]; give every axis a size"):
        graph_of("return args[0][:0].T @ args[0][:0] + args[0].sum()", X)
