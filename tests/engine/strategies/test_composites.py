"""A loss or a norm of vectors becomes a program of the operations that it is made of, and means what PyTorch's does."""

import json

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.devices import SessionRefused
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.regions.partition import partition
from engine.trace.capture import Capture
from engine.trace.exported import export
from sol.graph import OpGraph

COMPOSED = {
    "mse": F.mse_loss,
    "mse of sums": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse of elements": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "l1": F.l1_loss,
    "smooth l1": lambda x, y: F.smooth_l1_loss(x, y, beta=0.3),
    "smooth l1 without a bend": lambda x, y: F.smooth_l1_loss(x, y, beta=0.0),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.7),
    "logits": lambda x, y: F.binary_cross_entropy_with_logits(40 * x, y),
    "soft margin": lambda x, y: F.soft_margin_loss(x, torch.tanh(y)),
    "ranking": lambda x, y: F.margin_ranking_loss(x, y, 2 * x, margin=0.1),
    "triplet": lambda x, y: F.triplet_margin_loss(x, y, 2 * y, margin=0.4),
    "divergence": lambda x, y: F.kl_div(F.log_softmax(x, -1), torch.relu(y), reduction="sum"),
    "divergence of logarithms": lambda x, y: F.kl_div(x, y, reduction="none", log_target=True),
    "slopes of channels": lambda x, y: F.prelu(x, y.mean(0)),
    "deviation": lambda x, y: x * torch.std(x - y, dim=1, keepdim=True),
    "variance of columns": lambda x, y: torch.var(x * y, dim=0, correction=0),
    "variance of all": lambda x, y: torch.var(x @ y.T),
    "norm": lambda x, y: torch.norm(x - y),
    "norm of rows": lambda x, y: x / torch.norm(x, dim=1, keepdim=True) + y,
    "norm of columns": lambda x, y: torch.linalg.vector_norm(x * y, dim=0),
    "sum of magnitudes": lambda x, y: torch.linalg.vector_norm(x @ y.T, ord=1, dim=-1),
    "largest magnitude": lambda x, y: torch.linalg.vector_norm(x + y, ord=float("inf"), dim=(0, 1), keepdim=True),
    "rows of length one": lambda x, y: F.normalize(x @ y.T, dim=-1),
    "least of two": lambda x, y: torch.min(x, y) * torch.max(x, 2 * y),
    "between tensors": lambda x, y: torch.clamp(x, y.abs() - 1, y.abs()) + torch.clamp(x, max=y),
    "after a product": lambda x, y: F.mse_loss(x @ y.T, y @ x.T),
}


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def traced(function):
    x, y = torch.randn(24, 16), torch.randn(24, 16)
    return OpGraph.from_json(json.dumps(Capture(export(Model(function).eval(), (x, y))).graph())), x, y


@pytest.mark.parametrize("name", COMPOSED)
def test_its_program_computes_it(name):
    torch.manual_seed(0)
    graph, x, y = traced(COMPOSED[name])
    lowered = lower(graph)
    result = check(to_text(lowered.program("tf32")))
    assert result.ok and generate(result.program, 132).sources, result.diagnostics
    tensors = dict(zip(graph.inputs, (x.double(), y.double()), strict=True))
    (out,) = oracle.run(result.program, [tensors[b.tensor].reshape(b.shape) for b in lowered.inputs], exact=True)
    expected = COMPOSED[name](x.double(), y.double())
    torch.testing.assert_close(out.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, weight=y),
        lambda x, y: F.triplet_margin_loss(x, y, 2 * y, p=1.0),
        lambda x, y: F.triplet_margin_loss(x, y, 2 * y, swap=True),
        lambda x, y: F.poisson_nll_loss(x, y),
        lambda x, y: torch.linalg.vector_norm(x, ord=3),
    ],
)
def test_one_without_a_formula_stays_pytorch_by_its_own_name(function):
    graph, _, _ = traced(function)
    with pytest.raises(SessionRefused) as refused:
        lower(graph)
    assert refused.value.op in {op.name for op in graph.ops}
    names = ("_loss", "kl_div", "logits", "linalg_vector_norm")
    assert any(name in refused.value.reason for name in names)


def test_its_region_has_the_operation_of_the_module():
    graph, _, _ = traced(lambda x, y: F.mse_loss(torch.logcumsumexp(x, 0) + y, y))
    cut = partition(graph)
    assert [u.op for u in cut.uncovered] == ["logcumsumexp"]
    assert [op.op for op in cut.regions[0].graph.ops] == ["add", "mse_loss"]


def test_an_input_of_another_shape_is_expanded():
    graph, _, _ = traced(lambda x, y: F.mse_loss(x, y[:1].sum(0)))
    assert [op.op for op in graph.ops].count("expand") == 1 and "broadcast_tensors" not in {op.op for op in graph.ops}
