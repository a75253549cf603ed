"""Operations of packed sequences run beside regions, with the sizes of their steps on the CPU."""

import pytest
import torch

from engine.evaluate.candidate import aten_calls
from engine.evaluate.candidate.allowed_aten import ALLOWED
from engine.evaluate.candidate.aten_calls import OnHost
from engine.evaluate.fused_calls import Fused, Row

LSTM = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False}


@pytest.mark.parametrize(
    ("op", "many", "attrs", "place"),
    [
        ("_pack_padded_sequence", 2, {"batch_first": True}, 1),
        ("_pad_packed_sequence", 2, {"batch_first": True, "padding_value": 0.0, "total_length": 0}, 1),
        ("lstm", 8, LSTM | {"hx": ["@"] * 2, "params": ["@"] * 4}, 1),
        ("gru", 7, LSTM, 1),
        ("lstm", 7, LSTM | {"batch_first": True, "hx": ["@"] * 2, "params": ["@"] * 4}, None),
    ],
)
def test_only_the_sizes_are_read_on_the_cpu(op, many, attrs, place):
    assert op in ALLOWED
    call = aten_calls.find(op, many, attrs, torch.device("cpu"), None)
    assert [how for how in call.ordered if isinstance(how, OnHost)] == ([] if place is None else [place])


def test_a_compiled_call_copies_them_there():
    call = aten_calls.find("_pack_padded_sequence", 2, {"batch_first": True}, torch.device("cpu"), None)
    fused = Fused([Row(call, ["x", "lengths"], ["data", "sizes"])], ["x", "lengths"], ["data", "sizes"])
    module, x, lengths = fused.module(), torch.randn(2, 3, 4), torch.tensor([3, 1])
    assert any(node.kwargs == {"device": torch.device("cpu")} for node in module.graph.nodes)
    for ours, right in zip(module(x, lengths), torch._VF._pack_padded_sequence(x, lengths, True), strict=True):
        assert torch.equal(ours, right)
    assert torch.equal(call([x, lengths])[0], module(x, lengths)[0])
