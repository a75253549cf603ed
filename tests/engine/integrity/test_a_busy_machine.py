"""An answer that a busy machine delays is no lie about time; one whose time never fits is."""

import time

import pytest

pytest.importorskip("torch")

from engine.evaluate.integrity.process.candidate import Candidate
from engine.evaluate.integrity.verify import Verifier
from tests.engine.integrity import zoo

KERNEL = """import torch


def kernel(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
"""


# After a burst whose time fits, two more are looked at: these are small.
@pytest.mark.parametrize(("late", "asked", "lies"), [(1, 4, False), (2, 5, False), (99, 3, True)])
def test_only_bursts_that_all_contradict_the_clock_are_a_lie(late, asked, lies, monkeypatch, full_sandbox):
    real, bursts = Candidate.ask, []

    def ask(candidate, do, timeout, **arguments):
        reply = real(candidate, do, timeout, **arguments)
        if do == "burst":
            bursts.append(do)
            if len(bursts) <= late:
                time.sleep(2.0)  # as a process does that gets no core
        return reply

    monkeypatch.setattr(Candidate, "ask", ask)
    with Verifier(zoo.module("softmax"), "cpu", local_user=True) as verifier:
        report = verifier.verify(KERNEL)
    assert len(bursts) == asked
    assert ("clock" in {f.code for f in report.findings}) == (report.verdict == "gaming") == lies
