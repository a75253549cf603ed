"""A raw kernel is judged while the module's process lays its results in a block of a worker, as in every session on a
GPU that has tried a program: its judge is given results that it can read."""

import pytest

from engine import sandbox
from engine.devices import Problem
from engine.evaluate import shared_memory
from engine.evaluate.integrity.kernel_trial import Kernels
from engine.evaluate.integrity.process.judge import Judge
from engine.evaluate.reference.module_process import Reference
from engine.sandbox import Sandbox
from engine.strategies.api import KernelTrial
from tests.engine.traced import once as trace

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)
def get_inputs(): return [torch.randn(32, 16), torch.randn(32, 16)]
"""
KERNEL = """
import torch


def kernel(x, y):
    out = x + y
    return torch.where(out > 0, out, torch.zeros_like(out))
"""


def test_its_results_are_compared_with_those_of_the_module():
    if Sandbox.strength() != "full":
        pytest.skip(Sandbox.strength())
    with Reference(Problem(MODULE, "module", trace(MODULE).graph, 0)) as reference:
        block = shared_memory.create(reference.result_bytes, "cpu")
        reference.adopt(block.fd, "a worker")
        block.shared()
        kernels = Kernels(reference, Judge("cpu"), timed=False)
        trial = KernelTrial(1, KERNEL, "f32", "python")
        try:
            for step in (kernels.check, kernels.build):
                step(trial)
            validated = kernels.validate(trial)
        finally:
            kernels.close()
            kernels.judge.close()
    sandbox.drain()
    assert validated.error < 1e-5
