"""What a problem is taken to need of a GPU's memory."""

from engine.devices.gpus import CONTEXT, SLICED, bytes_needed
from sol.graph import Op, OpGraph, Tensor

GB = 10**9


def one_op(op, shape, out=None, **attrs):
    tensors = {"x": Tensor("x", shape, "f32", "input"), "y": Tensor("y", out or shape, "f32", "intermediate")}
    return OpGraph(tensors, (Op("y", op, ("x",), ("y",), attrs),), ("x",), ("y",))


def test_a_huge_module_whose_rows_are_computed_in_slices_leaves_the_gpu_to_others_too():
    """8.6 GB in and out. In float64, all at once, it would need more than a card of 150 GB has."""
    most, resting = bytes_needed(one_op("softmax", (4096, 524288), dim=-1))
    own = 2 * 4 * 4096 * 524288
    assert most - resting < SLICED + 4 * own / 2
    assert resting < most < 80 * GB


def test_a_module_that_is_computed_whole_counts_in_float64():
    sliced, _ = bytes_needed(one_op("softmax", (4096, 524288), dim=-1))
    whole, _ = bytes_needed(one_op("softmax", (4096, 524288), dim=0))
    assert whole > sliced + 80 * GB


def test_a_small_module_needs_two_contexts():
    most, resting = bytes_needed(one_op("relu", (64, 64)))
    assert 2 * CONTEXT < resting <= most < 2.1 * CONTEXT
