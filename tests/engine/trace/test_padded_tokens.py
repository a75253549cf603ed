"""An encoder with a padding mask computes padded tokens as under torch.compile, which knows no nested tensors."""

import pytest

torch = pytest.importorskip("torch")

from engine.trace import trace  # noqa: E402
from engine.trace.load import load  # noqa: E402

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)

def get_inputs():
    padding = torch.zeros(2, 8, dtype=torch.bool)
    padding[:, 6:] = True
    return [torch.randn(2, 8, 32), padding]
"""


def test_a_padded_token_has_the_same_values_in_every_type_and_way():
    loaded = load(SOURCE)
    inputs = loaded.inputs()
    model = loaded.build()
    with torch.no_grad():
        ours = model(*inputs)
        compiled = torch.export.export(model, inputs).module()(*inputs)
        wide = model.double()(inputs[0].double(), inputs[1])
    assert ours[:, 6:].abs().min() > 0
    torch.testing.assert_close(ours, compiled, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.double(), wide, rtol=1e-4, atol=1e-5)


def test_its_graph_has_the_products_of_every_layer():
    kinds = [op.op for op in trace(SOURCE, local_user=True).graph.ops]
    assert kinds.count("linear") == 2 * 4 and kinds.count("scaled_dot_product_attention") == 2
