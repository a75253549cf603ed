"""Zeros around the input of a convolution become its padding, with the same results."""

import json

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from engine.evaluate.candidate.region_runtime import RegionRuntime  # noqa: E402
from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

CONV = nn.Conv2d(4, 6, 3, stride=2).eval().requires_grad_(False)
BOTH = nn.Conv2d(4, 6, 3, padding=1, groups=2).eval().requires_grad_(False)
LINE = nn.Conv1d(4, 6, 5, padding=2).eval().requires_grad_(False)
IMAGE, ROW = torch.randn(2, 4, 9, 7), torch.randn(2, 4, 11)
CASES = {
    "same padding": (lambda x: CONV(F.pad(x, (1, 1, 1, 1))), IMAGE, ["conv2d"], [1, 1]),
    "one axis": (lambda x: CONV(F.pad(x, (2, 2))), IMAGE, ["conv2d"], [0, 2]),
    "beside its own": (lambda x: BOTH(nn.ZeroPad2d((3, 3, 1, 1))(x)), IMAGE, ["conv2d"], [2, 4]),
    "a line": (lambda x: LINE(F.pad(x, (1, 1))), ROW, ["conv1d"], [3]),
    "of two": (lambda x: CONV(F.pad(x, (1, 1, 1, 1))) + CONV(F.pad(x, (1, 1, 1, 1))).relu(), IMAGE,
               ["conv2d", "relu", "add"], [1, 1]),
    "read beside": (lambda x: (y := F.pad(x, (1, 1, 1, 1)), CONV(y).sum() + y.sum())[1], IMAGE,
                    ["pad", "conv2d", "sum", "sum", "add"], [1, 1]),
    "one side": (lambda x: CONV(F.pad(x, (0, 1, 0, 1))), IMAGE, ["pad", "conv2d"], [0, 0]),
    "ones": (lambda x: CONV(F.pad(x, (1, 1, 1, 1), value=1.0)), IMAGE, ["pad", "conv2d"], [0, 0]),
    "mirrored": (lambda x: CONV(F.pad(x, (1, 1, 1, 1), mode="reflect")), IMAGE, ["pad", "conv2d"], [0, 0]),
    "cut": (lambda x: CONV(F.pad(x, (-1, -1, -1, -1))), IMAGE, ["pad", "conv2d"], [0, 0]),
    "channels too": (lambda x: CONV(F.pad(x[:, :2], (1, 1, 1, 1, 1, 1))), IMAGE, ["slice", "pad", "conv2d"], [0, 0]),
    "no batch": (lambda x: CONV(F.pad(x[0], (1, 1, 1, 1))), IMAGE, ["select", "pad", "conv2d"], [0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_padded_convolution(name):
    forward, x, ops, padding = CASES[name]
    model = type("Model", (nn.Module,), {"forward": lambda self, x: forward(x)})()
    model.convolutions = nn.ModuleList([CONV, BOTH, LINE])
    program = export(model, (x,))
    graph = OpGraph.from_json(json.dumps(Capture(program).graph()))
    assert [op.op for op in graph.ops] == ops
    assert next(op.attrs["padding"] for op in graph.ops if op.op.startswith("conv")) == padding
    values = {n: dict(model.named_parameters())[t.path] for n, t in graph.tensors.items() if t.kind == "parameter"}
    results = RegionRuntime(graph, [], "cpu", "f32").run(values | {graph.inputs[0]: x})
    torch.testing.assert_close(results[graph.outputs[0]], model(x))
