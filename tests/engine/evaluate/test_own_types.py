"""Numbers that a module takes from its element type stay those of this type where it is computed in float64."""

from types import SimpleNamespace

import pytest
import torch

from engine.devices import Problem
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.reference.own_types import OwnTypes
from engine.evaluate.reference.right_results import RightResults
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


@pytest.mark.parametrize(
    "line", ["self.low(self.norm(x).to(torch.bfloat16))", "self.norm(self.low(x.to(torch.bfloat16)).float())"]
)
def test_types_are_noted_beside_casts_that_the_text_names(line):
    source = SOURCE.replace("LINE", f"return {line}.float()").replace("TYPE", "float32")
    source = source.replace(
        "    def forward", "        self.low = torch.nn.Linear(64, 64).bfloat16()\n\n    def forward"
    )
    with Reference(Problem(source, "module", once(source).graph, 0)) as reference:
        assert reference.compute("own", 0).precision == "f64"
        assert reference.pytorch_error("own", 0, "bf16").error > 1e-4


def test_right_results_of_halves_in_own_types_are_as_written(monkeypatch):
    for inside, expected in (("bfloat16", "as written"), ("float32", "f32")):
        source = SOURCE.replace("LINE", f"return x.to(torch.{inside}).exp().float()").replace("TYPE", "float32")
        right = RightResults(SimpleNamespace(graph=once(source).graph, device="cpu", torch=torch))
        for name, value in (("values", {}), ("_parts", []), ("_whole", ("f32", [torch.ones(8, 64)]))):
            monkeypatch.setattr(right, name, lambda *_, value=value: value)
        assert right.results("own", 0, None)[0] == expected


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
