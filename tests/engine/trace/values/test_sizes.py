"""Tensors whose size depends on values are traced with the size of one call, and marked."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from tests.engine.traced import in_copies, once

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, x, chosen, ids):
        y = self.net(x)
        LINE

def get_inputs():
    return [torch.randn(6, 8), torch.arange(6) % 3 == 0, torch.tensor([1, 1, 2, 0, 5, 3])]
"""
TAKEN = {
    "return y[y > 0].mean()": "index",
    "return y.masked_select(y > 0).sum()": "masked_select",
    "return torch.zeros_like(y).index_add(0, torch.where(y[:, 0] > 0)[0], y[torch.where(y[:, 0] > 0)[0]])": "where",
    "y[y < 0] = x[y < 0] * 0.1; return y": "index",
    "u, inverse = torch.unique(ids, return_inverse=True); return self.net(x[u])[inverse]": "_unique2",
    "return self.net(x.repeat_interleave(ids, 0)).amax(0)": "repeat_interleave",
    "return F.cross_entropy(y[chosen], ids[chosen])": "index",
    "return y[chosen]": "index",
    "return y[torch.nonzero(y[:, 0] > 0).squeeze(1)].view(-1, 2, 4).sum(0)": "_reshape_copy",
}


def source(line: str) -> str:
    return SOURCE.replace("LINE", line)


@pytest.mark.parametrize("line", TAKEN)
def test_what_has_a_size_of_values_is_marked(line):
    graph = once(source(line), local_user=True).graph
    varying = [op.op for op in graph.ops if any(graph.tensors[n].varies for n in op.outputs)]
    assert TAKEN[line] in varying and "linear" in [op.op for op in graph.ops]


def test_a_tensor_has_the_size_that_it_has_in_a_call():
    graph = once(source("return y[chosen]"), local_user=True).graph
    (index,) = (op for op in graph.ops if op.op == "index")
    assert graph.tensors[index.outputs[0]].shape == (2, 8) and not graph.tensors[index.inputs[0]].varies


def test_no_rows_count_as_one_and_another_size_is_marked_in_the_json_alone_where_it_varies():
    graph = once(source("return y[y > 1e9].sum() + y.sum()"), local_user=True).graph
    (index,) = (op for op in graph.ops if op.op == "index")
    assert graph.tensors[index.outputs[0]].shape == (1,)
    assert graph.to_json().count('"varies"') == 1 and type(graph).from_json(graph.to_json()) == graph


@pytest.mark.parametrize("line", ["return y[y > 0]", "return y, torch.nonzero(y > 0)"])
def test_a_result_whose_size_depends_on_values_that_are_drawn_anew_is_refused(line):
    with pytest.raises(
        SessionRefused, match=r"Line 13.*a result whose size depends on values.*and the mask"
    ) as refusal:
        in_copies(source(line), local_user=True)
    assert (refusal.value.code, refusal.value.line) == ("varying_result", 13)
