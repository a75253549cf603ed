"""cat is a stage: what follows it element by element joins it, and it means what PyTorch computes."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Concat, Conv
from dsl.printer import to_text
from engine.strategies.planner.lowering.program_graph import graph_of
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import assert_means, traced
from tests.engine.strategies.test_written_norms import program

F = nn.functional


def dense(x, w, s, t, v):
    return F.conv2d(torch.relu(torch.cat([x, F.conv2d(x, w, padding=1)], 1) * s.view(-1, 1, 1) + t.view(-1, 1, 1)), v)


# Name -> the function, the shapes of its inputs, and how many stages its program has at most.
CASES = {
    "rows": (lambda x, y: torch.cat([x, y]), [(4, 16), (8, 16)], 1),
    "columns and a bias": (lambda x, y, b: torch.cat([x, y], -1) + b, [(4, 16), (4, 8), (24,)], 1),
    "three, in the middle": (lambda x, y, z: torch.cat([x, y, z], 1).sigmoid(), [(2, n, 5, 8) for n in (3, 1, 4)], 1),
    "six axes": (lambda x, y: torch.cat([x, y], 3) * 2, [(2, 3, 2, 4, 2, 8), (2, 3, 2, 5, 2, 8)], 1),
    "a cell of a network": (
        lambda x, h, w: torch.tanh(F.linear(torch.cat((x, h), 1), w)), [(32, 64), (32, 32), (48, 96)], 2,
    ),
    "a dense layer": (dense, [(2, 8, 12, 12), (16, 8, 3, 3), (24,), (24,), (8, 24, 1, 1)], 8),
    "what a product makes": (
        lambda x, w, v: torch.cat([F.linear(x, w).relu(), F.linear(x, v) * 2], 1), [(32, 64), (48, 64), (16, 64)], 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_stage_that_means_it(name):
    torch.manual_seed(0)
    function, shapes, stages = CASES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    program = check(to_text(region.lowered.program("tf32"))).program
    assert len([s for s in program.stages if isinstance(s, Concat)]) == 1 and len(program.stages) <= stages
    assert generate(program).sources.keys() >= {"cpp"}
    assert_means(program, region, graph, function, inputs)


def test_channels_stay_last_from_a_convolution_to_the_next():
    function, shapes, _ = CASES["a dense layer"]
    graph = traced(function, *(torch.randn(shape) for shape in shapes))
    program = check(to_text(partition(graph).regions[0].lowered.program("tf32"))).program
    joined = next(s for s in program.stages if isinstance(s, Concat))
    first = next(s for s in program.stages if isinstance(s, Conv))
    assert (first.type.layout, joined.type.layout) == ("nhwc", "nhwc") and first.name in joined.parts[1].name


def test_another_reader_gets_the_tensors_as_they_are_from_the_same_launch():
    def both(x, y):
        joined = torch.cat([x, y], 1)
        return joined, joined.relu()

    graph = traced(both, torch.randn(8, 16), torch.randn(8, 8))
    (region,) = partition(graph).regions
    (stage,) = check(to_text(region.lowered.program("tf32"))).program.stages
    assert isinstance(stage, Concat) and len(stage.also) == 1


def test_what_no_stage_joins_stays_pytorch():
    for join in (
        lambda x, y: torch.cat([x[:, ::2], y], 1),
        lambda x, y: torch.cat([x.int(), y.int()], 1).float(),
    ):
        graph = traced(lambda x, y, join=join: join(x, y).relu(), torch.randn(8, 16), torch.randn(8, 16))
        assert partition(graph).uncovered


@pytest.mark.parametrize("shape", [(1, 1, 16), (16,)])
def test_one_row_that_is_expanded_over_a_batch_is_repeated_by_the_stage(shape):
    """The token of a class before an image's, and the positions that are added to both."""
    row, x, positions = torch.randn(shape), torch.randn(2, 8, 16), torch.randn(9, 16)

    def function(row, x, positions):
        return (torch.cat([row.expand(2, 1, -1), x], 1) + positions).relu()

    pipeline, (result,) = program(traced(function, row, x, positions), "f16", row.double(), x.double(), positions)
    (stage,) = pipeline.stages
    assert isinstance(stage, Concat)
    torch.testing.assert_close(result.reshape(2, 9, 16), function(row, x, positions).double(), rtol=4e-3, atol=4e-3)


def test_what_is_expanded_in_every_part_is_joined_by_pytorch():
    graph = traced(lambda x, y: torch.cat([x.expand(4, 2, 16), y.expand(4, 3, 16)], 1).relu(),
                   torch.randn(1, 2, 16), torch.randn(1, 3, 16))  # fmt: skip
    assert {u.op for u in partition(graph).uncovered} >= {"cat"}


def test_a_pasted_program_of_a_part_that_is_repeated_is_priced_as_an_expanded_one():
    text = "program p(x: f16[1, 8], y: f16[4, 24]) -> f16[4, 32] {\n  z = concat(x, y) { over n }\n  return z\n}"
    assert [op.op for op in graph_of(check(text).program).ops] == ["expand", "cat"]


def test_a_pasted_program_is_priced_as_pytorchs_cat():
    text = "program p(x: f16[4, 8], y: f16[4, 24]) -> f16[4, 32] {\n  z = concat(x, y) { over n }\n  return z\n}"
    (op,) = graph_of(check(text).program).ops
    assert (op.op, op.attrs) == ("cat", {"dim": 1})
