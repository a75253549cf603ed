"""Where forward reads values, the refusal says what to write instead of this very line."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace import trace

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x, lengths):
        y = self.net(x)
        LINE
        return y

def get_inputs():
    return [torch.randn(4, 6, 8), torch.tensor([6, 5, 3, 2])]
"""
WAYS = {
    "assert y.sum() > -1e9": "Leave the check out",
    "print(float(y.mean()))": "Leave the print out",
    "y = y * y.mean().item()": r"Leave .item.. out",
    "y = y[: int(lengths.max())]": "Take the size from a shape",
    "for i in torch.nonzero(y[:, 0, 0] > 0): y = y * y[i]": "choose the rows of each by torch.where",
    "y = torch.cat(y.split(torch.bincount(lengths).tolist()))": "choose the rows of each by torch.where",
    "if (lengths > 2).any(): y = y * 2": "Leave the `if` out, where an empty selection changes nothing",
    "y = nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_padded_sequence(y, lengths, True))[0]": "a result of one size",
    "y = y * 2 if y.sum() > 0 else y": "Use torch.where for the choice",
}


@pytest.mark.parametrize("line", WAYS)
def test_a_line_that_reads_values_has_a_way_out(line):
    with pytest.raises(SessionRefused, match=rf"Line 13, .*{WAYS[line]}"):
        trace(SOURCE.replace("LINE", line), local_user=True)
