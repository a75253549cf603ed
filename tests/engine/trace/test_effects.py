"""A forward that draws by chance, or writes to what it was given, is refused by name, line and a way out."""

import pytest

pytest.importorskip("torch")

from tests.engine.trace.test_edges import X, graph, ops, refused

SDPA = "return F.scaled_dot_product_attention(args[0], args[0], args[0], dropout_p={})"
COUNTS = 'self.register_buffer("n", torch.zeros(1))'


@pytest.mark.parametrize(
    ("forward", "words", "way"),
    [
        ("return F.dropout(args[0] * 2, 0.3)", "drops elements at random (dropout)", "training=self.training"),
        (SDPA.format(0.1), "drops elements at random (scaled_dot_product_attention)", "dropout_p=0.1 if self.training"),
        ("return args[0] + torch.randn_like(args[0])", "draws random numbers (randn_like)", "get_inputs()"),
        ("return args[0] + torch.rand(8, 8)", "draws random numbers (rand)", "get_inputs()"),
        ("return torch.bernoulli(torch.sigmoid(args[0]))", "draws random numbers (bernoulli)", "get_inputs()"),
        ("return torch.multinomial(args[0].exp(), 4)", "draws random numbers (multinomial)", "get_inputs()"),
        ("return args[0] + torch.empty_like(args[0]).normal_()", "draws random numbers (normal)", "get_inputs()"),
    ],
)
def test_chance_is_refused_with_the_operation_its_line_and_a_way_out(forward, words, way):
    bad = refused(forward)
    assert (bad.code, bad.line) == ("random", 10)
    assert bad.reason.startswith("Line 10, `") and words in bad.reason and way in bad.reason


@pytest.mark.parametrize(
    "forward",
    [
        "return F.dropout(args[0] * 2, 0.3, training=self.training)",
        "return F.dropout(args[0] * 2, 0.0)",
        SDPA.format(0.0),
        "return F.rrelu(args[0] * 2)",
        "noise = torch.randn_like(args[0])\nreturn args[0] * 2",
    ],
)
def test_what_draws_nothing_in_eval_mode_or_is_read_by_nobody_is_traced(forward):
    assert not {"dropout", "randn_like"} & set(ops(graph(forward)))


STATE = "self.h = torch.zeros(8, 8)"


@pytest.mark.parametrize(
    "forward", ["self.h = torch.tanh(args[0] + self.h)\nreturn self.h * 2", "self.h.copy_(args[0])\nreturn self.h * 2"]
)
def test_a_hidden_state_that_is_a_plain_attribute_is_refused_when_the_next_call_would_read_it(forward):
    bad = refused(forward, init=STATE)
    assert bad.code == "writes" and "writes to the module's attribute h" in bad.reason


def test_a_result_kept_for_people_is_no_state():
    assert ops(graph("self.h = args[0] * 2\nreturn self.h", init=STATE)) == ["mul"]


def test_a_recurrent_layer_with_dropout_between_its_layers_draws_nothing_in_eval_mode():
    g = graph("return self.rnn(args[0])[0]", init="self.rnn = nn.LSTM(8, 8, 2, dropout=0.5)")
    assert "lstm" in ops(g)


@pytest.mark.parametrize(
    ("forward", "line", "words", "way"),
    [
        ("self.n += 1\nreturn args[0] * self.n", 10, "the module's buffer n", "return it if the caller needs it"),
        ("self.n = self.n + 1\nreturn args[0] * self.n", 10, "the module's buffer n", "return it"),
        ("y = args[0] * 2\nself.n.copy_(y.sum())\nreturn y", 11, "the module's buffer n", "return it"),
        ("args[0].mul_(2)\nreturn args[0] + 1", 10, "its input args_0", "args_0.clone()"),
        ("y = args[0] + 1\nargs[0][:, 0] = 0\nreturn y", 11, "its input args_0", "args_0.clone()"),
        ("return F.relu(args[0], inplace=True) + 1", 10, "its input args_0", "inplace=True"),
    ],
)
def test_a_write_to_an_input_or_to_state_is_refused_with_its_line_and_a_way_out(forward, line, words, way):
    bad = refused(forward, init=COUNTS)
    assert (bad.code, bad.line) == ("writes", line)
    assert f"writes to {words}." in bad.reason and way in bad.reason


def test_a_write_to_what_forward_made_itself_is_traced():
    assert ops(graph("y = args[0] * 2\ny.add_(1)\nreturn y", X)) == ["mul", "add"]


def test_a_recorded_graph_tells_a_write_by_the_copy_onto_its_placeholder():
    import torch

    from engine.trace import fx
    from engine.trace.capture import Capture
    from engine.trace.load import Bad

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n += 1
            return x * self.n

    with pytest.raises(Bad, match="the module's buffer n"):
        Capture(fx.record(Counts(), (torch.ones(4),))).graph()
