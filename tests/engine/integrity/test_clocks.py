"""A candidate is timed by a clock outside of its process, and its time is held against the hardware's limit."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.integrity import clocks, measuring
from engine.evaluate.integrity.command import judged, report_text
from engine.evaluate.integrity.findings import CHEAT, WRONG
from engine.evaluate.integrity.measuring import measure
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.verify import Verifier
from engine.evaluate.timing import gpu_condition
from engine.evaluate.timing.outside import sides
from engine.session import events, trial
from sol.bounds import t_sol
from sol.hardware import load
from tests.engine.graphs import linear
from tests.engine.integrity import zoo

WORK_MS = 4.0
# A kernel that takes 4 ms, whatever its process says.
WORK = """\
import gc
import time
import torch
from engine.evaluate.timing.outside import runner

NOW = time.perf_counter


def work(x):
    end = NOW() + 0.004
    while NOW() < end:
        pass
    return torch.softmax(x, -1)


def kernel(x):
    return work(x)


"""


def test_the_limit_is_the_least_of_the_ways_into_a_class():
    graph, h200 = linear(rows=4096, k=4096, n=4096), load("h200")
    tf32, f16, f32 = (t_sol(graph, h200, c) for c in ("tf32", "f16", "f32"))
    assert clocks.limit_ms(graph, "NVIDIA H200", "tf32") == f16 < tf32
    assert clocks.limit_ms(graph, "NVIDIA H200", "f32") == pytest.approx(min(f32, 3 * tf32)) and f32 > 3 * tf32
    assert clocks.limit_ms(graph, "NVIDIA H200", "f16") == f16
    assert clocks.limit_ms(graph, "Some new GPU", "f16") is None and clocks.limit_ms(graph, "", "f16") is None


def test_less_than_the_hardware_needs_is_named():
    assert clocks.findings(0.095, 0.1, "f32") == [] == clocks.findings(0.001, None, "f32")
    (finding,) = clocks.findings(0.03, 0.1, "f32")
    assert finding.code == "too_fast" and "0.03 ms is below 90% of the limit of 0.1 ms" in finding.evidence
    assert finding.severity == CHEAT


# ---- real processes, on the CPU: calls instead of graphs ----


@pytest.fixture(scope="module")
def verifier():
    with Verifier(zoo.module("softmax"), "cpu", local_user=True) as process:
        process.examiner.reference.host_clock = True  # PyTorch's side is timed on a GPU only
        process.examiner.reference.close()
        yield process


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Few batches: what is tested is not how exact a median is."""
    for name, value in {"PILOTS": 1, "PARTS": 2, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "steady", lambda take, samples: (take(), {}))


def timed(verifier, lie=""):
    return measure(verifier.examiner, WORK + lie, "python", "f32")


def refused(one):
    return {f.code for f in one.findings if f.severity in (CHEAT, WRONG)}


def test_an_honest_kernel_takes_what_it_takes(verifier):
    one = timed(verifier)
    assert one.ms >= 0.95 * WORK_MS and min(one.sample) >= 0.9 * WORK_MS and not refused(one)
    assert one.looked_at == 4 and one.mode == "calls" and one.calls >= 2
    assert "call_times" in {f.code for f in one.findings}, "without a graph it is a time of calls, and says so"
    assert one.baseline_cls == "f32" and one.ratio < 1


def test_the_parts_of_a_run_have_as_many_batches_and_each_is_prepared_anew(verifier, monkeypatch):
    opens, real = [], sides.Sides.open
    monkeypatch.setattr(sides.Sides, "open", lambda self, *a: opens.append(a) or real(self, *a))
    one = timed(verifier)
    assert len(one.sample) == measuring.PARTS * measuring.LEAST and opens[-1] == (*opens[-2][:2], "calls")


@pytest.mark.parametrize(
    "lie",
    [
        "for name in ('perf_counter', 'monotonic', 'time'):\n    setattr(time, name, lambda: 0.0)\n",
        "runner.Runner._sync = lambda self: None\n",
        "runner.Page.wait = lambda self, word, value, seconds: True\n",  # it begins before the judge says go
    ],
    ids=["patched clocks", "no synchronisation", "no waiting"],
)
def test_what_a_process_replaces_changes_no_time(verifier, lie):
    one = timed(verifier, lie)
    assert one.ms >= 0.9 * WORK_MS or refused(one)


def test_work_that_is_left_out_is_seen_in_the_results_of_calls_chosen_afterwards(verifier):
    lie = """
real = runner.Runner.open
def opened(self, call, calls, mode="graph"):
    said = real(self, call, calls, mode)
    self._run = lambda: None
    return said
runner.Runner.open = opened
"""
    try:
        assert "unwritten" in refused(timed(verifier, lie))
    except CandidateEnded as e:
        assert e.code == "clock", "or its batches take no time at all"


def test_a_store_of_results_by_content_finds_nothing(verifier):
    lie = """
SEEN = {}
def kernel(x):
    key = float(x.sum()), float(x[0, 0])
    if key not in SEEN:
        SEEN[key] = work(x)
    return SEEN[key]
"""
    one = timed(verifier, lie)
    assert one.ms >= 0.9 * WORK_MS and not refused(one)


def test_results_of_another_batch_are_wrong_in_this_one(verifier):
    lie = """
SEEN = {}
def kernel(x):
    if x.data_ptr() not in SEEN:
        SEEN[x.data_ptr()] = work(x)
    return SEEN[x.data_ptr()]
"""
    try:
        findings = refused(timed(verifier, lie))
    except CandidateEnded as ended:  # of a batch as short as this one, nothing may be left beside an empty one
        assert ended.code == "clock"
    else:
        assert findings & {"wrong_result", "replayed", "constant"}


def test_a_process_that_ends_while_it_is_timed_has_no_time(verifier):
    lie = """
import os
CALLS = [0]
def kernel(x):
    CALLS[0] += 1
    if CALLS[0] > 9:
        os._exit(3)
    return work(x)
"""
    with pytest.raises(CandidateEnded) as ended:
        timed(verifier, lie)
    assert ended.value.code in ("crashed", "sandbox")


# ---- programs and words ----

PROGRAM = """program p(x: f32[4096, 4096], w: f32[4096, 4096]) -> f32[4096, 4096] {
  y = gemm(x, w.T) { compute tf32 }
  return y
}
"""


def test_a_program_below_its_limit_is_not_accepted():
    graph, h200 = linear(rows=4096, k=4096, n=4096, bias=False), load("h200")
    limit = t_sol(graph, h200, "tf32")
    for share, verdict in ((0.5, "gaming"), (1.2, "passed")):
        m = events.TrialMeasured(1, events.Prediction(share * limit, "m", "h200"), "eager_tf32", 1.0, 1.0)
        evidence = judged(m, trial.checked(PROGRAM), "tf32", graph, h200)
        assert [c["verdict"] for c in evidence] == ["passed", verdict]


def test_a_person_reads_what_was_measured_and_what_is_not_counted():
    row = {"ms": 0.04, "baseline": "eager", "baseline_ms": 4.1, "ratio": 102.5, "mode": "graph"}
    assert "0.04 ms measured; eager 4.1 ms; ratio 102.500" in report_text({"verdict": "clean", "timed": [row]}, "my.py")
    text = report_text({"verdict": "clean", "timed": [{**row, "mode": "calls"}]}, "my.py")
    assert "0.04 ms a call from Python" in text and "ratio of call times 102.500" in text
    text = report_text({"verdict": "gaming", "timed": [], "claims": [row]}, "my.py")
    assert "not counted: 0.04 ms beside eager" in text and "ratio" not in text
