"""PyTorch's attention whose heads are too wide for a stage is two products around a softmax, also with a mask."""

import pytest

pytest.importorskip("torch")

import torch
import torch.nn.functional as F

from dsl.check.program import check
from dsl.ir import Attention, Gemm, Normalize
from dsl.printer import to_text
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import assert_means, traced

sdpa = F.scaled_dot_product_attention
HEADS = [(2, 3, 32, 512)] * 3
# Name -> the function and the shapes of its inputs.
CASES = {
    "wide heads": (sdpa, HEADS),
    "a mask of numbers": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [*HEADS, (32, 32)]),
    "a bias of each head": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m, scale=0.3), [*HEADS, (2, 3, 32, 32)]),
    "keys that do not count": (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [*HEADS, (1, 1, 1, 32)]),
    "other keys than queries": (
        lambda q, k, v, m: sdpa(q, k, v, attn_mask=m).relu(),
        [(2, 3, 16, 64), (2, 3, 48, 64), (2, 3, 48, 320), (16, 48)],
    ),
    "one axis of batches": (sdpa, [(4, 32, 512)] * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_means_what_pytorch_computes(name):
    torch.manual_seed(0)
    function, shapes = CASES[name]
    inputs = [torch.randn(shape) for shape in shapes]
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    program = check(to_text(region.lowered.program("tf32"))).program
    kinds = [type(s) for s in program.stages]
    assert kinds.count(Gemm) == 2 and kinds.count(Normalize) == 1 and Attention not in kinds
    assert_means(program, region, graph, function, inputs)


def test_a_mask_over_narrow_heads_stays_pytorch():
    """Its kernel keeps the scores on the chip, and ours would not."""
    inputs = [torch.randn(shape) for shape in ((2, 3, 32, 64),) * 3 + ((32, 32),)]
    split = partition(traced(lambda q, k, v, m: sdpa(q, k, v, attn_mask=m).sigmoid(), *inputs))
    assert "scaled_dot_product_attention" in {u.op for u in split.uncovered}


def test_what_a_stage_takes_stays_one():
    graph = traced(sdpa, *(torch.randn(2, 3, 32, 64) for _ in range(3)))
    (region,) = partition(graph).regions
    stages = check(to_text(region.lowered.program("f16"))).program.stages
    assert any(isinstance(s, Attention) for s in stages) and not any(isinstance(s, Gemm) for s in stages)


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: sdpa(q, k, v, is_causal=True),
        lambda q, k, v: sdpa(q, k, v, attn_mask=torch.ones(32, 32, dtype=torch.bool).tril()),
        lambda q, k, v: sdpa(q, k, v, attn_mask=q.new_zeros(1, 3, 32, 32)),
        lambda q, k, v: sdpa(q, k[:, :1], v[:, :1], enable_gqa=True),
    ],
    ids=["causal", "a mask of truths", "a mask of each head", "groups of heads"],
)
def test_others_of_wide_heads_stay_pytorch(function):
    split = partition(traced(lambda q, k, v: function(q, k, v).sigmoid(), *(torch.randn(2, 3, 32, 512) for _ in "qkv")))
    assert "scaled_dot_product_attention" in {u.op for u in split.uncovered}
