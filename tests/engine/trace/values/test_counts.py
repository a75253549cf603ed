"""A size that depends on values counts in operations: as the end of a range, and as a number."""

import pytest
import torch

from engine.evaluate.candidate.aten import operation
from tests.engine.traced import once

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)

    def forward(self, x, keep):
        rows = self.net(x[keep])
        LINE

def get_inputs():
    return [torch.arange(48.0).view(6, 8), torch.arange(6) % 2 == 0]
"""
LINES = {
    "return (rows * torch.arange(rows.shape[0])[:, None]).sum(0)": ["select", "ones_like", "cumsum", "sub"],
    "return rows.T[1] @ torch.arange(0, rows.size(0)).float()": ["select", "ones_like", "cumsum", "sub"],
    "return rows.sum(0) / rows.shape[0]": ["select", "ones_like", "sum"],
}


@pytest.mark.parametrize("line", LINES)
def test_it_is_counted_in_a_tensor_that_has_it(line):
    graph = once(SOURCE.replace("LINE", line), local_user=True).graph
    names = [op.op for op in graph.ops]
    assert str(LINES[line])[1:-1] in str(names)


@pytest.mark.parametrize("line", LINES)
def test_the_graph_computes_what_pytorch_computes_for_any_number_of_rows(line):
    graph = once(SOURCE.replace("LINE", line), local_user=True).graph
    scope: dict = {}
    exec(SOURCE.replace("LINE", line), scope)
    model = scope["Model"]()
    for many in (1, 2, 5):
        values = dict(zip(graph.inputs, (torch.randn(6, 8), torch.arange(6) < many), strict=True))
        right = model(*values.values())
        values |= {t.name: model.get_parameter(t.path) for t in graph.tensors.values() if t.kind == "parameter"}
        for op in graph.ops:
            results = operation(op, "cpu")([values[name] for name in op.inputs])
            values |= dict(zip(op.outputs, results, strict=False))
        torch.testing.assert_close(values[graph.outputs[0]], right)
