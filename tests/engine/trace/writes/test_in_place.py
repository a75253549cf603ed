"""In-place operations become functional without a second trace where that is right, and are left to PyTorch where a
view, an input or a buffer would see the write. Either way the graph computes what the module does."""

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F
from torch import nn

from engine.trace import exported
from engine.trace.capture import Capture
from engine.trace.writes.in_place import functional
from tests.engine.trace.test_edges import graph, ops

SIMPLE = {
    "an activation": lambda m, x: m.relu(m.conv(x)),
    "a residual": lambda m, x: m.relu(m.conv(x).add_(x)),
    "one after the other": lambda m, x: m.conv(x).mul_(2).add_(1).clamp_(0, 3),
    "read before and after": lambda m, x: (y := m.conv(x), z := y * 2, y.relu_(), y + z)[-1],
    "the old name is read": lambda m, x: (y := m.conv(x), w := y.relu_(), w.add_(1), y * 2 - w)[-1],
    "by itself": lambda m, x: (y := m.conv(x)).mul_(y.sigmoid()),
    "a view taken afterwards": lambda m, x: (y := m.conv(x), y.relu_(), y.flatten(1))[-1],
    "returned twice": lambda m, x: (y := m.conv(x), y.relu_(), (y, y * 2))[-1],
}
LEFT = {
    "a view taken before": lambda m, x: (y := m.conv(x), v := y.flatten(1), y.relu_(), v + 1)[-1],
    "a view": lambda m, x: (y := m.conv(x), y[:, 0].relu_(), y + 1)[-1],
    "what dropout gives back": lambda m, x: (y := m.conv(x), z := F.dropout(y, 0.5, False), z.relu_(), y + 1)[-1],
    "a part of several": lambda m, x: (y := m.conv(x), a := y.chunk(2, 1)[0], a.relu_(), y + 1)[-1],
    "the input": lambda m, x: (x.relu_(), m.conv(x))[-1],
    "a buffer": lambda m, x: (m.seen.add_(1), m.conv(x) + m.seen)[-1],
    "another type than a new tensor has": lambda m, x: (y := m.conv(x), y.eq_(x), y * 2)[-1],
}


class Net(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(inplace=True)
        self.register_buffer("seen", torch.zeros(4, 6, 6))
        self.body = body

    def forward(self, x):
        return self.body(self, x)


def image():
    torch.manual_seed(0)
    return torch.randn(2, 4, 6, 6)


def plain(body):
    """The exported program before writes are looked at."""
    torch.manual_seed(1)
    model = Net(body).eval()
    with torch.no_grad():
        return model, torch.export.export(model, (image(),), strict=False)


@pytest.mark.parametrize("name", SIMPLE)
def test_a_simple_write_is_functional_and_computes_the_same(name):
    model, program = plain(SIMPLE[name])
    assert functional(program)
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    assert not any(n.target._schema.is_mutable for n in nodes)
    weights = model.state_dict()
    values = [weights[s.target] if s.target else image() for s in program.graph_signature.input_specs]
    ours = torch.fx.Interpreter(torch.fx.GraphModule({}, program.graph)).run(*values)
    theirs = model(image())
    for a, b in zip(ours, theirs if isinstance(theirs, tuple) else (theirs,), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", LEFT)
def test_any_other_write_is_left_as_it_was(name):
    _, program = plain(LEFT[name])
    before = str(program.graph)
    assert not functional(program) and str(program.graph) == before


def test_a_network_is_traced_once(monkeypatch):
    model, _ = plain(SIMPLE["a residual"])
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)  # the second trace
    graph = Capture(exported.export(model, (image(),))).graph()
    assert [op["op"] for op in graph["ops"]] == ["conv2d", "add", "relu"]


def test_a_detach_in_place_of_a_product_with_data_is_functional():
    """PyTorch 2.11 ends the process where it makes such a graph functional."""
    forward = "w = self.l.weight.data\ny = F.linear(args[0], w / w.norm())\ny.requires_grad_(False)\n"
    g = graph(forward + "return y.data, y.detach_()", init="self.l = nn.Linear(8, 8)")
    assert ops(g) == ["linalg_vector_norm", "div", "t", "mm"]
