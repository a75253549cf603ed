"""Branches that skip work on an empty selection, where the work on no rows changes nothing."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace.values.choices import may_ask
from tests.engine.traced import in_copies

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        y = self.net(x)
        m = x[:, 0] > 0.5
LINES
        return y

def get_inputs():
    return [torch.randn(6, 8)]
"""
TAKEN = {
    "a mask that has one": "if m.any():\n    y[m] = self.net(x[m])",
    "a sum of a mask": "if m.sum() > 0:\n    y[m] = self.net(x[m])",
    "a count": "if torch.count_nonzero(m) == 0:\n    return y\ny[m] = 0",
    "rows of a where": "for k in range(3):\n    i = torch.where(x[:, k] > 0)[0]\n    if i.numel() == 0:\n"
    "        continue\n    y = y.index_add(0, i, self.net(x[i]))",
    "rows of a mask": "part = x[m]\nif part.shape[0] > 0:\n    y[m] = self.net(part)",
    "a repair": "if torch.isnan(x).any():\n    y = torch.nan_to_num(y)",
    "a check": "if torch.isnan(x).any():\n    raise ValueError('not a number')",
    "an assertion": "assert not (x[:, 0] > 100).any()",
}
REFUSED = {
    "another result": "if m.any():\n    y = y * 2",
    "another result of none": "if not m.any():\n    y = y * 2",
    "a branch that no input takes": "if torch.isinf(x).any():\n    y = y * 0",
    "no result of no rows": "if m.any():\n    y = y + x[m].amax(0)",
    "more than one": "i = torch.where(m)[0]\nif len(i) > 3:\n    y[i] = 0",
    "a state": "if m.any():\n    self.count += 1",
}


def source(lines):
    return SOURCE.replace("LINES", "\n".join(f"        {line}" for line in lines.splitlines()))


@pytest.mark.parametrize("what", TAKEN)
def test_what_changes_no_result_is_traced(what):
    traced = in_copies(source(TAKEN[what]), local_user=True)
    assert traced.has["by"] == "torch.export" and "linear" in [op.op for op in traced.graph.ops]
    assert "Branches on whether a mask selects anything" in traced.note


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_change_one_is_refused_with_its_line(what):
    with pytest.raises(SessionRefused) as refusal:
        in_copies(source(REFUSED[what]), local_user=True)
    assert (refusal.value.code, refusal.value.line is not None) == ("data_dependent", True)


def test_only_texts_that_may_ask_are_traced_once_more():
    assert all(may_ask(lines) for lines in TAKEN.values())
    assert not may_ask("while x.abs().max() > 0.1:\n    x = self.net(x)")
