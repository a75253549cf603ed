"""What a GPU's processes use first is used before the lane, and changes nothing that the module can see."""

import pytest
import torch

from engine.evaluate.candidate.guarded_outputs import first_writes
from engine.evaluate.reference import first_use
from engine.trace import trace

MODULES = {
    "conv": ("nn.Conv2d(3, 8, 3)", "torch.randn(2, 3, 8, 8)"),
    "volume": ("nn.Conv3d(3, 8, 3)", "torch.randn(2, 3, 8, 8, 8)"),
    "pointwise": ("nn.GELU()", "torch.randn(2, 8)"),
}


def graph(name):
    layer, x = MODULES[name]
    return trace(
        f"import torch, torch.nn as nn\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.f = {layer}\n    def forward(self, x):\n        return self.f(x)\n"
        f"def get_inputs(): return [{x}]\n",
        local_user=True,
    ).graph


def operations(work):
    """The names of the operations that this runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    return {event.name for event in profile.events()}


@pytest.mark.parametrize(
    ("name", "used", "unused"),
    [
        ("conv", {"aten::conv2d"}, {"aten::conv3d"}),
        ("volume", {"aten::conv3d"}, {"aten::conv2d"}),
        ("pointwise", set(), {"aten::conv2d", "aten::conv3d"}),
    ],
)
def test_a_modules_convolutions_are_used_once(name, used, unused):
    traced = graph(name)
    seen = operations(lambda: first_use.of_convolutions(traced, "cpu"))
    assert used <= seen and not unused & seen


def test_products_are_used_once_in_each_type():
    seen = operations(lambda: first_use.of_products("cpu"))
    assert {"aten::linear", "aten::matmul"} <= seen


def test_a_comparison_and_the_checks_of_outputs_are_used_once():
    seen = operations(lambda: (first_use.of_rounds("cpu"), first_writes("cpu")))
    assert {"aten::linalg_vector_norm", "aten::randn", "aten::randint", "aten::equal"} <= seen


def test_the_modules_random_numbers_are_the_same_after_it():
    traced, before = graph("conv"), torch.get_rng_state()
    first_use.of_rounds("cpu")
    first_use.of_products("cpu")
    first_use.of_convolutions(traced, "cpu")
    first_writes("cpu")
    assert torch.equal(torch.get_rng_state(), before)
