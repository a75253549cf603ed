"""Whole sessions on a GPU that is not here: real sandbox, real reference, real generation; only times predicted."""

import dataclasses

import pytest

pytest.importorskip("torch")

from engine import jsonprocess
from engine.devices import Problem, TrialError, modelled
from engine.evaluate.correctness.oracle_rounds import Oracle
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session.runner import SessionSpec, run

LINEAR = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 192)
    def forward(self, x):
        return F.leaky_relu(self.linear(x) * 2, 0.1)
def get_inputs(): return [torch.randn(64, 128)]
def get_init_inputs(): return []
"""
PARTLY = LINEAR.replace("self.linear(x) * 2", "torch.logcumsumexp(self.linear(x), 0)")
UNCOVERED = LINEAR.replace("F.leaky_relu(self.linear(x) * 2, 0.1)", "torch.logcumsumexp(x, 0)")
MLP = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
def get_inputs(): return [torch.randn(4, 32, 64)]
"""
BMM = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)
def get_inputs(): return [torch.randn(4, 64, 32, dtype=torch.bfloat16), torch.randn(4, 32, 64, dtype=torch.bfloat16)]
"""


@pytest.fixture(autouse=True)
def no_compilers(monkeypatch):
    """Builds have tests of their own; here they would take most of the time."""
    monkeypatch.setattr(modelled.offline, "warm", lambda: None)
    monkeypatch.setattr(
        modelled.offline,
        "build",
        lambda c, cancelled: events.TrialCompiled(c.trial, c.backend, "not compiled", 0.0, note="left out by a test"),
    )


def test_compilers_are_imported_while_the_module_is_traced(monkeypatch):
    begun = []
    monkeypatch.setattr(modelled.offline, "warm", lambda: begun.append("compilers"))
    monkeypatch.setattr(modelled.module_process, "warm", lambda **k: None)
    device = modelled.Modelled("h200")
    monkeypatch.setattr(device.oracle, "start", lambda: None)
    device.warm()
    device.warm("program")
    assert begun == ["compilers"] * 2


def play(source, history=(), blobs=None, **changes):
    spec = SessionSpec(source=source, device="modelled:h200", trials=2, **changes)
    emitted = list(run(spec, history=history, read_blob=(blobs or {}).__getitem__))
    return [e.event for e in emitted], {k: v for e in emitted for k, v in e.blobs.items()}


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


@pytest.mark.parametrize(
    "source, classes, stands_in",
    [(LINEAR, ("tf32", "f16"), {"tf32", "f16"}), (MLP, ("f16",), {"f16"}), (BMM, ("tf32",), {"bf16"})],
)
def test_a_module_goes_through_whole_trials_with_right_results(source, classes, stands_in):
    log, _ = play(source, classes=classes)
    assert log[-1].state == "done", log[-1].reason
    assert not of(log, events.TrialFailed)
    validated = of(log, events.TrialValidated)
    assert {c["family"] for c in validated[0].checks} == {"own", "large", "closed_form"}
    assert all(0 <= v.error <= v.tolerance for v in validated)
    assert all("all rows" in v.scope and "on the CPU" in v.scope for v in validated)
    times = [e.time for e in [*of(log, events.Baseline), *of(log, events.TrialMeasured)]]
    assert all(isinstance(t, events.Prediction) for t in times)
    assert {e.cls for e in of(log, events.TrialJudged)} == stands_in == set(log[-1].best)


@pytest.mark.parametrize("source", [MLP, PARTLY])
def test_fp8_is_right_by_what_its_rounding_costs_and_stands_beside_pytorchs_f16(source):
    log, _ = play(source, classes=("fp8",))
    faster = any(e.ratio > 1 for e in of(log, events.TrialMeasured))
    assert log[-1].state == "done" and list(log[-1].best) == (["fp8"] if faster else []), log[-1].reason
    for v in of(log, events.TrialValidated):
        assert all(c["error"] <= max(2e-6, 2 * c["pytorch_error"]) for c in v.checks)  # by the same rounding
        assert 0.005 < v.error <= v.tolerance < 0.2
    assert {e.name for e in of(log, events.Baseline)} == {"eager", "eager_f16"}
    assert {(e.baseline, e.cls) for e in of(log, events.TrialJudged)} == {("eager_f16", "fp8")}
    assert of(log, events.Reported)[0].bounds["fp8"] > 0


def test_an_exact_family_is_exact_where_the_epilogue_is():
    log, _ = play(BMM)
    exact = next(c for c in of(log, events.TrialValidated)[0].checks if c["family"] == "closed_form")
    assert exact["error"] == 0.0


def test_a_session_lost_in_the_middle_of_a_trial_goes_on_to_the_same_end():
    whole, blobs = play(LINEAR, classes=("f16",))
    for kind in (events.Baseline, events.TrialCompiled, events.TrialValidated):
        cut = next(i for i, e in enumerate(whole) if isinstance(e, kind)) + 1
        history = [(i + 1, e) for i, e in enumerate(whole[:cut])]
        rest, _ = play(LINEAR, history, blobs, classes=("f16",))
        assert strip(whole[:cut] + rest) == strip(whole), kind


def strip(log):
    """The log without seconds, and without the word that a meaning was checked before: the new engine checks again."""
    rest = [e for e in log if not isinstance(e, events.Resumed)]
    rest = [dataclasses.replace(e, scope="") if isinstance(e, events.TrialValidated) else e for e in rest]
    rest = [dataclasses.replace(e, spent={}) if isinstance(e, events.SessionEnded) else e for e in rest]
    return [dataclasses.replace(e, seconds=0.0) if hasattr(e, "seconds") else e for e in rest]


@pytest.mark.parametrize(
    "source, code, words",
    [
        ("def f(:\n  pass", "syntax_error", "line 1"),
        ("x = 1", "no_model", "class Model"),
    ],
)
def test_what_cannot_be_worked_on_is_refused_in_one_sentence(source, code, words):
    log, _ = play(source)
    assert log[-1].state == "refused" and log[-1].code == code
    assert words.lower() in log[-1].reason.lower()


def test_a_module_without_a_program_gets_its_report_and_pytorchs_times_and_stays_pytorch():
    log, _ = play(UNCOVERED)
    (note,), (covered,) = of(log, events.Noted), of(log, events.Covered)
    assert of(log, events.Reported) and log[-1].state == "done" and not of(log, events.TrialProposed)
    assert note.code == "no_program" and "`aten.logcumsumexp` (line 8)" in note.text
    assert (
        covered.regions == []
        and [u["op"] for u in covered.uncovered] == ["logcumsumexp"]
        and covered.share["time"] == 1
    )
    assert {e.name for e in of(log, events.Baseline)} >= {"eager_tf32", "eager_f16"}
    assert "PyTorch stays: PyTorch eager (" in log[-1].reason and log[-1].best == {}


def test_a_recurrent_module_that_no_cluster_holds_stays_pytorch():
    recurrent = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(32, 2048)

    def forward(self, x):
        return self.cell(x)

def get_inputs():
    return [torch.randn(8, 4, 32)]
"""
    log, _ = play(recurrent, classes=("tf32",))
    assert (
        log[-1].state == "done"
        and "has 2,048 hidden units, and no cluster of 16 blocks holds their weights" in log[-1].reason
    )


