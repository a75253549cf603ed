"""The class of a workload follows from its op graph, and each class has a menu and a depth for its profile."""

import pytest

from engine.strategies.cutegen.menu import LAST, MENUS, item
from engine.strategies.cutegen.workload import REVEAL, TITLES, workload
from sol.graph import Op, OpGraph, Tensor


def graph(*ops: tuple[str, tuple[int, ...]], inputs: int = 1, shape: tuple[int, ...] = (64, 64)) -> OpGraph:
    """A chain of ops, each with the shape of its result; a second input is read by the first op."""
    names = tuple(f"x{i}" for i in range(inputs))
    tensors = {n: Tensor(n, shape, "f32", "input") for n in names}
    chain, last = [], names
    for place, (op, result) in enumerate(ops):
        out = f"t{place}"
        tensors[out] = Tensor(out, result, "f32", "intermediate")
        chain.append(Op(f"op{place}", op, last, (out,)))
        last = (out,)
    return OpGraph(tensors, tuple(chain), names, last)


SQUARE, ROWS, SCALAR = (64, 64), (64,), ()
CASES = {
    "product": graph(("matmul", SQUARE), ("relu", SQUARE), inputs=2),
    "loss": graph(("cross_entropy_loss", SCALAR), inputs=2),
    "reduction": graph(("exp", SQUARE), ("sum", ROWS)),
    "activation": graph(("mish", SQUARE), ("mul", SQUARE)),
    "other": graph(("view", SQUARE)),
}


@pytest.mark.parametrize("cls", CASES)
def test_the_class_of_a_graph(cls):
    work = workload(CASES[cls])
    assert work.cls == cls and work.why.endswith(".") and len(work.why) < 300


def test_a_convolution_with_more_work_than_the_products_decides():
    from engine.strategies.planner.lowering import program_graph  # noqa: F401 - loads the rules of convolutions

    x, w = Tensor("x", (8, 16, 32, 32), "f32", "input"), Tensor("w", (16, 16, 3, 3), "f32", "parameter")
    y = Tensor("y", (8, 16, 30, 30), "f32", "intermediate")
    conv = Op("conv", "conv2d", ("x", "w"), ("y",), {"stride": [1, 1], "padding": [0, 0], "groups": 1})
    work = workload(OpGraph({"x": x, "w": w, "y": y}, (conv,), ("x",), ("y",)))
    assert work.cls == "convolution" and work.why.startswith("conv2d: 100%")


def test_several_inputs_that_become_one_number_are_a_loss_and_one_input_is_a_reduction():
    assert workload(graph(("sub", SQUARE), ("mean", SCALAR), inputs=2)).cls == "loss"
    assert workload(graph(("mean", SCALAR))).cls == "reduction"


def test_an_operation_that_no_output_needs_does_not_count():
    whole = CASES["product"]
    dead = OpGraph(whole.tensors, whole.ops, whole.inputs, ("x0",))
    assert workload(dead).cls == "other"


def test_each_class_has_a_menu_a_depth_and_a_title():
    assert set(REVEAL) == set(MENUS) == set(TITLES)
    # the study's depths
    assert [REVEAL[c] for c in ("product", "convolution", "reduction", "loss", "activation")] == [6, 6, 5, 3, 2]
    for cls, menu in MENUS.items():
        assert len({one.title for one in menu}) == len(menu) >= REVEAL[cls], cls
        assert item(cls, 1) is menu[0] and item(cls, 99) is menu[-1] is LAST
