"""What is slower than PyTorch in its class is never the best: PyTorch stays, and the session gives both times."""

from dataclasses import replace

import pytest

from engine.progress import line
from engine.session import events, trial
from engine.session.runner import run
from engine.strategies.api import Finished
from tests.engine.counting import CountingDevice, spec


class FastPyTorch(CountingDevice):
    """PyTorch takes `share` of the time that is predicted for it, class by class."""

    def __init__(self, **share: float):
        super().__init__()
        self.share = share

    def baselines(self, classes):
        for b in super().baselines(classes):
            yield replace(b, time=replace(b.time, ms=b.time.ms * self.share.get(b.cls, 1.0)))


def play(device, history=(), blobs=None, **changes):
    emitted = list(run(spec(**changes), device=device, history=history, read_blob=(blobs or {}).__getitem__))
    return [e.event for e in emitted], {k: v for e in emitted for k, v in e.blobs.items()}


def of(log, kind):
    return [e for e in log if isinstance(e, kind)]


@pytest.fixture(scope="module")
def slower():
    return play(FastPyTorch(f16=0.3))


def test_no_trial_is_the_best(slower):
    log, _ = slower
    judged = of(log, events.TrialJudged)
    assert len(judged) == 4 and all(e.verdict == "clean" and e.speedup < 1 for e in judged)
    assert not any(e.best or "best" in e.text for e in judged)
    assert not any(line(e).lstrip().startswith("*") for e in judged)  # the mark in the terminal


def test_the_session_ends_with_both_times(slower):
    log, _ = slower
    fastest = min(of(log, events.TrialJudged), key=lambda e: e.ms)
    theirs = of(log, events.Baseline)[0].time.ms
    assert log[-1].state == "done" and log[-1].best == {}
    assert (
        "No program was faster than PyTorch in f16; PyTorch stays: PyTorch eager (float16) takes "
        f"{theirs:.3g} ms, the fastest program (trial {fastest.trial}) {fastest.ms:.3g} ms, both predicted."
    ) in log[-1].reason
    assert "Best in" not in log[-1].reason


def test_a_session_that_is_taken_up_again_says_the_same(slower):
    log, blobs = slower
    at = log.index(of(log, events.TrialJudged)[1]) + 1
    rest, _ = play(FastPyTorch(f16=0.3), [(i + 1, e) for i, e in enumerate(log[:at])], blobs)
    assert rest[-1].reason == log[-1].reason and rest[-1].best == {}


def test_the_strategy_still_refines_the_fastest_trial():
    log, _ = play(FastPyTorch(f16=0.3), trials=12)
    fastest = {}
    for e in of(log, events.TrialJudged):
        fastest[e.trial] = min([e.ms, *fastest.values()])
    parents = [e for e in of(log, events.TrialProposed) if e.parent]
    assert parents
    ms = {e.trial: e.ms for e in of(log, events.TrialJudged)}
    assert all(ms[e.parent] == min(ms[n] for n in ms if n < e.trial) for e in parents)


def test_a_trial_that_is_faster_than_pytorch_is_the_best_also_behind_a_faster_one_that_is_not():
    """Ratios are of pairs, so that a time taken while the clocks were high may be shorter and its ratio below 1."""
    ended = [
        Finished(1, "", "f16", "cute", ms=1.0, speedup=0.98),
        Finished(2, "", "f16", "cute", ms=1.2, speedup=1.05),
        Finished(3, "", "f16", "cute", ms=0.5, speedup=3.0, clean=False),
        Finished(4, "", "tf32", "cute", ms=0.1, speedup=9.0),
        Finished(5, "", "f16", "cute", failed="compile"),
    ]
    assert trial.best_time(ended[:1], "f16") is None
    assert trial.best_time(ended, "f16") == 1.2


def test_the_end_says_why_pytorch_is_faster(slower):
    log, _ = slower
    fastest = min(of(log, events.TrialJudged), key=lambda e: e.ms)
    why = log[-1].reason.partition("both predicted. ")[2]
    assert why.startswith(f"In float16, PyTorch reaches {1 / fastest.gap / fastest.speedup:.0%} of the limit's speed")
    assert why.count("In float16") == 1 and "TFLOP/s" in why
