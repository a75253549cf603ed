"""The casts of torch.autocast are operations of the graph, where the module is traced for the device that casts."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.session.runner import run
from tests.engine.counting import CountingDevice, spec
from tests.engine.traced import once

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x):
        with BLOCK:
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                y = F.layer_norm(y.float(), (32,))
            y = self.b(y)
        return y

def get_inputs():
    return [torch.randn(4, 16)]
"""
BLOCKS = ["torch.autocast('cpu', dtype=torch.bfloat16)", "torch.autocast(device_type=x.device.type)"]


@pytest.mark.parametrize("block", BLOCKS)
def test_operands_are_cast_as_pytorch_casts_them(block):
    graph = once(SOURCE.replace("BLOCK", block), local_user=True).graph
    products = [op for op in graph.ops if op.op == "linear"]
    assert [{graph.tensors[n].dtype for n in op.inputs} for op in products] == [{"bf16"}, {"bf16"}]
    (norm,) = (op for op in graph.ops if op.op == "layer_norm")
    assert graph.tensors[norm.inputs[0]].dtype == "f32" and norm.line == 15
    assert graph.tensors[graph.outputs[0]].dtype == "bf16"


def test_a_block_of_another_device_casts_nothing():
    graph = once(SOURCE.replace("BLOCK", "torch.autocast('cuda')"), local_user=True).graph
    assert {t.dtype for t in graph.tensors.values()} == {"f32"} and [op.op for op in graph.ops].count("linear") == 2


def test_on_a_gpu_whose_casts_are_others_it_is_refused_with_its_line():
    source = SOURCE.replace("BLOCK", BLOCKS[1])
    traced = once(source, local_user=True)
    with pytest.raises(SessionRefused, match="Line 13 computes under autocast, whose casts are others on a GPU") as e:
        traced.on_gpu()
    assert (e.value.code, e.value.line) == ("not_covered", 13)
    device = CountingDevice()
    device.kind = "measured"
    emitted = list(run(spec(source=source, source_kind="module"), device=device, tracer=lambda *_, **__: traced))
    assert (emitted[-1].event.state, emitted[-1].event.code) == ("refused", "not_covered")
