"""Recurrent networks of packed sequences are traced whole, for any lengths."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from engine.trace import exported
from sol.hardware import load
from sol.model.eager import predict_eager
from tests.engine.traced import once

pytestmark = pytest.mark.filterwarnings("ignore")
LENGTHS = torch.tensor([3, 7, 2, 5])


class Packed(nn.Module):
    def __init__(self, network, sort, total=None):
        super().__init__()
        self.network, self.sort, self.total = network, sort, total
        self.out = nn.Linear(network(torch.ones(1, 1, 16))[0].shape[-1], 3)

    def forward(self, x, lengths):
        if not self.sort:
            lengths, order = lengths.sort(descending=True)
            x = x[order]
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=not self.sort)
        y, last = self.network(packed)
        y = PackedSequence(self.out(y.data), y.batch_sizes, y.sorted_indices, y.unsorted_indices)
        padded, lengths = pad_packed_sequence(y, batch_first=True, padding_value=-1.0, total_length=self.total)
        return padded, lengths, last


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize(
    ("network", "total"),
    [
        (nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True, dropout=0.1), None),
        (nn.LSTM(16, 8, proj_size=4), 9),
        (nn.GRU(16, 8, batch_first=True), 9),
        (nn.RNN(16, 8, nonlinearity="relu"), None),
    ],
)
def test_the_exported_program_takes_other_lengths(network, total, sort):
    torch.manual_seed(0)
    model, x = Packed(network, sort, total).eval(), torch.randn(4, 9, 16)
    program = exported.export(model, (x, LENGTHS)).module()
    with torch.no_grad():
        for lengths in (LENGTHS, torch.tensor([9, 1, 1, 2])):
            torch.testing.assert_close(program(x, lengths), model(x, lengths))


SOURCE = """
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.net, self.out = nn.Embedding(50, 16), nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 4)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        y, (h, c) = self.net(packed)
        return pad_packed_sequence(y, batch_first=True)[0], self.out(h[-1])

def get_inputs():
    return [torch.randint(0, 50, (4, 9)), torch.tensor([3, 7, 2, 5])]
"""


def test_a_graph_has_the_sizes_of_one_call_marked():
    graph = once(SOURCE, local_user=True).graph
    (network,) = (op for op in graph.ops if op.op == "lstm")
    data, sizes = (graph.tensors[n] for n in network.inputs[:2])
    assert (data.shape, sizes.shape) == ((17, 16), (7,)) and data.varies and sizes.varies
    padded, logits = (graph.tensors[n] for n in graph.outputs)
    assert padded.shape == (4, 7, 32) and padded.varies and logits.shape == (4, 4) and not logits.varies


def test_a_network_takes_the_steps_of_the_longest_sequence():
    graph = once(SOURCE, local_user=True).graph
    (lstm,) = (stage for stage in predict_eager(graph, load("h200"), "f32").stages if stage.name == "lstm")
    assert lstm.parts["main"] == pytest.approx(7 * 0.010)
