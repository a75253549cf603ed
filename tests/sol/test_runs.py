"""What stays PyTorch between programs, in runs from which a compiler gains: two kernels, one of them no library's."""

import pytest

from sol.cost.runs import runs
from sol.graph import Op, OpGraph, Tensor


def chain(*names):
    """x -> names[0] -> ... -> names[-1], each an operation of one tensor of 4 x 8 (mm: with itself transposed)."""
    tensors = {"x": Tensor("x", (8, 8), "f32", "input")}
    ops, last = [], "x"
    for i, name in enumerate(names):
        out = f"{name}_{i}"
        tensors[out] = Tensor(out, (8, 8), "f32", "intermediate")
        reads = (last, last) if name == "mm" else (last,)
        attrs = {"cumsum": {"dim": 0}, "view": {"size": [8, 8]}}.get(name, {})
        ops.append(Op(out, name, reads, (out,), attrs))
        last = out
    return OpGraph(tensors, tuple(ops), ("x",), (last,))


def names(graph, *groups):
    return [[op.name for op in run] for run in runs(graph, groups)]


def test_programs_end_a_run():
    graph = chain("tanh", "exp", "relu", "cumsum", "neg")
    assert names(graph) == [["tanh_0", "exp_1", "relu_2", "cumsum_3", "neg_4"]]
    assert names(graph, ["relu_2"]) == [["tanh_0", "exp_1"], ["cumsum_3", "neg_4"]]


@pytest.mark.parametrize("beside", [("tanh",), ("view", "tanh"), ("mm", "mm")])
def test_one_kernel_and_library_kernels_alone_are_left(beside):
    assert names(chain(*beside)) == []


def test_views_and_products_belong_to_the_run_that_they_stand_in():
    assert names(chain("view", "mm", "tanh", "view")) == [["view_0", "mm_1", "tanh_2", "view_3"]]
