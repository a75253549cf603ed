"""cumsum and cumprod are a stage: what surrounds them element by element joins it, two flips turn it around."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Scan
from dsl.printer import to_text
from engine.strategies.planner.lowering.drafts import Scanning
from engine.strategies.planner.lowering.program_graph import graph_of
from engine.strategies.planner.lowering.rules.scans import without_itself
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import assert_means, traced

# Name -> the function, the shapes of its inputs, whether it runs backwards.
CASES = {
    "rows": (lambda x: torch.cumsum(x, 1), [(64, 100)], False),
    "columns": (lambda x: torch.cumsum(x, 0), [(64, 100)], False),
    "in the middle": (lambda x: x.cumsum(1), [(4, 37, 6)], False),
    "products": (lambda x: torch.cumprod(1 + x * 0.01, -1), [(16, 40)], False),
    "masked, scaled and added to": (lambda x, m, y: torch.cumsum(x * m, -1) * 2 + y, [(8, 96)] * 3, False),
    "without the element": (lambda x: torch.cumsum(x, -1) - x, [(8, 96)], False),
    "backwards": (lambda x: torch.cumsum(x.flip(1), dim=1).flip(1), [(8, 96)], True),
    "backwards, by a negative axis": (lambda x: torch.cumprod(torch.flip(x, (-1,)), 2).flip(-1), [(2, 3, 8)], True),
    "zeros before all but the last": (
        lambda x: torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), x.narrow(1, 0, 95).cumsum(1)), 1),
        [(8, 96)],
        False,
    ),
    "the same of columns, by a slice": (
        lambda x: torch.cat([x.new_zeros(1, 12), torch.cumsum(x[:-1], 0)]) * 2,
        [(40, 12)],
        False,
    ),
    "five axes": (lambda x: x.cumsum(2).relu(), [(2, 3, 5, 4, 2)], False),
    "six axes": (lambda x: x.cumsum(3), [(2, 3, 2, 5, 2, 2)], False),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_stage_that_means_it(name):
    torch.manual_seed(0)
    function, shapes, backwards = CASES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    program = check(to_text(region.lowered.program("tf32"))).program
    (stage,) = program.stages
    assert isinstance(stage, Scan) and stage.reverse == backwards
    assert generate(program).sources.keys() == {"cpp"}
    assert_means(program, region, graph, function, inputs)


def test_the_program_s_own_graph_names_it():
    program = check(
        "program p(x: f32[8, 96]) -> f32[8, 96] {\n  y = scan(x) { op sum  over n  reverse }\n  return y\n}"
    )
    assert [op.op for op in graph_of(program.program).ops] == ["flip", "cumsum", "flip"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cumsum(x.flip(1), dim=1),
        lambda x: torch.cumsum(x.flip(0), dim=1).flip(0),
        lambda x: torch.cumsum(x.flip(1), dim=1).flip(1) + x.flip(1).sin(),
    ],
)
def test_other_flips_stay_pytorch(function):
    split = partition(traced(function, torch.randn(8, 96)))
    scans = [s for r in split.regions for s in r.lowered.stages if isinstance(s, Scanning)]
    assert len(scans) == 1 and not scans[0].reverse


def test_a_zero_before_other_sums_is_joined_to_them():
    for function in (
        lambda x: torch.cat((torch.zeros_like(x[:, :1]), x[:, 1:].cumsum(1)), 1),
        lambda x: torch.cat((torch.ones_like(x[:, :1]), x[:, :-1].cumsum(1)), 1),
        lambda x: torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1].cumprod(1)), 1),
    ):
        graph = traced(function, torch.randn(8, 96))
        assert without_itself(graph) is graph


def test_whole_numbers_stay_pytorch():
    split = partition(traced(lambda x: torch.cumsum((x > 0).int(), 1).float() * x, torch.randn(8, 96)))
    assert all("scan" not in to_text(r.lowered.program("tf32")) for r in split.regions)
