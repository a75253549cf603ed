"""What stays PyTorch runs from its traced words alone, by ATen's schemas; nothing that is not on the list runs."""

import json

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from engine.evaluate.candidate.aten import ALLOWED, UnknownOp, operation  # noqa: E402
from engine.evaluate.candidate.region_runtime import RegionRuntime  # noqa: E402
from engine.trace import capture, exported  # noqa: E402
from sol.graph import Op, OpGraph  # noqa: E402


def traced(model, inputs):
    """(graph, every tensor that it reads), through JSON as the sandbox sends it."""
    program = exported.export(model, inputs)
    graph = OpGraph.from_json(json.dumps(capture.Capture(program).graph()))
    state = {**dict(model.named_parameters()), **dict(model.named_buffers()), **program.constants}
    values = dict(zip(graph.inputs, inputs, strict=True))
    values |= {t.name: state[t.path] for t in graph.tensors.values() if t.path in state}
    return graph, values


class Mixture(torch.nn.Module):
    """Lists with and without holes, two lists in one call, several results, views of copies, types, constants."""

    def __init__(self):
        super().__init__()
        self.q, self.lstm = torch.nn.Linear(32, 96), torch.nn.LSTM(32, 16, batch_first=True)
        self.table, self.heads = torch.nn.Embedding(10, 32), torch.nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, ids):
        x = x + self.table(ids)
        q, k, v = self.q(x).chunk(3, dim=-1)
        a = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        h, _ = self.lstm(a)
        y, _ = self.heads(x, x, x, need_weights=False)
        top, at = y.topk(3, dim=-1)
        z = torch.where(y > top[..., -1:], y, torch.full_like(y, float("-inf")))
        z = torch.softmax(z, -1).nan_to_num() * x[:, :, [0]]
        return torch.cat([h, z.cumsum(1)], -1), at, torch.gather(x, 2, at), x.to(torch.float16), x[:, [0, 2]]


def test_a_traced_module_gives_what_the_module_gives():
    torch.manual_seed(0)
    model, inputs = Mixture().eval(), (torch.randn(2, 5, 32), torch.randint(0, 10, (2, 5)))
    graph, values = traced(model, inputs)
    results = RegionRuntime(graph, [], "cpu", "f32").run(values)
    with torch.no_grad():
        wanted = model(*inputs)
    for name, want in zip(graph.outputs, wanted, strict=True):
        assert results[name].dtype == want.dtype
        torch.testing.assert_close(results[name], want, rtol=1e-5, atol=1e-5)


class Assigns(torch.nn.Module):
    """Writes to parts of a tensor of its own, which tracing makes functional."""

    def forward(self, x, at):
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1] * 2
        y[0] = 1.0
        y[at, 0] = x[at, 1]
        y[1].copy_(x[0])
        return y


def test_writes_to_parts_of_a_tensor_that_forward_made_give_what_the_module_gives():
    inputs = torch.randn(4, 5), torch.tensor([1, 3])
    graph, values = traced(Assigns(), inputs)
    assert {"slice_scatter", "select_scatter", "index_put"} <= {op.op for op in graph.ops}
    (result,) = RegionRuntime(graph, [], "cpu", "f32").run(values).values()
    torch.testing.assert_close(result, Assigns()(*inputs))


@pytest.mark.parametrize("name", ["from_file", "_cudnn_rnn", "as_strided", "set_", "rand", "empty", "no_such_op"])
def test_what_is_not_on_the_list_does_not_run(name):
    assert name not in ALLOWED
    with pytest.raises(UnknownOp, match=f"`aten.{name}` is not among"):
        operation(Op("x", name, ("a",), ("b",), {}), "cpu")


@pytest.mark.parametrize(
    "inputs, attrs",
    [
        (("a",), {"dim": "no"}),
        (("a",), {"dim": -1, "dtype": None, "more": 1}),
        (("a", "b"), {"dim": -1, "dtype": None}),
        ((), {"dim": -1, "dtype": None}),
        (("a",), {"dim": True, "dtype": None}),
    ],
)
def test_arguments_that_no_schema_has_are_refused(inputs, attrs):
    with pytest.raises(UnknownOp, match="fit none of its schemas"):
        operation(Op("x", "softmax", inputs, ("y",), attrs), "cpu")


def test_a_factory_makes_its_tensor_where_the_rest_runs_wherever_it_was_traced():
    attrs = {
        "size": [2, 3],
        "fill_value": "-inf",
        "dtype": "f16",
        "layout": None,
        "device": "cuda:7",
        "pin_memory": False,
    }
    (tensor,) = operation(Op("x", "full", (), ("y",), attrs), "cpu")([])
    assert tensor.device.type == "cpu" and tensor.dtype is torch.float16 and torch.isinf(tensor).all()
