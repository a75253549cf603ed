"""The verdict on a raw kernel that was measured: what counts, what may be the best, and what a reader is told."""

from types import SimpleNamespace

import pytest

from engine.devices import TrialError
from engine.evaluate.integrity import kernel_evidence
from engine.evaluate.integrity.findings import Finding, Report
from engine.evaluate.integrity.kernel_trial import KernelFailed, Kernels
from engine.evaluate.integrity.measuring import Timed
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.process.judge import JudgeLost
from engine.evaluate.integrity.trial import GAMING, LIBRARY, MINOR, PASSED, check
from engine.session import events
from engine.session.verdict import judge_kernel
from engine.strategies.api import KernelTrial

RIGHT = [check("text", PASSED, "no trick"), check("results", PASSED, "right in 14 rounds")]


def measured(ms=1.0, ratio=2.0, checks=()):
    time = events.Measurement(ms, ms, ms, [ms], "events", {"name": "a GPU"}, ms)
    return events.TrialMeasured(3, time, "eager_tf32", ms * ratio, ratio, ratio, ratio, list(checks))


def judged(earlier=RIGHT, best_ms=None, limit=0.5, **of):
    return judge_kernel(3, "tf32", measured(**of), best_ms, limit, earlier)


def test_a_clean_kernel_may_be_the_best():
    end = judged()
    assert (end.verdict, end.kind, end.best, end.gap, end.speedup) == ("clean", "measured", True, 2.0, 2.0)
    assert (
        end.text
        == "1 ms measured, 2.00x faster than PyTorch eager (TF32), 2.00 times the limit; the best in tf32 so far"
    )
    assert [line["name"] for line in end.evidence] == ["text", "results", "limit"]


@pytest.mark.parametrize(
    ("of", "best"),
    [({"best_ms": 0.9}, False), ({"best_ms": 1.1}, True), ({"ratio": 0.8}, False)],
    ids=["slower than the best", "faster than the best", "slower than PyTorch"],
)
def test_it_is_the_best_only_where_it_is_faster_than_the_best_and_than_pytorch(of, best):
    assert judged(**of).best is best and judged(**of).verdict == "clean"


@pytest.mark.parametrize("verdict", [LIBRARY, GAMING])
def test_what_a_library_or_a_trick_did_is_never_the_best(verdict):
    end = judged([*RIGHT, check("kernels", verdict, "cuBLAS did the work")], ms=0.6, ratio=50.0)
    assert end.verdict == verdict and not end.best
    assert end.text == "0.6 ms measured, but it is not counted: cuBLAS did the work"


def test_a_minor_remark_counts():
    assert judged([*RIGHT, check("timer", MINOR, "asks for the time")]).best


def test_a_time_below_the_limit_is_flagged_whatever_it_says():
    end = judged(ms=0.4)
    assert end.verdict == "gaming" and not end.best and "below 90% of the limit" in end.text


def timed(**changes):
    fields = {
        "ms": 1.0, "low": 0.9, "high": 1.1, "call_ms": 1.2, "baseline": "eager", "baseline_cls": "f32",
        "baseline_ms": 2.0, "baseline_call_ms": 2.2, "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1,
        "busy_ms": 0.9, "method": "outside", "calls": 8,
        "kernels": [{"name": "mine", "us": 1000.0, "stream": 7, "library": False}], "sample": [1.0] * 15,
        "looked_at": 3,
    }  # fmt: skip
    return Timed(**fields | changes)


def test_the_evidence_of_timed_calls_says_what_was_looked_at():
    lines = kernel_evidence.of_timing(timed())
    assert [(line["name"], line["verdict"]) for line in lines] == [("clocks", PASSED), ("timed results", PASSED)]
    clock, results = (line["said"] for line in lines)
    assert clock == (
        "1 ms by a clock outside of its process, over 8 calls a batch; its process claims 0.9 ms on 1 stream"
    )
    assert "chosen after the calls, 3 were compared with the module's, and right" in results


def test_times_that_cannot_be_are_gaming():
    findings = [Finding("too_fast", "0.01 ms is below 90% of the limit"), Finding("patched", "time.time")]
    lines = kernel_evidence.of_timing(timed(findings=findings))
    assert {line["name"]: line["verdict"] for line in lines} == {
        "too_fast": GAMING, "patched": GAMING, "timed results": PASSED,
    }  # fmt: skip


def test_what_cannot_be_a_graph_is_compared_by_call_times_and_says_so():
    lines = kernel_evidence.of_timing(timed(findings=[Finding("call_times", "it waits for the device")]))
    assert lines[0]["name"] == "call_times" and lines[0]["verdict"] == "not looked at"
    end = judged(ms=1.2, ratio=1.5, checks=lines)
    assert end.verdict == "clean" and end.best and end.text.startswith("1.2 ms a call from Python, 1.50x")


def test_without_rounds_nothing_is_verified_but_a_trick_in_the_text_is_a_trick():
    text = kernel_evidence.of_text(Report())
    assert kernel_evidence.verdict(text) == "unverified"
    cheat = Report(findings=[Finding("memoized", "returns what it kept", 4)])
    lines = kernel_evidence.of_text(cheat)
    assert kernel_evidence.verdict(lines) == "gaming" and lines[0]["line"] == 4


# ---- a trial that ends at its rounds ----

KERNEL = KernelTrial(3, "def kernel(x):\n    return x\n", "tf32", "python", "")
WRONG = {"family": "normal", "right": False, "error": 0.02, "pytorch_error": 3e-4, "allowed": (2e-3, "tf32")}


def kernels() -> Kernels:
    return Kernels(SimpleNamespace(device="cpu"), SimpleNamespace(), timed=False)


@pytest.mark.parametrize(
    ("rounds", "words"),
    [([WRONG], "the largest relative error 2.0e-02 on normal inputs, allowed 2.0e-03"), ([], "on normal inputs")],
    ids=["compared", "nothing was compared"],
)
def test_a_wrong_kernel_says_by_how_much_where_that_is_known(rounds, words):
    report = Report(
        declared="tf32", findings=[Finding("wrong_result", "on normal inputs", dynamic=True)], rounds=rounds
    )
    with pytest.raises(KernelFailed, match=words) as failed:
        kernels()._settle(KERNEL, report, "validate")
    assert (failed.value.step, failed.value.code) == ("validate", "wrong_result")


def test_a_kernel_that_does_not_load_leaves_the_judge_no_memory_that_both_shared():
    mine, forgotten = kernels(), []
    mine.judge.forget = lambda: forgotten.append(True)
    mine._report = (KERNEL, Report())
    with pytest.raises(KernelFailed), mine._running(KERNEL, "compile"):
        raise CandidateEnded("not_loaded", "no such name")
    assert forgotten == [True]


@pytest.mark.parametrize("ours", [JudgeLost("it was killed"), TrialError("validate", "reference_crashed", "lost")])
def test_rounds_that_our_side_lost_are_not_counted_when_it_tries_again(ours):
    """Their findings would be those of the second time, too."""
    mine = kernels()
    mine._report = (KERNEL, Report(findings=[Finding("wrong_result", "on normal inputs", dynamic=True)]))
    mine.reader = SimpleNamespace(read=lambda *_: Report())
    with pytest.raises(TrialError), mine._running(KERNEL, "validate"):
        raise ours
    assert mine._report_of(KERNEL).findings == []
