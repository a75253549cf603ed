"""Where TF32 is allowed and not used, PyTorch's error is f32's: a bound that no TF32 kernel could hold."""

from pathlib import Path

import pytest

from engine.suite.problem import Instance

MODULE = Path(__file__).parents[3] / "engine" / "problems" / "conv2d_rgb_stride4.py"


@pytest.fixture
def problem():
    """A CPU has no TF32, so that PyTorch's run there is none of the class."""
    held = Instance.make(MODULE, seed=3, device="cpu", small=True)
    held.small = False
    held.prepare()
    return held


def test_its_error_is_that_of_rounded_operands(problem):
    assert problem.own["tf32"].error < 1e-6
    assert 1e-4 < problem.pytorch_error("tf32").error < 1e-3
    assert problem.pytorch_error("tf32") is problem.own["tf32"]


def test_a_run_of_the_class_is_the_bound(problem):
    rounded = problem._rounded_error("tf32")
    problem.own["tf32"] = rounded.__class__(rounded.error / 2, rounded.max_error / 2)
    assert problem.pytorch_error("tf32").error == rounded.error / 2


def test_another_first_input_is_another_problem_on_the_same_module(problem):
    changed = problem.with_first(problem.inputs[0] * 2)
    name = next(n for n, x in problem.values.items() if x is problem.inputs[0])
    assert changed.right is None and not changed.own and changed.values[name] is changed.inputs[0]
    assert changed.model is problem.model and problem.right is not None and problem.values[name] is problem.inputs[0]
