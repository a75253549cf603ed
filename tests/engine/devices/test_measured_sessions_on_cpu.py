"""Whole sessions and benches on the measuring machine, played on a CPU: the module's process times PyTorch, the worker
runs programs' meanings in the place of kernels, and every step of a trial is the real one."""

import pytest

pytest.importorskip("torch")

from engine.bench.run import runner
from engine.bench.run.request import Request
from engine.bench.studies import sweep
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session.runner import run
from engine.session.spec import SessionSpec
from tests.engine.devices.on_cpu import compile_meanings, cuda_on_cpu

MODULE = """
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
IN_REGIONS = MODULE.replace("self.linear(x) * 2", "torch.logcumsumexp(self.linear(x), 0)")


@pytest.fixture
def evaluator(tmp_path, monkeypatch):
    compile_meanings(monkeypatch, "engine.session.trial", "engine.bench.run.ahead", "engine.bench.studies.sweep")
    device = Evaluator(cuda_on_cpu(tmp_path, monkeypatch))
    yield device
    device.close()
    device.machine.shutdown()


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


def play(evaluator, source=MODULE, **fields):
    spec = SessionSpec(source=source, **{"classes": ("tf32", "f16"), "trials": 4, "eps": 0.0} | fields)
    return [e.event for e in run(spec, device=evaluator, local_user=True, teaches=False, memory="")]


def test_a_session_of_the_planner_measures_screens_and_examines(evaluator):
    log = play(evaluator)
    assert log[-1].state == "done", log[-1].reason
    assert {b.name for b in of(log, events.Baseline)} == {"eager", "eager_tf32", "eager_f16"}
    assert not of(log, events.TrialFailed) and len(of(log, events.TrialJudged)) == 4
    for measured in of(log, events.TrialMeasured):
        assert isinstance(measured.time, events.Measurement) and measured.ratio_low <= measured.ratio
        assert {c["name"]: c["verdict"] for c in measured.checks}["without kernels"] == "passed"
    assert any(ms is not None for e in of(log, events.Screened) for ms in e.quick.values())
    guarded = [e for e in of(log, events.TrialValidated) if any("tripped" in c for c in e.checks)]
    for e in guarded:  # what trips a guard is among the rounds, and what is said of it is the program's own word
        assert {c["family"]: c["tripped"] for c in e.checks if c["family"] in ("own", "huge")} == {
            "own": False, "huge": True,
        }  # fmt: skip


def test_a_session_in_regions_times_the_module_as_a_whole(evaluator):
    log = play(evaluator, IN_REGIONS, classes=("tf32",), trials=3)
    assert log[-1].state == "done" and of(log, events.Covered), log[-1].reason
    parts = [m.part for m in of(log, events.TrialMeasured)]
    assert {p["region"] for p in parts} == {1, 2} and all(p["region_eager_ms"] > 0 for p in parts)
    for m in of(log, events.TrialMeasured):
        assert {c["name"]: c["verdict"] for c in m.checks}["without kernels"] == "passed"


def test_a_sweep_runs_through_the_same_evaluator(evaluator):
    log = play(evaluator, strategy="sweep", classes=("f16",), trials=2)
    assert log[-1].state == "done" and len(of(log, events.TrialJudged)) == 2, log[-1].reason


def test_a_bench_of_two_problems_has_speedups_by_alternation_over_every_way(evaluator, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(MODULE)
    asked = Request({"one": "L1/1", "two": "L1/2"}, {"device": "cuda", "trials": 2}, folder=tmp_path)
    progress = []
    results = runner.run(asked, [evaluator], tmp_path / "b.json", progress.append)
    assert results.about["kind"] == "measured" and results.about["gpu"] == "NVIDIA H200"
    for row in results.problems.values():
        assert row["session"]["state"] == "done" and row["beside"] == "eager_tf32"
        assert all("ratio" in b for b in row["baselines"].values())
        assert all(t["ok"] and t["ratio_low"] > 0 and t["families"].keys() >= {"own", "tiny"} for t in row["trials"])
    assert evaluator.machine.pool.asked, "nothing was built ahead"
    from engine.bench.report.table import table

    text = table(results.problems, ("tf32", "f16"))
    assert "2 of 2 problems have a right program" in text and "autocast f16" in text


def test_a_product_is_swept_through_the_same_evaluator(evaluator):
    swept = sweep._swept("small", 64, 64, 128)
    configs = list(sweep.configurations(swept, 3))
    torch_ms, rows = sweep.of_product(swept, configs, evaluator)
    assert torch_ms > 0 and [r["config"] for r in rows] == [c for c, _ in configs]
    assert all(r["low"] <= r["ms"] <= r["high"] and r["error"] < 1e-3 for r in rows)


SHRINKING = MODULE.replace(
    "self.linear = nn.Linear(128, 192)", "self.a, self.b = nn.Linear(128, 192), nn.Linear(192, 64, bias=False)"
).replace("F.leaky_relu(self.linear(x) * 2, 0.1)", "self.b(torch.relu(self.a(x) * 1e-6))")


@pytest.mark.parametrize(
    "source", [SHRINKING, SHRINKING.replace("self.b(", "torch.logcumsumexp(x, 0).sum() + self.b(")]
)
def test_a_program_whose_guard_trips_on_small_results_is_tried_again_in_range(evaluator, source):
    log = play(evaluator, source, classes=("tf32",), trials=10)
    assert log[-1].state == "done" and not of(log, events.TrialFailed), log[-1].reason
    guards = {m.trial: c for m in of(log, events.TrialMeasured) for c in m.checks if c["name"] == "guard"}
    first, *others = sorted(guards)
    assert "tripped" in guards[first]["said"] and min(most for _, most in guards[first]["ranges"].values()) < 1e-4
    proposed = {p.trial: p for p in of(log, events.TrialProposed)}
    assert "into f16's range" in proposed[others[0]].change
    assert guards[others[0]]["verdict"] == "passed", guards[others[0]]["said"]
