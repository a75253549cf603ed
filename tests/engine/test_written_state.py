"""A module whose forward writes buffers, hidden states or its input is planned, verified and judged with what it
writes; its state stays PyTorch's between programs."""

from types import SimpleNamespace

import pytest

from engine.devices import Problem, TrialError
from engine.devices.modelled import Modelled
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from tests.engine.traced import once
from tests.engine.unbuilt import assert_judged_clean, session

pytestmark = pytest.mark.usefixtures("full_sandbox")

TEXT = """
import torch, torch.nn as nn, torch.nn.functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(64, 64)
        self.h = torch.zeros(32, 64)
        self.register_buffer("n", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("var", torch.ones(64))
    def forward(self, x):
{}
def get_inputs():
    return [torch.randn(32, 64)]
"""
FORWARDS = {
    "a hidden state": ("self.h = torch.tanh(self.l(x) + self.h)\nreturn self.h", []),
    "a counter": ("self.n += 1\nreturn F.relu(self.l(x)) / (1 + self.n)", ["add", "add", "div"]),
    "a running mean": ("self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)\nreturn self.l(x) - self.mean", []),
    "the last input": ("y = self.l(x - self.h)\nself.h = x\nreturn y", []),
    "statistics in training mode": (
        "return F.relu(F.batch_norm(self.l(x), self.mean, self.var, training=True))",
        ["_native_batch_norm_legit_functional"],
    ),
    "a part of a buffer": ("self.h[2:4] = x[:2]\nreturn self.l(x) + self.h",
                           ["slice", "slice", "copy", "slice_scatter"]),
    "its input": ("return self.l(F.relu(x, inplace=True))", []),
}  # fmt: skip


def text(forward):
    return TEXT.format("\n".join(f"        {row}" for row in forward.splitlines()))


@pytest.mark.parametrize("name", FORWARDS)
def test_it_is_planned_verified_and_judged(name):
    forward, stays = FORWARDS[name]
    log = session(text(forward), name)
    (covered,) = (e for e in log if isinstance(e, events.Covered))
    assert [u["op"] for u in covered.uncovered] == stays and covered.regions
    assert_judged_clean(log)


def test_a_raw_kernel_is_not_taken_because_it_returns_no_state():
    source = text(FORWARDS["a counter"][0])
    evaluator = Evaluator(Modelled("h200"))
    evaluator.open(Problem(source, "module", once(source).graph), lambda: False)
    try:
        with pytest.raises(TrialError, match="forward writes n, and a kernel computes only what forward returns"):
            evaluator.check(SimpleNamespace(form="kernel"))
    finally:
        evaluator.close()