# ---- a module that is not one program ----


def test_around_an_uncovered_operation_regions_are_optimised_and_the_whole_is_verified():
    log, _ = play(PARTLY, classes=("tf32",))
    (covered,) = of(log, events.Covered)
    assert [r["ops"] for r in covered.regions] == [["linear"], ["leaky_relu"]]
    assert [(u["op"], u["line"]) for u in covered.uncovered] == [("logcumsumexp", 8)] and 0 < covered.share["bytes"] < 1
    assert "1 operation stays PyTorch: logcumsumexp (line 8)" in covered.text and covered.text in log[-1].reason
    first, second = of(log, events.TrialMeasured)
    assert {first.part["region"], second.part["region"]} == {1, 2}
    assert first.part["region_ms"] < first.time.ms and first.part["programs"] == 1
    for checked in of(log, events.TrialValidated):
        assert checked.error < 2e-3 and "against the module in float64" in checked.scope


def test_a_wrong_program_in_a_region_makes_the_module_wrong():
    mine = (
        "program mine(x: f32[64, 128], linear_weight: f32[192, 128], linear_bias: f32[192]) -> f32[64, 192] {\n"
        "  y = gemm(x, linear_weight.T) { epilogue acc - linear_bias[n] }\n  return y\n}\n"
    )
    tried = iter([[("try", {"program": mine})]])
    spec = SessionSpec(source=PARTLY, device="modelled:h200", trials=1, classes=("tf32",))
    log = [e.event for e in run(spec, control=lambda: next(tried, []))]
    (failed,) = of(log, events.TrialFailed)
    assert (failed.step, failed.code) == ("validate", "wrong_result") and log[-1].state == "done"


