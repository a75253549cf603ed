"""PyTorch's f16 is predicted as it is measured, under torch.autocast: softmax and norms stay in float32."""

import pytest
from suite59 import Builder, gemm_problem

from sol.hardware import load
from sol.model.autocast import autocast
from sol.model.eager import predict_eager

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

H200 = load("h200")


def casts(graph):
    return [s.name for s in predict_eager(graph, H200, "f16", autocast=True).stages if s.name.startswith("cast ")]


def test_a_softmax_alone_is_computed_in_float32_without_a_cast():
    b = Builder()
    graph = b.done(b.op("softmax", b.input("x", 4096, 4096), dim=-1))
    own, f32 = predict_eager(graph, H200, "f16", autocast=True), predict_eager(graph, H200, "f32")
    assert casts(graph) == [] and own.ms == pytest.approx(f32.ms)
    assert predict_eager(graph, H200, "f16").ms > 1.8 * own.ms  # with casts on both sides


def test_a_linear_layer_casts_its_input_and_its_parameters_and_returns_halves():
    graph = autocast(gemm_problem("L2/12"), "f16")
    assert len([op for op in graph.ops if op.op == "to"]) == 3
    assert {graph.tensors[n].dtype for n in graph.outputs} == {"f16"}


def test_a_weight_that_two_operations_read_is_cast_twice():
    b = Builder()
    x, w = b.input("x", 64, 64), b.param("w", 64, 64)
    y = b.op("mm", b.op("mm", x, w, shape=(64, 64)), w, shape=(64, 64))
    assert casts(b.done(y)) == ["cast x", "cast w", "cast w, again (2)"]


def test_what_follows_a_norm_of_halves_is_float32():
    b = Builder()
    y = b.op("layer_norm", b.linear(b.input("x", 64, 64), 64), normalized_shape=[64])
    z = b.op("relu", y)
    graph = autocast(b.done(z), "f16")
    assert [graph.tensors[n].dtype for n in (y, z)] == ["f32", "f32"]
    assert any(op.name == f"cast {b.ops[0].name}" for op in graph.ops)  # the norm's input


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.conv, self.bn = nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8)

    def forward(self, x):
        h = self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        a = torch.softmax(h @ h.transpose(1, 2), dim=-1) @ h
        c = torch.relu(self.bn(self.conv(a)))
        s = torch.cat([c, x], dim=1)
        return h, a, c, s, s.exp().sum(-1), s * torch.sigmoid(s), c.mean(-1), (c - a).pow(2).rsqrt()


def test_the_types_are_those_of_torch_autocast():
    """On the CPU, whose lists are shorter: what differs (gelu, for one) is not compared here."""
    model, x = Block().eval(), torch.randn(2, 8, 32)
    graph = autocast(OpGraph.from_json(_json(Capture(export(model, (x,))).graph())), "bf16")
    types = {torch.float32: "f32", torch.bfloat16: "bf16"}
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        theirs = [types[y.dtype] for y in model(x)]
    ours = [graph.tensors[n].dtype for n in graph.outputs]
    assert ours[:4] == theirs[:4] and ours[5:7] == theirs[5:7]
    assert [ours[4], ours[7]] == ["f32", "f32"]  # exp and pow, on CUDA


def _json(graph):
    import json

    return json.dumps(graph)
