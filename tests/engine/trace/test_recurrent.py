"""A recurrent network is traced as one operation, in a time that does not grow with its steps."""

import time

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.trace.capture import Capture
from engine.trace.exported import export
from engine.trace.recurrent import shapes_only
from engine.trace.values.recipes import Recipes

NETWORKS = {
    "lstm": lambda: nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True),
    "projected": lambda: nn.LSTM(8, 6, proj_size=3),
    "gru": lambda: nn.GRU(8, 6, 2),
    "rnn": lambda: nn.RNN(8, 6, bidirectional=True, nonlinearity="relu"),
    "unbatched": lambda: nn.GRU(8, 6),
}


def shapes(result):
    return [tuple(t.shape) for t in torch.utils._pytree.tree_leaves(result)]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_results_have_the_shapes_that_pytorch_gives(name):
    x = torch.randn(5, 8) if name == "unbatched" else torch.randn(4, 5, 8)
    net = NETWORKS[name]().eval()
    with torch.no_grad():
        wanted = shapes(net(x))
        with FakeTensorMode(allow_non_fake_inputs=True), shapes_only():
            assert shapes(NETWORKS[name]().eval()(torch.randn(*x.shape))) == wanted


def test_real_tensors_are_computed_as_ever():
    net, x = nn.GRU(8, 6).eval(), torch.randn(4, 2, 8)
    with torch.no_grad():
        wanted = net(x)[0]
        with shapes_only():
            assert torch.equal(net(x)[0], wanted)
        assert torch.equal(net(x)[0], wanted)


class Last(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.net, self.act = nn.LSTM(8, 6, batch_first=True), nn.ReLU(inplace)

    def forward(self, x):
        return self.act(self.net(x)[0][:, -1])


@pytest.mark.parametrize("inplace", [False, True])
def test_the_network_stays_one_operation_of_the_graph(inplace):
    graph = Capture(export(Last(inplace).eval(), (torch.randn(2, 20, 8),))).graph()
    ops = [op["op"] for op in graph["ops"]]
    assert ops.count("lstm") == 1 and "relu" in ops and len(ops) < 12
    sequence = next(t for t in graph["tensors"] if t["name"].startswith("lstm"))
    assert sequence["shape"] == [2, 20, 6]


def test_a_long_sequence_takes_no_longer_than_a_short_one():
    def seconds(steps):
        began = time.process_time()
        export(Last(False).eval(), (torch.randn(1, steps, 8),))
        return time.process_time() - began

    seconds(4)
    assert seconds(4000) < 20 * max(0.05, seconds(4))


@pytest.mark.parametrize("network", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_call_on_fake_tensors_takes_no_step_either(network):
    """A module is called before it is exported, and a bidirectional GRU of 512 steps then took over 30 s."""

    def operations(steps):
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), shapes_only(), Recipes() as recipes:
            network(8, 6, 2, bidirectional=True)(torch.randn(steps, 2, 8))
        return len(recipes.steps)

    assert operations(500) == operations(5)
