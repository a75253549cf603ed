"""A pasted module becomes an op graph: ATen ops whole, arguments by name, tensors with their place in the state."""

import pytest

from engine.trace import trace, warm
from tests.engine.traced import in_copies

pytestmark = pytest.mark.usefixtures("full_sandbox")

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def module(forward: str, inputs: str, init: str = "pass") -> str:
    body = "\n".join(f"        {row}" for row in forward.splitlines())
    start = "\n".join(f"        {row}" for row in init.splitlines())
    return (
        f"{HEAD}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{start}\n"
        f"    def forward(self, *args):\n{body}\n\ndef get_inputs():\n    return [{inputs}]\n"
    )


def graph_of(*args, **kwargs):
    return in_copies(module(*args, **kwargs)).graph


def ops(graph):
    return [op.op for op in graph.ops]


def test_a_kernelbench_module_with_init_inputs():
    text = (
        f"{HEAD}\nclass Model(nn.Module):\n    def __init__(self, n, m, slope):\n        super().__init__()\n"
        "        self.fc = nn.Linear(n, m)\n        self.slope = slope\n"
        "    def forward(self, x):\n        x = self.fc(x)\n        x = x * 2.0\n"
        "        return F.leaky_relu(x, self.slope)\n"
        "def get_inputs():\n    return [torch.randn(1024, 8192)]\n"
        "def get_init_inputs():\n    return [8192, 8192, 0.1]\n"
    )
    traced = in_copies(text)
    graph = traced.graph
    assert traced.title == "linear 8192x8192, mul, leaky_relu on 1,024 rows"
    assert traced.has["fake"] is True  # 256 MB of weights were never made
    assert ops(graph) == ["linear", "mul", "leaky_relu"]
    linear, mul, leaky = graph.ops
    assert linear.inputs == ("x", "fc_weight", "fc_bias")
    assert mul.attrs == {"other": 2.0}
    assert leaky.attrs == {"negative_slope": 0.1}
    assert [op.line for op in graph.ops] == [text.splitlines().index(row) + 1 for row in text.splitlines()[10:13]]
    weight = graph.tensors["fc_weight"]
    assert (weight.shape, weight.dtype, weight.kind, weight.path) == ((8192, 8192), "f32", "parameter", "fc.weight")
    assert graph.inputs == ("x",)
    assert graph.tensors[graph.outputs[0]].shape == (1024, 8192)


def test_any_single_module_with_example_inputs():
    text = (
        f'"""Scaled tanh"""\n{HEAD}\nclass Scaled(nn.Module):\n    def forward(self, x, y=None):\n'
        "        return torch.tanh(x) * y\n\n"
        "example_inputs = {'x': torch.randn(3, 5), 'y': torch.randn(5)}\n"
    )
    traced = in_copies(text)
    assert traced.title == "Scaled: tanh, mul on 3 rows", "not the docstring, which an edit may leave behind"
    assert ops(traced.graph) == ["tanh", "mul"]
    assert traced.graph.inputs == ("x", "y")


def test_defaults_are_filled_in_by_their_schema_names():
    graph = graph_of("return F.gelu(args[0]) + torch.clamp(args[0], max=float('inf'))", "torch.randn(4, 8)")
    assert ops(graph) == ["gelu", "clamp", "add"]
    assert graph.ops[0].attrs == {"approximate": "none"}
    assert graph.ops[1].attrs == {"min": None, "max": "inf"}  # JSON has no infinity
    assert graph.ops[2].attrs == {"alpha": 1}


def test_matmul_and_bmm_keep_their_dimensions():
    graph = graph_of(
        "return torch.matmul(args[0], args[1]), torch.bmm(args[2], args[2].transpose(1, 2))",
        "torch.randn(2, 3, 4, 5), torch.randn(5, 6), torch.randn(7, 8, 9)",
    )
    assert ops(graph) == ["matmul", "transpose", "bmm"]
    assert [graph.tensors[o].shape for o in graph.outputs] == [(2, 3, 4, 6), (7, 8, 8)]
    assert graph.ops[1].attrs == {"dim0": 1, "dim1": 2}


def test_mlp_with_dropout_and_in_place_activation_is_functional():
    graph = graph_of(
        "x = self.net(args[0])\nx += args[0]\nreturn x",
        "torch.randn(4, 8)",
        "self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(16, 8))",
    )
    assert ops(graph) == ["linear", "relu", "linear", "add"]
    assert graph.tensors["net_3_weight"].path == "net.3.weight"


def test_half_modules_and_buffers():
    graph = graph_of(
        "return self.norm(args[0].to(torch.bfloat16)) + self.offset",
        "torch.randn(4, 8, dtype=torch.float16)",
        "self.norm = nn.LayerNorm(8).to(torch.bfloat16)\n"
        "self.register_buffer('offset', torch.ones(8, dtype=torch.bfloat16))",
    )
    assert ops(graph) == ["to", "layer_norm", "add"]
    assert graph.ops[0].attrs["dtype"] == "bf16"
    assert graph.tensors["offset"].kind == "buffer"
    assert graph.tensors[graph.outputs[0]].dtype == "bf16"


def test_what_nothing_reads_is_left_out():
    graph = graph_of("unused = args[0] @ args[0].T\nreturn args[0] * 3", "torch.randn(4, 4)")
    assert ops(graph) == ["mul"]
    assert set(graph.tensors) == {*graph.inputs, *graph.outputs}


def test_several_outputs_of_one_op():
    graph = graph_of("a, b = torch.split(args[0], [2, 6], dim=1)\nreturn a, b * 2", "torch.randn(4, 8)")
    split = graph.ops[0]
    assert [graph.tensors[o].shape for o in split.outputs] == [(4, 2), (4, 6)]
    assert graph.ops[1].inputs == (split.outputs[1],)
    assert graph.outputs[0] == split.outputs[0]


@pytest.mark.parametrize(("rates", "fake"), [("torch.linspace(0, 1, 3)", True), ("torch.rand(3).sort()[0]", False)])
def test_a_module_may_read_values_while_it_builds_itself(rates, fake):
    """What it computed itself is known without memory for its weights; what it drew takes real tensors."""
    text = module("return args[0] * self.rates[1]", "torch.randn(4, 8)", f"self.rates = [r.item() for r in {rates}]")
    traced = in_copies(text)
    assert traced.has["fake"] is fake
    assert 0 < traced.graph.ops[0].attrs["other"] < 1 and (not fake or traced.graph.ops[0].attrs == {"other": 0.5})


def test_an_operation_knows_the_module_of_torch_that_the_text_names():
    traced = in_copies(
        module("return self.seq(args[0])[0]", "torch.randn(2, 3, 8)", "self.seq = nn.Sequential(nn.LSTM(8, 4))")
    )
    graph = traced.graph
    assert traced.title == "LSTM on 2 rows", "not the zeros that it begins with"
    assert {op.module for op in graph.ops if op.op != "select"} == {"LSTM"}
    graph = graph_of("return self.fc(args[0]) * 2", "torch.randn(4, 8)", "self.fc = nn.Linear(8, 8)")
    assert [(op.op, op.module) for op in graph.ops] == [("linear", "Linear"), ("mul", "")]


def test_the_same_text_gives_the_same_graph():
    text = module("return self.fc(args[0]).relu()", "torch.randn(4, 8)", "self.fc = nn.Linear(8, 8)")
    warm()
    assert trace(text).graph == in_copies(text).graph, "a child of its own, and a copy of another"
