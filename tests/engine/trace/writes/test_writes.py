"""What forward writes (buffers, parameters, inputs) is a result of the graph, behind what forward returns."""

import pytest

pytest.importorskip("torch")

from tests.engine.trace.test_edges import X, graph, ops, refused

BUFFERS = """\
self.register_buffer("n", torch.zeros(1))
self.register_buffer("h", torch.zeros(8, 8))
self.register_buffer("mean", torch.zeros(8))
self.register_buffer("var", torch.ones(8))
self.w = nn.Parameter(torch.ones(8))
self.lstm = nn.LSTM(8, 8, batch_first=True)"""


@pytest.mark.parametrize(
    ("forward", "writes", "computes"),
    [
        ("self.n += 1\nreturn args[0] * self.n", ("n",), ["add", "mul"]),
        ("self.n = self.n + 1\nreturn args[0] * 2", ("n",), ["add", "mul"]),
        ("y = args[0] * 2\nself.n.copy_(y.sum())\nreturn y", ("n",), ["mul", "sum", "copy"]),
        ("self.h = torch.tanh(args[0] + self.h)\nreturn self.h * 2", ("h",), ["add", "tanh", "mul"]),
        ("self.h[2:4] = args[0][:2]\nreturn args[0] + self.h", ("h",),
         ["slice", "slice", "copy", "slice_scatter", "add"]),
        ("self.mean.mul_(0.9).add_(args[0].mean(0), alpha=0.1)\nreturn args[0] - self.mean", ("mean",),
         ["mul", "mean", "add", "sub"]),
        ("return F.batch_norm(args[0], self.mean, self.var, training=True)", ("mean", "var"),
         ["_native_batch_norm_legit_functional"]),
        ("self.w.mul_(0.9)\nreturn args[0] * self.w", ("w",), ["mul", "mul"]),
        ("args[0].mul_(2)\nreturn args[0] + 1", ("args_0",), ["mul", "add"]),
        ("y = args[0] + 1\nargs[0][:, 0] = 0\nreturn y", ("args_0",),
         ["add", "select", "fill", "select_scatter"]),
    ],
)  # fmt: skip
def test_a_write_is_an_output_with_the_tensor_that_it_replaces(forward, writes, computes):
    g = graph(forward, init=BUFFERS)
    assert g.writes == writes and [op for op in ops(g) if op != "lift_fresh_copy"] == computes
    assert len(g.returned) == 1 and list(g.written) == list(writes)
    for old, new in g.written.items():
        assert g.tensors[old].kind != "intermediate"
        assert (g.tensors[old].shape, g.tensors[old].dtype) == (g.tensors[new].shape, g.tensors[new].dtype)


def test_the_state_of_an_lstm_in_buffers_is_written():
    keeps = 'self.register_buffer("a", torch.zeros(1, 8, 8))\nself.register_buffer("b", torch.zeros(1, 8, 8))'
    forward = "y, (h, c) = self.lstm(args[0][:, None], (self.a, self.b))\nself.a.copy_(h)\nself.b.copy_(c)\nreturn y"
    g = graph(forward, init=f"{BUFFERS}\n{keeps}")
    assert g.writes == ("a", "b") and "lstm" in ops(g)


def test_a_tensor_may_be_returned_and_written():
    g = graph("self.h = torch.tanh(args[0] + self.h)\nreturn self.h", init=BUFFERS)
    assert g.outputs == ("tanh", "tanh") and g.returned == ("tanh",) and g.written == {"h": "tanh"}


ATTRIBUTES = """\
self.a, self.b = torch.zeros(8, 8), torch.ones(8, 8)
self.m = nn.Module()
self.m.h = torch.zeros(8, 8)
self.m.register_buffer("k", torch.zeros(8, 8))"""


@pytest.mark.parametrize(
    ("forward", "returned", "written"),
    [
        ("old = self.a\nself.a = args[0] * 2\nreturn old", "a", {"a": "mul"}),
        ("old = self.a\nself.a = args[0] * 2\nreturn old[:2]", "slice_1", {"a": "mul"}),
        ("old, self.a = self.a, torch.tanh(args[0] + self.a)\nreturn old * 3", "mul", {"a": "tanh"}),
        ("old = self.a\nself.a, self.b = self.b, args[0] * 2\nreturn old", "a", {"a": "b", "b": "mul"}),
        ("old = self.m.h\nself.m.h = args[0] * 2\nreturn old", "m_h", {"m_h": "mul"}),
        ("self.m.k = torch.tanh(args[0] + self.m.k)\nreturn self.m.k * 2", "mul", {"m_k": "tanh"}),
        ("old = self.m.k\nself.m.k, self.m.h = self.m.h, args[0] + 1\nreturn old", "m_k",
         {"m_k": "m_h", "m_h": "add"}),
    ],
)  # fmt: skip
def test_what_forward_replaces_is_written_after_it_was_read(forward, returned, written):
    """In the module and in those inside it, in buffers and in plain attributes."""
    g = graph(forward, init=ATTRIBUTES)
    assert g.returned == (returned,) and g.written == written
    assert all(g.tensors[old].kind == "buffer" for old in written)


def test_a_buffer_may_become_the_input():
    g = graph("y = args[0] - self.h\nself.h = args[0]\nreturn y", init=BUFFERS)
    assert ops(g) == ["sub"] and g.written == {"h": "args_0"}


def test_a_buffer_that_is_written_with_its_own_value_is_not_written():
    assert graph("self.h.copy_(self.h)\nreturn args[0] * self.h", init=BUFFERS).writes == ()


def test_a_buffer_that_gets_another_shape_is_refused_because_the_next_call_computes_something_else():
    bad = refused("y = args[0] + 1\nself.n = self.n + args[0]\nreturn y", init=BUFFERS)
    assert (bad.code, bad.line) == ("writes", 16)  # behind the lines of __init__
    assert "replaces the module's n, float32 [1], by a tensor of float32 [8, 8]" in bad.reason
    assert "Start with a tensor of float32 [8, 8]" in bad.reason


def test_a_buffer_that_the_first_call_makes_for_its_inputs_is_a_cache():
    forward = "if self.n.shape[0] != len(args[0]):\n    self.n = torch.arange(8.0)\nreturn args[0] + self.n"
    g = graph(forward, init=BUFFERS)
    assert ops(g) == ["add"] and g.settled and g.writes == ()


def test_a_write_to_what_forward_made_itself_is_no_write():
    g = graph("y = args[0] * 2\ny.add_(1)\nreturn y", X)
    assert ops(g) == ["mul", "add"] and g.writes == ()


def test_a_graph_keeps_its_writes_in_json():
    from sol.graph import OpGraph

    g = graph("self.n += 1\nreturn args[0] * self.n", init=BUFFERS)
    assert OpGraph.from_json(g.to_json()) == g


@pytest.mark.parametrize("forward", ["self.n += 1\nreturn x * self.n", "self.n = x.sum(0)\nreturn x * 2"])
def test_a_recorded_graph_writes_what_is_copied_onto_a_placeholder_or_assigned(forward):
    import torch

    from engine.trace import fx
    from engine.trace.capture import Capture

    names = {}
    body = forward.replace("\n", "\n  ")
    exec(f"def forward(self, x):\n  {body}", names)
    model = type("Counts", (torch.nn.Module,), {"forward": names["forward"]})()
    model.register_buffer("n", torch.zeros(4))
    g = Capture(fx.record(model, (torch.ones(4, 4),))).graph()
    assert g["writes"] == ["n"] and len(g["outputs"]) == 2
