"""A forward that draws by chance is refused by name, line and a way out."""

import pytest

pytest.importorskip("torch")

from tests.engine.trace.test_edges import graph, ops, refused

SDPA = "return F.scaled_dot_product_attention(args[0], args[0], args[0], dropout_p={})"


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
    ("forward", "words"),
    [
        (
            "g = torch.Generator().manual_seed(0); return args[0] + torch.rand(8, 8, generator=g)",
            "(rand) from a torch.G",
        ),
        ("g = torch.Generator(); return args[0][torch.randperm(8, generator=g)]", "(randperm) from a torch.Generator"),
        ("\n        torch.manual_seed(0)\n        return args[0] + torch.randn(8, 8)", "(randn) after manual_seed"),
    ],
)
def test_numbers_of_a_seed_are_drawn_in_the_constructor(forward, words):
    bad = refused(forward)
    assert bad.code == "random" and f"draws random numbers {words}" in bad.reason
    assert bad.reason.endswith("draw them once in __init__, and register them as a buffer.")


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


def test_a_recurrent_layer_with_dropout_between_its_layers_draws_nothing_in_eval_mode():
    g = graph("return self.rnn(args[0])[0]", init="self.rnn = nn.LSTM(8, 8, 2, dropout=0.5)")
    assert "lstm" in ops(g)
