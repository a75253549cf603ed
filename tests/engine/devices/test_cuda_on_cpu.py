"""The measuring device's rules, played on a CPU: the same worker process, the same checks, hand-written programs in
the place of generated ones and the wall clock in the place of CUDA events. What only a GPU can show is in tests/gpu.
"""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from dsl.check.program import check
from dsl.lower import Source
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.devices import Binding, Candidate, Problem, SessionRefused, TrialError, cuda, gpu_names, gpus
from engine.evaluate.correctness import gpu_rounds
from engine.evaluate.evaluator import Evaluator
from engine.evaluate.timing import paired_timing
from engine.session import events
from engine.strategies.planner.lowering import program_graph
from tests.engine.devices.on_cpu import cuda_on_cpu
from tests.engine.traced import once as trace

PROGRAM = """\
program scaled(x: f32[64, 128], w: f32[96, 128], b: f32[96]) -> f32[64, 96] {
  y = gemm(x, w.T) {
    epilogue relu(acc * 2 + b[n])
  }
  return y
}
"""
MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 96)
    def forward(self, x):
        return torch.relu(self.linear(x) * 2)
def get_inputs(): return [torch.randn(64, 128)]
"""
MODULE_PROGRAM = PROGRAM.replace("acc * 2 + b[n]", "(acc + b[n]) * 2")
RIGHT = "torch.relu(x @ w.T * 2 + b)"
MODULE_RIGHT = "torch.relu((x @ w.T + b) * 2)"


def generated(expression: str, more: str = "", before: str = "") -> str:
    """A module with the ABI of dsl.lower.Source that writes `expression` into its only result."""
    return f"""\
import os, time, torch
calls = []
{before}
def load(artifact=None):
    def run(inputs, outputs):
        x, w, b = inputs
        y, = outputs
        calls.append(1)
        y.copy_({expression})
        {more}
    return run
