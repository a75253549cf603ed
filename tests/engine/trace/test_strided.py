"""as_strided of a dense tensor is traced as slices and windows, which a copy of the tensor has too."""

import pytest

torch = pytest.importorskip("torch")

from engine.trace.strided import as_views  # noqa: E402
from tests.engine.trace.test_graph import graph_of, ops  # noqa: E402

CASES = {
    "a slice": ((4, 8), (16, 1), 3), "overlapping windows": ((9, 8), (1, 1), 0), "transposed": ((8, 4), (1, 8), None),
    "a diagonal": ((8,), (9,), 0), "repeated": ((3, 8), (0, 2), 1), "axes of size 1": ((1, 4, 1, 2), (5, 8, 7, 3), 2),
    "one element": ((), (), 5), "three axes": ((2, 3, 4), (20, 1, 6), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_views_give_what_as_strided_gives(name):
    size, stride, offset = CASES[name]
    x = torch.randn(8, 8)
    y = x
    for _, _, apply in as_views(x, size, stride, offset):
        y = apply(y)
    torch.testing.assert_close(y, x.as_strided(size, stride, offset))


def test_an_offset_counts_from_where_a_view_begins():
    x = torch.randn(10, 8)[2:]
    y = x
    for _, _, apply in as_views(x, (3, 8), (8, 1), 24):
        y = apply(y)
    torch.testing.assert_close(y, x.as_strided((3, 8), (8, 1), 24))


@pytest.mark.parametrize("size, stride, offset", [((9, 8), (8, 1), 0), ((2, 2), (1, 1), 63)])
def test_what_lies_outside_of_the_tensor_stays_as_it_is(size, stride, offset):
    assert as_views(torch.randn(8, 8), size, stride, offset) is None


def test_a_tensor_with_gaps_stays_as_it_is():
    assert as_views(torch.randn(8, 8).T, (4, 4), (1, 8), 0) is None


@pytest.mark.usefixtures("full_sandbox")
def test_a_module_is_traced_so():
    graph = graph_of("return args[0].as_strided((4, 8), (16, 1), 3) * 2", "torch.randn(8, 8)")
    assert ops(graph) == ["view", "slice", "unfold", "unfold", "select", "mul"]
    assert graph.tensors[graph.outputs[0]].shape == (4, 8)
