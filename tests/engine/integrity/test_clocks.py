"""The time that a candidate's process reports is held against the hardware's limit and the engine's own clock."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.integrity import clocks
from engine.evaluate.integrity.clocks import Claim
from engine.evaluate.integrity.command import judged, report_text
from engine.evaluate.integrity.measuring import measure
from engine.evaluate.integrity.verify import Verifier
from engine.evaluate.reference.module_process import Sample
from engine.evaluate.timing import gpu_condition
from engine.session import events, trial
from sol.bounds import t_sol
from sol.hardware import load
from tests.engine.graphs import linear
from tests.engine.integrity import zoo

HONEST = Claim(ms=0.30, call_ms=0.33, request_ms=1.9, wall_ms=0.28, calls=120, cls="f32", limit_ms=0.1)
# A kernel that takes 4 ms. Its process replaces the harness's timer and claims a hundredth of that.
WORK = """\
import time
import torch
from engine.evaluate.integrity.process import candidate_main


class Forged:
    def sample(self, call):
        call()
        return {ms}

    def call_time(self, call):
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1e3 {lie}


def kernel(x):
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass
    return torch.softmax(x, -1)

{how}
"""
REPLACED = """
def do_time_open(self):
    self.timer, self.turn, self.burst = Forged(), 0, []
    return {"sets": len(self.sets)}


candidate_main.Held.do_time_open = do_time_open
candidate_main.Held.do_kernels = lambda self: {"kernels": []}
"""
LIE_OF_DEVICE, LIE_OF_BOTH = "", "* 0.01"


def changed(**values):
    return Claim(**{**vars(HONEST), **values})


def codes(claim):
    return [f.code for f in clocks.findings(claim)]


@pytest.mark.parametrize(
    "claim",
    [
        HONEST,
        changed(limit_ms=0.32),  # within a tenth of the limit
        changed(ms=0.34, call_ms=0.33),  # two clocks of one process
        changed(limit_ms=None),
        changed(wall_ms=0.5),  # a host that is busy for a moment
    ],
)
def test_what_can_be_true_is_not_held_against_a_candidate(claim):
    assert codes(claim) == [] and claim.confirmed


@pytest.mark.parametrize(
    ("claim", "code", "says"),
    [
        (changed(ms=0.03, wall_ms=0.05), "too_fast", "0.03 ms is below 90% of the limit of 0.1 ms"),
        (changed(ms=0.5), "clock", "0.5 ms of device time claimed in a call of 0.33 ms"),
        (changed(call_ms=2.0), "clock", "2 ms a call claimed, 1.9 ms by the engine's clock"),
        (changed(ms=0.1, call_ms=0.1, wall_ms=0.4), "clock", "0.1 ms a call claimed, 0.4 ms by the engine's clock"),
        (changed(ms=0.1, call_ms=0.5, wall_ms=0.4), "unconfirmed", "0.1 ms claimed; a call takes 0.4 ms"),
    ],
)
def test_what_cannot_be_true_is_named(claim, code, says):
    (finding,) = clocks.findings(claim)
    assert finding.code == code and says in finding.evidence
    assert finding.severity == ("note" if code == "unconfirmed" else "cheat")


def test_the_limit_is_the_least_of_the_ways_into_a_class():
    graph, h200 = linear(rows=4096, k=4096, n=4096), load("h200")
    tf32, f16, f32 = (t_sol(graph, h200, c) for c in ("tf32", "f16", "f32"))
    assert clocks.limit_ms(graph, "NVIDIA H200", "tf32") == f16 < tf32
    assert clocks.limit_ms(graph, "NVIDIA H200", "f32") == pytest.approx(min(f32, 3 * tf32)) and f32 > 3 * tf32
    assert clocks.limit_ms(graph, "NVIDIA H200", "f16") == f16
    assert clocks.limit_ms(graph, "Some new GPU", "f16") is None and clocks.limit_ms(graph, "", "f16") is None


# ---- a real process that lies ----


@pytest.fixture(scope="module")
def verifier():
    with Verifier(zoo.module("softmax"), "cpu", local_user=True) as process:
        # PyTorch's side is timed on a GPU only; the candidate's process is the real one.
        process.examiner.reference.baseline_open = lambda name, seed: ("f32", "")
        process.examiner.reference.baseline_sample = lambda: Sample(4.1, 4.1)
        yield process


def timed(verifier, ms, lie, how=REPLACED):
    text = WORK.replace("{ms}", ms).replace("{lie}", lie).replace("{how}", how)
    return measure(verifier.examiner, text, "python", "f32")


def test_replaced_clocks_are_named_though_the_text_was_never_read(verifier):
    one = timed(verifier, "0.04", LIE_OF_DEVICE)
    patched = [f.evidence for f in one.findings if f.code == "patched"]
    assert any("Held.do_time_open" in name and name.endswith("while it was timed") for name in patched)
    assert any("Held.do_kernels" in name for name in patched)


def test_a_device_time_that_the_engine_cannot_confirm_is_no_speedup(verifier):
    """The claim alone would be a hundred times as fast as PyTorch; calls take what PyTorch's take."""
    one = timed(verifier, "0.04", LIE_OF_DEVICE)
    assert one.baseline_ms / one.ms > 50 and one.wall_ms > 3.0
    assert not one.confirmed and "unconfirmed" in {f.code for f in one.findings}
    assert one.ratio < 1.5 and one.ratio_high < 2


def test_a_call_time_that_contradicts_the_engines_clock_is_named(verifier):
    one = timed(verifier, "0.04", LIE_OF_BOTH)
    (finding,) = (f for f in one.findings if f.code == "clock")
    assert "by the engine's clock" in finding.evidence and finding.severity == "cheat"
    assert one.ratio < 2


def test_less_than_the_hardware_needs_is_named(verifier, monkeypatch):
    monkeypatch.setattr(gpu_condition, "read", lambda: {"name": "NVIDIA H200"})
    one = timed(verifier, "1e-6", LIE_OF_DEVICE)
    assert one.limit_ms > 0 and "too_fast" in {f.code for f in one.findings}


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


def test_a_person_reads_what_was_claimed_and_what_was_seen():
    row = {"ms": 0.04, "wall_ms": 4.0, "baseline": "eager", "baseline_ms": 4.1, "ratio": 1.02, "confirmed": False}
    text = report_text({"verdict": "clean", "timed": [row]}, "mine.py")
    assert "0.04 ms claimed, 4 ms a call by the engine's clock" in text and "ratio of call times 1.020" in text
    text = report_text({"verdict": "gaming", "timed": [], "claims": [row]}, "mine.py")
    assert "not counted: 0.04 ms claimed beside eager" in text and "ratio" not in text
