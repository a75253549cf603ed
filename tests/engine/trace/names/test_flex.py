"""flex_attention is traced as the operations that it stands for, and they give the results of PyTorch's own."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from engine.trace.names import flex
from tests.engine.traced import once

pytestmark = pytest.mark.filterwarnings("ignore")
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])


def causal(b, h, i, j):
    return i >= j


def second_half(b, h, i, j):
    """Rows of the first half see nothing."""
    return (i >= 64) & (j <= i)


def sloped(score, b, h, i, j):
    return score - SLOPES[h] * (i - j).abs()


@pytest.mark.parametrize("score", [None, sloped])
@pytest.mark.parametrize("mask", [None, causal, second_half])
@pytest.mark.parametrize("heads", [4, 2])
def test_it_computes_what_pytorch_computes(score, mask, heads):
    torch.manual_seed(0)
    q, (k, v) = torch.randn(2, 4, 128, 16), torch.randn(2, 2, heads, 128, 16)
    blocks = create_block_mask(mask, None, None, 128, 128, device="cpu") if mask else None
    how = {"score_mod": score, "block_mask": blocks, "enable_gqa": heads == 2, "return_lse": True}
    with torch.no_grad():
        right, sums = flex_attention(q, k, v, **how)
        with flex.opened():
            ours, our_sums = flex_attention(q, k, v, **how)
    torch.testing.assert_close(ours, right)
    torch.testing.assert_close(our_sums, sums)


def test_the_mask_of_a_function_is_pytorchs():
    right = create_block_mask(second_half, 2, 4, 128, 128, device="cpu").to_dense()
    with flex.opened():
        assert torch.equal(create_block_mask(second_half, 2, 4, 128, 128, device="cpu").to_dense(), right)


SOURCE = """
import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(64, 64)
        self.mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")

    def forward(self, x):
        q = self.net(x).view(2, 128, 4, 16).transpose(1, 2)
        return flex_attention(q, q, q, HOW)

def get_inputs():
    return [torch.randn(2, 128, 64)]
"""
HOWS = {
    "block_mask=None": "scaled_dot_product_attention",
    "block_mask=self.mask": "scaled_dot_product_attention",
    "block_mask=create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device=x.device)":
        "scaled_dot_product_attention",
    "score_mod=lambda s, b, h, i, j: s + (j - i) * 0.1": "softmax",
}  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
def test_a_module_with_it_is_traced_whole(how):
    traced = once(SOURCE.replace("HOW", how), local_user=True)
    names = [op.op for op in traced.graph.ops]
    assert traced.has["by"] == "torch.export" and HOWS[how] in names and "linear" in names
