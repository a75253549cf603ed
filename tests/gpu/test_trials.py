"""Whole trials on a real GPU: built by the real toolchain, held against the module, timed in alternation with it."""

import time

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.lower import Source
from engine.devices import Candidate, Problem, TrialError
from engine.session import events
from engine.session.runner import SessionSpec, run
from engine.strategies.planner.lowering import program_graph
from sol.hardware import load

pytestmark = pytest.mark.gpu

LINEAR = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2048, 4096)
    def forward(self, x):
        return F.leaky_relu(self.linear(x) * 2, 0.1)
def get_inputs(): return [torch.randn(2048, 2048)]
"""
PROGRAM = """\
program scaled(x: f16[512, 1024], w: f16[768, 1024], b: f32[768]) -> f16[512, 768] {
  y = gemm(x, w.T) {
    epilogue relu(acc * 2 + b[n])
  }
  return y
}
"""


def candidate(text=PROGRAM):
    compiled = generate(check(text).program, load("h200").sms)
    inputs, outputs = program_graph.bindings(compiled.resolved)
    return Candidate(1, compiled.resolved, compiled.text, "f16", "cute", compiled.sources, inputs, outputs)


@pytest.fixture
def opened(cuda):
    graph = program_graph.graph_of(check(PROGRAM).program)
    cuda.open(Problem(PROGRAM, "program", graph, 1), lambda: False)
    yield cuda
    cuda.close()


def replaced(one: Candidate, old: str, new: str) -> Candidate:
    source = one.sources["cute"]
    assert old in source.text
    text = source.text.replace(old, new)
    one.sources["cute"] = Source("cute", "python", text, text, source.namespace, source.line_map)
    return one


def test_a_module_is_searched_and_the_result_is_measured(cuda):
    """The aim is a first measured trial 10 s after Run on a warm engine; twice that is a mistake somewhere."""
    cuda.machine.workers.ready()
    began, first = time.time(), None
    log = []
    for emitted in run(SessionSpec(source=LINEAR, device="cuda", trials=4), local_user=True):
        log.append(emitted.event)
        if first is None and isinstance(emitted.event, events.TrialMeasured):
            first = time.time() - began
    assert log[-1].state == "done", log[-1].reason
    judged = [e for e in log if isinstance(e, events.TrialJudged)]
    failed = [e.reason for e in log if isinstance(e, events.TrialFailed)]
    assert judged and not failed, failed
    assert all(e.verdict == "clean" for e in judged), [e.text for e in judged]
    for e in judged:
        seen = {c["name"]: c["verdict"] for c in e.evidence}
        assert seen["without kernels"] == seen["kernels"] == seen["clocks"] == seen["precision"] == "passed", e.evidence
    measured = next(e for e in log if isinstance(e, events.TrialMeasured))
    assert measured.time.kind == "measured" and measured.time.device["name"] and measured.ratio > 0
    validated = next(e for e in log if isinstance(e, events.TrialValidated))
    # A guarded program meets more input families than the six rounds of any other.
    assert len(validated.checks) >= 6 and validated.error <= validated.tolerance
    assert first < 20, f"the first measured trial took {first:.1f} s"


def test_a_program_by_itself_is_validated_and_timed(opened):
    one = candidate()
    assert opened.build(one).how == "machine code"
    assert opened.validate(one).error < 2e-3
    baseline = next(b for b in opened.baselines(["f16"]) if b.cls in ("f16", "f32"))
    measured = opened.measure(one, baseline)
    assert 0 < measured.time.ms < 1 and measured.ratio_low <= measured.ratio <= measured.ratio_high


def test_a_wrong_epilogue_is_caught(opened):
    wrong = replaced(candidate(), '{"D": ', '{"D": 1.01 * ')
    opened.build(wrong)
    with pytest.raises(TrialError, match="relative error"):
        opened.validate(wrong)


def test_an_error_of_the_gpu_costs_one_trial(opened):
    """A kernel that indexes far outside of its tensor ends by an assertion on the device: the context is lost, the next
    program is not."""
    far = '        torch.zeros(4, device="cuda")[torch.full((1,), 1 << 40, device="cuda")]\n'
    broken = replaced(candidate(), "        y, = outputs\n", "        y, = outputs\n" + far)
    opened.build(broken)
    worker = opened.workbench.programs.rounds.session.worker
    generation = worker.generation
    with pytest.raises(TrialError) as e:
        opened.validate(broken)
    assert e.value.code in ("illegal_address", "cuda_error"), e.value.reason
    assert worker.generation == generation + 1
    one = candidate()
    opened.build(one)
    assert opened.validate(one).error < 2e-3
