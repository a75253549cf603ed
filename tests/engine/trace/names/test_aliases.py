"""An operation under any of its names is traced under one, and gives the same numbers."""

import json
import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from engine.evaluate.candidate.region_runtime import RegionRuntime  # noqa: E402
from engine.trace import capture, exported  # noqa: E402
from sol.graph import OpGraph  # noqa: E402

# name in the graph -> spellings of it, of x and y [2, 3, 4], a mask and integers
SPELLED = {
    "bitwise_and": ["m & m.roll(1, 0)", "i & 3"],
    "bitwise_or": ["m | (x > 0.5)"],
    "bitwise_xor": ["m ^ m.roll(1, 0)"],
    "bitwise_left_shift": ["i << 2"],
    "bitwise_right_shift": ["i >> 1"],
    "transpose": ["x.swapaxes(0, 1)", "x.swapdims(1, 2)", "x.adjoint()", "x.mH", "x[0].H"],
    "permute": ["x.movedim(0, 2)", "torch.moveaxis(x, (0, 1), (-1, 0))", "x.movedim(2, 0)"],
    "reshape": ["x.view_as(y)", "x.reshape_as(y)", "x.ravel()", "torch.atleast_3d(x[0])", "torch.atleast_2d(x[0, 0])"],
    "expand": ["x.broadcast_to(5, 2, 3, 4)"],
    "abs": ["torch.absolute(x - 0.5)"],
    "neg": ["torch.negative(x)"],
    "clamp": ["x.clip(0.2, 0.6)", "x.clip(max=0.5)"],
    "sign": ["(x - 0.5).sgn()"],
    "sigmoid": ["torch.special.expit(x)"],
    "softmax": ["torch.special.softmax(x, -1)"],
    "log_softmax": ["torch.special.log_softmax(x, 1)"],
    "logsumexp": ["torch.special.logsumexp(x, -1)"],
    "atan": ["torch.arctan(x)"],
    "atan2": ["torch.arctan2(x, y)"],
    "matmul": ["x.ravel().dot(y.ravel())"],
    "zeros_like": ["x.cos() * x.clone().zero_() + 1"],
    "leaky_relu": ["F.rrelu(x - 0.5)", "F.rrelu(x - 0.5, 0.1, 0.2)"],
}
CASES = [(name, text) for name, texts in SPELLED.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES, ids=[text for _, text in CASES])
def test_a_spelling(name, text):
    forward = eval(f"lambda self, x, y, m, i: {text}", {"torch": torch, "F": F})
    model = type("Model", (torch.nn.Module,), {"forward": forward})().eval()
    torch.manual_seed(0)
    inputs = (torch.rand(2, 3, 4), torch.rand(2, 3, 4), torch.rand(2, 3, 4) > 0.5, torch.arange(1, 9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = OpGraph.from_json(json.dumps(capture.Capture(exported.export(model, inputs)).graph()))
    assert name in [op.op for op in graph.ops]
    results = RegionRuntime(graph, [], "cpu", "f32").run(dict(zip(graph.inputs, inputs, strict=True)))
    torch.testing.assert_close(results[graph.outputs[0]], model(*inputs))


def test_other_results_than_the_plain_name_gives_stay():
    """A complex adjoint conjugates, and the sign of a complex number is no sign()."""
    forward = lambda self, z: (z.adjoint(), z.sgn())  # noqa: E731
    model = type("Model", (torch.nn.Module,), {"forward": forward})()
    graph = capture.Capture(exported.export(model, (torch.randn(3, 4, dtype=torch.complex64),))).graph()
    assert {"adjoint", "sgn"} <= {op["op"] for op in graph["ops"]}
