"""Numbers that a module takes from its element type stay those of this type where it is computed in float64."""

import pytest
import torch

from engine.devices import Problem
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.reference.own_types import OwnTypes
from engine.evaluate.shared_tensors import read
from tests.engine.traced import once

SOURCE = """import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(64, dtype=torch.TYPE)

    def forward(self, x):
        LINE
def get_inputs(): return [1e-3 * torch.randn(8, 64, dtype=torch.TYPE)]
"""
NORMS = ("return self.norm(x)", "return F.rms_norm(x, (64,))")
BY_HAND = "return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps)"


@pytest.mark.parametrize(("line", "dtype", "eps"), [
    *((line, "float32", torch.float32) for line in NORMS),
    *((line, "bfloat16", torch.float32) for line in NORMS),  # which PyTorch computes in float32
    *((line, "float64", torch.float64) for line in NORMS),
    (BY_HAND, "float32", torch.float32),
    (BY_HAND, "bfloat16", torch.bfloat16),
    (BY_HAND.replace("return x", "x = x.float(); return x"), "float16", torch.float32),
])  # fmt: skip
def test_an_eps_is_that_of_the_modules_own_type(line, dtype, eps):
    source = SOURCE.replace("LINE", line).replace("TYPE", dtype)
    with Reference(Problem(source, "module", once(source).graph, 0)) as reference:
        out = reference.compute("own", 0)
        (right,) = read(out.region).values()
        x = read(reference.inputs_own())["x"].double()
    assert out.precision == "f64"
    by_hand = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(eps).eps)
    torch.testing.assert_close(right, by_hand, rtol=1e-12, atol=0)


def test_types_are_given_in_the_order_of_the_call():
    types, finfo = OwnTypes(), torch.finfo

    def call(*dtypes):
        return [torch.finfo(d).dtype for d in dtypes]

    with types.used():
        assert call(torch.float64) == ["float64"]
    assert types.unknown
    with types.noted():
        call(torch.float16, torch.float32)
    with types.used():
        assert call(torch.float64, torch.float64, torch.float64) == ["float16", "float32", "float64"]
    assert not types.unknown and torch.finfo is finfo
