"""On a GPU no values of a raw kernel cross the host: the judge and its process share a block of the GPU's memory."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.integrity.process.candidate import Candidate  # noqa: E402
from engine.evaluate.integrity.verify import Verifier  # noqa: E402
from tests.engine.integrity import zoo  # noqa: E402

pytestmark = pytest.mark.gpu
LINEAR = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8192, 8192)
    def forward(self, x):
        return torch.relu(self.linear(x))
def get_inputs(): return [torch.randn(1024, 8192)]
"""
RIGHT = LINEAR.replace("class Model(", "class ModelNew(")
CHEATS = {
    "changes its input": (RIGHT.replace("return torch", "x[0, 0] = 3\n        return torch"), "input_written"),
    "is off": (RIGHT.replace("return torch", "return 1.05 * torch"), "wrong_result"),
}


@pytest.fixture
def shares(cuda, monkeypatch):
    """Whether each candidate got a block."""
    seen, share = [], Candidate.share

    def noted(candidate, judge):
        share(candidate, judge)
        seen.append(candidate.shared)

    monkeypatch.setattr(Candidate, "share", noted)
    return seen


def test_a_right_text_is_right(shares):
    with Verifier(LINEAR, "cuda", local_user=True) as verifier:
        report = verifier.verify(RIGHT, cls="f16")
    assert shares == [True]
    assert report.verdict == "library only" and not report.codes & {"wrong_result", "input_written", "out_of_bounds"}


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_are_caught(shares, name):
    text, code = CHEATS[name]
    with Verifier(LINEAR, "cuda", local_user=True) as verifier:
        report = verifier.verify(text, cls="f16")
    assert shares == [True] and code in report.codes, report.codes


def test_each_candidate_gets_a_block_of_its_own(shares):
    animal = next(a for a in zoo.animals("cuda_honest") if a.path.name == "gate.cu")
    with Verifier(zoo.module(animal.module), "cuda", local_user=True) as verifier:
        for _ in range(2):
            assert verifier.verify(animal.text, animal.kind, animal.cls).accepted
    assert shares == [True, True]