# ---- a wrong program is found out ----


@pytest.fixture(scope="module")
def problem():
    from engine.trace import trace

    return Problem(LINEAR, "module", trace(LINEAR).graph)


@pytest.fixture
def device(problem):
    device = Evaluator(modelled.Modelled("h200"))
    device.open(problem, lambda: False)
    yield device
    device.close()


def candidate(problem, text_of=lambda text: text, trial=1):
    from dsl.check.program import check
    from dsl.compile import compile as generate
    from engine.devices import Candidate
    from engine.strategies.api import State
    from sol.hardware import load
    from tests.engine.planning import planned

    planner = planned(problem, ("f16",), load("h200"), "predicted")
    text = text_of(planner.next(State()).text)
    output = generate(check(text).program)
    return Candidate(trial, output.resolved, output.text, "f16", "cute", output.sources, *planner.problem.bind(text))


WRONG = {
    "scale": lambda t: t.replace("* 2.0", "* 1.98"),
    "sign": lambda t: t.replace("acc + linear_bias[n]", "acc - linear_bias[n]"),
    "function": lambda t: t.replace("leaky_relu(", "clamp(").replace(", 0.1)", ", -6.0, 6.0)"),
}


def test_a_program_that_means_something_else_fails_with_its_error(device, problem):
    assert device.validate(candidate(problem)).error < 2e-3
    for trial, (name, wrong) in enumerate(WRONG.items(), 2):
        with pytest.raises(TrialError, match="relative error") as caught:
            device.validate(candidate(problem, wrong, trial))
        assert caught.value.code == "wrong_result", name


def test_the_same_meaning_is_validated_once_and_says_so(device, problem):
    first = device.validate(candidate(problem))
    again = device.validate(candidate(problem, lambda t: t.replace("compute f16", "compute f16\n tile 64x64x64"), 2))
    assert again.scope.startswith("same meaning as trial 1") and again.checks == first.checks


def test_a_lost_worker_costs_its_trial_and_the_next_one_gets_another(device, problem):
    oracle = device.machine.oracle
    request = oracle._process.request

    def die(*args, **keywords):
        oracle._process._process.kill()
        return request(*args, **keywords)

    oracle._process.request = die
    with pytest.raises(TrialError) as caught:
        device.validate(candidate(problem))
    assert caught.value.code == "oracle_died"
    assert device.validate(candidate(problem, trial=2)).error < 2e-3


def test_a_lost_module_process_is_replaced(device, problem):
    device.workbench.programs.rounds.reference.close()
    assert device.validate(candidate(problem)).error < 2e-3


def test_closing_ends_the_modules_process_and_keeps_our_own_for_the_next_session(device):
    worker, reference = device.machine.oracle._process, device.workbench.programs.rounds.reference
    assert isinstance(worker, jsonprocess.JsonProcess) and worker.alive and reference._box.alive
    device.close()
    assert worker.alive and reference._box is None
    assert Oracle.borrow()._process is worker


def test_a_borrowed_process_knows_nothing_of_the_session_before():
    """Two modules with one graph and different parameters: results kept of the first would give its errors again."""
    other = LINEAR.replace("super().__init__()", "super().__init__(); torch.manual_seed(7)")  # the lines stay
    errors = []
    for source in (LINEAR, other):
        log, _ = play(source, classes=("f16",))
        errors.append([v.error for v in of(log, events.TrialValidated)])
    assert errors[0] and errors[0] != errors[1]
