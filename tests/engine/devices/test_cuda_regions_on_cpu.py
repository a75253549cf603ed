"""A program in a region of a module on the measuring device: loaded beside PyTorch's rest, verified and timed as a
whole, and alone. Played on a CPU by the rules of test_cuda_on_cpu; what only a GPU can show is in tests/gpu."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from dsl.check.program import check
from dsl.lower import Source
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices import Candidate, Placed, Problem, TrialError
from engine.evaluate.correctness.gpu_rounds import repeatable
from engine.strategies.planner.regions.partition import partition
from tests.engine.devices.test_cuda_on_cpu import device, generated  # noqa: F401 - a fixture
from tests.engine.traced import once as trace

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 96)
    def forward(self, x):
        return torch.relu(torch.logcumsumexp(self.linear(x), 0) * 2)
def get_inputs(): return [torch.randn(64, 128)]
"""
RIGHT = "x @ w.T + b"


@pytest.fixture(scope="module")
def cut():
    return partition(trace(MODULE, local_user=True).graph)


@pytest.fixture
def opened(device, cut):  # noqa: F811
    device.open(Problem(MODULE, "module", cut.graph, 3), lambda: False)
    return device


def placed(region, code: str) -> Placed:
    program = resolve(check(to_text(region.lowered.program("tf32"))).program, 132)
    source = Source("cute", "python", code, code, "n", ())
    lowered = region.lowered
    return Placed(region.ops, program, to_text(program), "cute", source, lowered.inputs, lowered.outputs)


def candidate(cut, code: str, tail: str = "") -> Candidate:
    """The linear layer by `code`; with `tail` what comes after the sum too."""
    parts = [placed(cut.regions[0], code)]
    if tail:
        parts.append(placed(cut.regions[1], tail))
    one = parts[0]
    return Candidate(1, one.program, one.text, "tf32", "cute", {"cute": one.source}, one.inputs, one.outputs,
                     placed=tuple(parts), region=1)  # fmt: skip


def tail(expression: str) -> str:
    return f"def load(artifact=None):\n  def run(i, o):\n    x, = i\n    o[0].copy_({expression})\n  return run\n"


def test_the_module_is_verified_as_a_whole_and_the_program_timed_alone_too(opened, cut):
    assert [r.ops for r in cut.regions] == [("linear",), ("mul", "relu")]
    whole = candidate(cut, generated(RIGHT))
    validation = opened.validate(whole)
    assert validation.error < 1e-5 and "the module in float64" in validation.scope
    base = opened.baseline("eager_tf32")
    measured = opened.measure(whole, base)
    assert measured.part["region"] == 1 and measured.part["programs"] == 1
    assert 0 < measured.part["region_ms"] == measured.part["covered_ms"] and measured.part["region_eager_ms"] > 0
    (quick,) = opened.quick([whole], base)
    assert quick > 0


def test_programs_stand_beside_each_other(opened, cut):
    assert opened.validate(candidate(cut, generated(RIGHT), tail("(x * 2).relu()"))).error < 1e-5
    with pytest.raises(TrialError, match="relative error"):
        opened.validate(candidate(cut, generated(RIGHT), tail("(x * 3).relu()")))


WRONG = {
    "wrong_result": generated("x @ w.T - b"),
    "unwritten": generated(RIGHT).replace("y.copy_(x @ w.T + b)", "y[:32].copy_((x @ w.T + b)[:32])"),
    "input_written": generated(RIGHT, "w.zero_()"),
}


def test_a_wrong_program_in_a_region_is_found_out(opened, cut):
    for wrong, code in WRONG.items():
        with pytest.raises(TrialError) as e:
            opened.validate(candidate(cut, code))
        assert e.value.code == wrong


def test_what_runs_beside_regions_may_add_in_any_order(cut):
    whole, graph = candidate(cut, generated(RIGHT)), cut.graph
    sums = replace(graph, ops=tuple(replace(o, op="cumsum") if o.op == "logcumsumexp" else o for o in graph.ops))
    assert repeatable(whole) and repeatable(whole, graph) and not repeatable(whole, sums)  # its blocks do