"""


@pytest.fixture
def device(tmp_path, monkeypatch):
    evaluator = Evaluator(cuda_on_cpu(tmp_path, monkeypatch))
    yield evaluator
    evaluator.close()
    evaluator.machine.shutdown()


def candidate(text: str, code: str, inputs=None, outputs=None, **changes) -> Candidate:
    program = resolve(check(text).program, 132)
    if inputs is None:
        inputs, outputs = program_graph.bindings(program)
    source = Source("cute", "python", code, code, "n", ())
    base = Candidate(1, program, to_text(program), "tf32", "cute", {"cute": source}, inputs, outputs)
    return replace(base, **changes)


def opened(device: Evaluator) -> Evaluator:
    device.open(Problem(PROGRAM, "program", program_graph.graph_of(check(PROGRAM).program), 3), lambda: False)
    return device


def failure(device: Evaluator, code: str) -> TrialError:
    with pytest.raises(TrialError) as e:
        device.validate(candidate(PROGRAM, code))
    return e.value


def test_a_program_is_validated_and_timed_against_its_own_graph(device):
    opened(device)
    mine = candidate(PROGRAM, generated(RIGHT))
    validation = device.validate(mine)
    assert [c["family"] for c in validation.checks] == ["normal", "normal", "large", "tiny", "closed_form"]
    assert validation.error < 1e-6 and "two runs equal" in validation.scope
    baselines = list(device.baselines(["tf32"]))
    assert [(b.name, b.cls) for b in baselines] == [("eager", "f32"), ("eager_tf32", "tf32")]
    measured = device.measure(mine, baselines[1])
    assert isinstance(measured.time, events.Measurement) and measured.baseline == "eager_tf32"
    assert 15 <= len(measured.time.sample) <= 31
    assert measured.ratio_low <= measured.ratio <= measured.ratio_high
    assert measured.time.device["sm_mhz"] == 1980 and "before" in measured.time.device


def test_a_module_is_the_authority_and_its_own_tensors_are_one_round(device):
    graph = trace(MODULE, local_user=True).graph
    device.open(Problem(MODULE, "module", graph, 3), lambda: False)
    names = [*graph.inputs, *(t.name for t in graph.tensors.values() if t.kind == "parameter")]
    shapes = [graph.tensors[n].shape for n in names]
    order = sorted(zip(names, shapes, strict=True), key=lambda p: [(64, 128), (96, 128), (96,)].index(p[1]))
    inputs = tuple(Binding(p, n, s) for p, (n, s) in zip("xwb", order, strict=True))
    outputs = (Binding("y", graph.outputs[0], (64, 96)),)
    right = candidate(MODULE_PROGRAM, generated(MODULE_RIGHT), inputs, outputs)
    validation = device.validate(right)
    assert [c["family"] for c in validation.checks] == list(gpu_rounds.FAMILIES)
    assert all(c["pytorch_error"] > 0 for c in validation.checks if c["family"] == "normal")
    assert "the module in float64" in validation.scope
    before = dict(device.workbench.programs.rounds.pytorch)
    assert device.validate(right).error == validation.error  # the same data for every trial
    assert device.workbench.programs.rounds.pytorch == before
    with pytest.raises(TrialError, match="relative error"):
        device.validate(candidate(MODULE_PROGRAM, generated(RIGHT), inputs, outputs))


def test_a_program_for_another_architecture_is_refused_by_name_before_it_is_built(device, monkeypatch):
    opened(device)
    monkeypatch.setattr(device.machine.pool, "build", lambda *a: pytest.fail("it was built"))
    ampere = PROGRAM.replace("  y = gemm", "  arch sm_80\n  y = gemm")
    with pytest.raises(TrialError) as e:
        device.build(candidate(ampere, generated(RIGHT)))
    assert e.value.code == "wrong_arch"
    assert e.value.reason == (
        "the program says arch sm_80, and NVIDIA H200 is sm_90a; write arch sm_90a, or leave arch out"
    )


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (generated("torch.relu(x @ w.T * 2)"), ("wrong_result", "relative error")),
        (generated(RIGHT, "y[3, 5] = float('nan')"), ("wrong_result", "1 of 6,144 elements are NaN")),
        (generated(RIGHT, "b.add_(1)"), ("input_written", "changed its input 3")),
        (generated(RIGHT, "y.add_(len(calls) * 1e-3)"), ("unsteady", "other bits")),
        (
            generated(RIGHT).replace("y.copy_(", "y[:, :90].copy_(").replace(f"{RIGHT})", f"({RIGHT})[:, :90])"),
            ("unwritten", "384 of 6,144 elements"),
        ),
        (
            generated(RIGHT, "torch.as_strided(y, (1,), (1,), y.storage_offset() + y.numel()).zero_()"),
            ("out_of_bounds", "outside of result 1"),
        ),
        (generated(RIGHT, "raise ValueError('no such shape')"), ("run_failed", "no such shape")),
        (generated(RIGHT, "raise RuntimeError('CUDA error: an illegal memory access was encountered')"),
         ("illegal_address", "not its own")),
    ],
    ids=["result", "nan", "input", "unsteady", "unwritten", "bounds", "raises", "address"],
)  # fmt: skip
def test_a_wrong_program_is_told_why(device, code, what):
    e = failure(opened(device), code)
    assert e.step == "validate" and e.code == what[0] and re.search(what[1], e.reason)


STAGED = """\
import torch
{before}
def y_stage(x, w, b, y):
    y.copy_({stage})
STAGES = {{"y": (y_stage, None)}}
def load(artifact=None):
    def run(inputs, outputs):
        x, w, b = inputs
        y, = outputs
        y_stage(x, w, b, y)
        {more}
    return run
