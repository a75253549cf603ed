"""A long chain of operations, or a recurrence that is written out, is cut into stages that each nest few calls."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import traced


def chain(x):
    for _ in range(250):
        x = torch.sin(x) + 0.5
    return x


def recurrence(a, b):
    h = b
    for _ in range(40):
        h = a * h + b
    return h


@pytest.mark.parametrize(("function", "tensors"), [(chain, 1), (recurrence, 2)])
def test_the_module_is_one_program_of_several_stages_with_the_same_values(function, tensors):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(8, 64, generator=generator) for _ in range(tensors)]
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    result = check(to_text(region.lowered.program("tf32")))
    assert result.ok, result.diagnostics
    assert 1 < len(result.program.stages) < 40
    values = dict(zip(graph.inputs, inputs, strict=True))
    bound = [values[b.tensor].reshape(b.shape) for b in region.lowered.inputs]
    (have,) = oracle.run(result.program, bound, exact=True)
    assert torch.allclose(have, function(*(x.double() for x in inputs)).reshape(have.shape), rtol=1e-6, atol=1e-6)


def test_what_nests_few_calls_is_one_stage():
    def short(x):
        for _ in range(12):
            x = torch.sin(x) + 0.5
        return x

    (region,) = partition(traced(short, torch.rand(8, 64))).regions
    assert len(region.lowered.stages) == 1
