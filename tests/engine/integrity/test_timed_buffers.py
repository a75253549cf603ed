"""A kernel is timed with the module's own buffers and integers, which are not drawn for each call."""

import pytest

pytest.importorskip("torch")

from engine import sandbox
from engine.evaluate.integrity import measuring
from engine.evaluate.integrity.process.candidate import CandidateEnded
from engine.evaluate.integrity.verify import Verifier

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(64.0) + 1)
    def forward(self, x, at):
        return x[at] * self.table
def get_inputs(): return [torch.randn(512, 64), torch.arange(511, -1, -1)]
"""
KERNEL = "import torch\n\n\ndef kernel(x, at, table):\n    return x[at] * table\n"


def test_results_of_timed_calls_are_those_of_the_module(full_sandbox, monkeypatch):
    for name, value in {"PILOTS": 1, "PARTS": 2, "LEAST": 3, "MOST": 3}.items():
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "steady", lambda take, samples: (take(), {}))
    with Verifier(MODULE, "cpu", local_user=True) as verifier:
        verifier.examiner.reference.host_clock = True  # PyTorch's side is timed on a GPU only
        verifier.examiner.reference.close()
        for _ in range(5):
            try:
                timed = measuring.measure(verifier.examiner, KERNEL, "python", "f32")
                break
            except CandidateEnded as e:  # on a busy machine its copies take no longer than a batch without calls
                assert e.code == "clock"
        else:
            pytest.skip("this machine is too busy for a clock")
    sandbox.drain()
    assert timed.looked_at and "wrong_result" not in {f.code for f in timed.findings}