"""


def checks_of(device, code: str) -> dict[str, dict]:
    opened(device)
    mine = candidate(PROGRAM, code)
    device.build(mine)
    device.validate(mine)
    (baseline,) = [b for b in device.baselines(["tf32"]) if b.cls == "tf32"]
    return {c["name"]: c for c in device.measure(mine, baseline).checks}


def test_a_measured_trial_shows_that_its_kernels_made_the_result(device):
    seen = checks_of(device, STAGED.format(before="", stage=RIGHT, more=""))
    assert seen["without kernels"]["verdict"] == "passed"
    assert seen["without kernels"]["said"] == "1 launch left out, 6,144 of 6,144 elements stay unwritten"
    assert seen["clocks"]["verdict"] == "passed" and "timed results were compared" in seen["timed results"]["said"]
    assert seen["kernels"]["verdict"] == "not looked at"  # the rules' test on a CPU: nothing ran on a GPU


def test_kernels_that_have_no_part_in_the_result_are_seen(device):
    seen = checks_of(device, STAGED.format(before="", stage=RIGHT, more=f"y.copy_({RIGHT})"))
    assert seen["without kernels"]["verdict"] == "gaming"


def test_a_program_that_replaces_a_clock_is_seen(device):
    before = "torch.cuda.Event.elapsed_time = lambda self, other: 0.001"
    seen = checks_of(device, STAGED.format(before=before, stage=RIGHT, more=""))
    assert seen["clocks"]["verdict"] == "gaming" and "torch.cuda.Event.elapsed_time" in seen["clocks"]["said"]


def test_a_lost_worker_costs_one_trial(device):
    opened(device)
    lost = failure(device, generated(RIGHT, "os._exit(3)"))
    assert lost.code == "worker_lost" and "exit status 3" in lost.reason
    assert device.validate(candidate(PROGRAM, generated(RIGHT))).error < 1e-6


def test_a_hang_is_ended_by_the_clock(device, monkeypatch):
    monkeypatch.setattr(gpu_rounds, "CHECK_SECONDS", 1.0)
    opened(device)
    e = failure(device, generated(RIGHT, "time.sleep(60)"))
    assert e.code == "timeout" and "within 1 s" in e.reason


def test_a_program_that_stops_working_once_it_is_timed_is_caught(device):
    opened(device)
    baseline = next(iter(device.baselines(["tf32"])))
    lazy = generated("y if sum(calls) > 20 else " + RIGHT)  # validation and warm-up take 14 calls
    mine = candidate(PROGRAM, lazy)
    device.validate(mine)
    with pytest.raises(TrialError) as e:
        device.measure(mine, baseline)
    assert e.value.code == "timed_differs"


def test_stream_k_may_add_in_any_order():
    text = PROGRAM.replace("epilogue", "scheduler stream_k\n    epilogue")
    assert gpu_rounds.repeatable(candidate(PROGRAM, "")) and not gpu_rounds.repeatable(candidate(text, ""))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"), ("NVIDIA B200", "b200"), ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA GeForce RTX 5090", "rtx5090"),
    ],
)  # fmt: skip
def test_the_gpus_name_finds_its_figures(name, file):
    assert gpu_names.hardware_of(name) == file


def test_other_gpus_are_refused_by_name(monkeypatch):
    with pytest.raises(SessionRefused, match="Tesla T4"):
        gpu_names.hardware_of("Tesla T4")
    monkeypatch.setattr(gpus.gpu_condition, "read", lambda uuid=None: {"name": "NVIDIA A100-SXM4-80GB", "driver": "1"})
    with pytest.raises(SessionRefused, match="compiled for Hopper"):
        cuda.Cuda()


def test_a_baseline_that_could_not_be_opened_leaves_none_open(device):
    opened(device)
    mine = candidate(PROGRAM, generated(RIGHT))
    (eager, _) = device.baselines(["tf32"])
    with pytest.raises(TrialError):
        device.baseline("eager_f64")
    assert device.measure(mine, eager).baseline == "eager"  # opened again, not taken for open


def test_quick_times_are_of_what_is_built_and_runs(device):
    opened(device)
    eager = next(iter(device.baselines(["tf32"])))
    candidates = [candidate(PROGRAM, generated(RIGHT)), candidate(PROGRAM, generated(RIGHT, "raise ValueError('no')"))]
    first, second = device.quick(candidates, eager)
    assert first > 0 and second is None
    assert device.quick(candidates[:1], eager)[0] > 0  # what failed has left nothing behind


# ---- PyTorch's own times, and several programs in one run ----


def of_module(device, cls="tf32"):
    """A right candidate of MODULE, which is open."""
    graph = trace(MODULE, local_user=True).graph
    device.open(Problem(MODULE, "module", graph, 3), lambda: False)
    names = [*graph.inputs, *(t.name for t in graph.tensors.values() if t.kind == "parameter")]
    at = [(64, 128), (96, 128), (96,)]
    order = sorted(((n, graph.tensors[n].shape) for n in names), key=lambda pair: at.index(pair[1]))
    inputs = tuple(Binding(p, n, s) for p, (n, s) in zip("xwb", order, strict=True))
    return candidate(MODULE_PROGRAM, generated(MODULE_RIGHT), inputs, (Binding("y", graph.outputs[0], (64, 96)),))


def test_every_baseline_is_alternated_with_that_of_the_first_class(device):
    mine = of_module(device)
    baselines = {b.name: b for b in device.baselines(["tf32", "f16"])}
    assert {n: (b.cls, b.beside) for n, b in baselines.items()} == {
        "eager": ("f32", "eager_tf32"), "eager_tf32": ("tf32", ""), "eager_f16": ("f16", "eager_tf32"),
    }  # fmt: skip
    assert baselines["eager_tf32"].ratio is None
    assert all(0 < b.ratio_low <= b.ratio <= b.ratio_high for n, b in baselines.items() if n != "eager_tf32")
    assert all(len(b.time.sample) == 15 for b in baselines.values())
    measured = device.measure(mine, baselines["eager_f16"])
    assert measured.baseline == "eager_f16" and measured.ratio > 0


def test_a_slow_baseline_is_sampled_and_alternated_a_few_times_only(device, monkeypatch):
    monkeypatch.setattr(paired_timing, "SLOW_MS", 0.0)
    of_module(device)
    timing, samples = device.workbench.programs.timing, []
    sample = timing.baseline_sample
    monkeypatch.setattr(timing, "baseline_sample", lambda beside=False: samples.append(beside) or sample(beside))
    monkeypatch.setattr("engine.evaluate.timing.steadiness.LONG", 0.0)  # a busy machine disturbs it
    assert timing.baseline("eager", "eager_tf32").ratio > 0
    assert samples.count(True) == paired_timing.WARM_UP + paired_timing.SLOW_PAIRS
    assert samples.count(False) == paired_timing.WARM_UP + paired_timing.SLOW_SAMPLES


def test_a_program_is_timed_beside_a_slow_baseline_as_few_times(device, monkeypatch):
    monkeypatch.setattr(paired_timing, "SLOW_MS", 0.0)
    monkeypatch.setattr(paired_timing, "WIDE", 1e9)
    monkeypatch.setattr("engine.evaluate.timing.steadiness.LONG", 0.0)
    mine = of_module(device)
    baseline = device.baseline("eager_tf32")
    device.validate(mine)
    assert len(device.measure(mine, baseline).time.sample) == paired_timing.SLOW_SAMPLES


def test_programs_are_compared_in_turns_in_one_run(device):
    mine = of_module(device)
    slow = replace(
        mine,
        trial=2,
        sources={"cute": Source("cute", "python", *2 * [generated(MODULE_RIGHT, "time.sleep(0.02)")], "n", ())},
    )
    for one in (mine, slow):
        device.validate(one)
    base = device.baseline("eager_tf32")
    first, second = device.compare([mine, slow], base)
    assert (first.trial, second.trial) == (1, 2) and first.baseline == second.baseline == "eager_tf32"
    assert len(first.time.sample) == len(second.time.sample) == 15
    # The quickest calls are compared, because a busy machine delays some of the others.
    assert min(second.time.sample) > min(first.time.sample) + 10
    assert device.measure(mine, base).time.ms > 0  # what was compared has left nothing behind


def test_a_program_that_fails_while_it_is_compared_costs_the_comparison_alone(device):
    mine = of_module(device)
    bad = replace(
        mine,
        sources={"cute": Source("cute", "python", *2 * [generated(MODULE_RIGHT, "raise ValueError('no')")], "n", ())},
    )
    base = device.baseline("eager_tf32")
    with pytest.raises(TrialError, match="no"):
        device.compare([mine, bad], base)
    assert device.measure(mine, base).ratio > 0


def test_a_form_that_the_machine_does_not_run_ends_the_trial_with_a_reason(device):
    opened(device)
    with pytest.raises(TrialError) as e:
        device.validate(SimpleNamespace(form="assembly", trial=1))
    assert (e.value.step, e.value.code) == ("check", "no_form")
    assert e.value.reason == "cuda runs no candidates of the form assembly; write a program of the language"


def test_nothing_is_open_before_it_is_opened(device):
    with pytest.raises(RuntimeError, match="no problem is open"):
        device.build(candidate(PROGRAM, generated(RIGHT)))


def test_while_a_session_compiles_beside_the_lane_another_one_cannot_ask_its_processes(device, monkeypatch):
    import threading

    device.open(Problem(MODULE, "module", trace(MODULE, local_user=True).graph, 3), lambda: False)
    begun, go_on, asked = threading.Event(), threading.Event(), []

    def compiles(name, seconds):
        asked.append((name, seconds))
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(device.workbench.programs.timing, "compile", compiles)
    monkeypatch.setattr(device.workbench, "trim", lambda hard: asked.append("trim"))
    thread = threading.Thread(target=device.compile, args=("compile_tf32", 90.0))
    thread.start()
    assert begun.wait(60)
    device.trim(hard=True)  # at once
    assert asked == [("compile_tf32", 90.0)]
    go_on.set()
    thread.join()
    device.trim(hard=True)
    assert asked[1:] == ["trim"]
    assert device.compile_names(["tf32"], ("compile", "compile_tf32")) == ["compile", "compile_tf32"]
    assert device.compile_names(["tf32"]) == ["compile_tf32", "compile_max_tf32"]
