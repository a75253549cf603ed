"""A live module as text: the same graph, tensors with the same statistics, and what must be exact is."""

import pytest
import torch
from torch import nn
from ucutlass import search, source

from engine.evaluate.correctness.inputs import torch_dtype
from engine.trace import trace


class Everything(nn.Module):
    """Weights, an index, a mask with infinities, a literal, a recurrent layer, a state that forward writes."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128)
        self.lstm = nn.LSTM(128, 64, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("order", torch.arange(63, -1, -1))
        self.register_buffer("mask", torch.full((16, 16), float("-inf")).triu(1))
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x, scale=2.0):
        h = self.lstm(torch.relu(self.up(x)))[0]
        weights = torch.softmax(h @ h.transpose(-2, -1) + self.mask, -1)
        y = self.norm(weights @ h)[..., self.order] * torch.tensor([1.5]) * scale
        self.seen.add_(y.mean((0, 1)))
        return y, weights.argmax(-1)


def written(module, *arguments):
    live = search.trace(module, arguments)
    return live, source.write("a module", live.graph, live.values, live.inputs)


def test_the_text_has_the_graph_of_the_module():
    live, text = written(Everything().eval(), torch.randn(4, 16, 64), 3.0)
    again = trace(text, local_user=True).graph
    assert [op.op for op in again.live] == [op.op for op in live.graph.live]
    assert [op.attrs for op in again.live] == [op.attrs for op in live.graph.live]
    shapes = [[(t.shape, t.dtype) for n in g.outputs for t in (g.tensors[n],)] for g in (live.graph, again)]
    assert shapes[0] == shapes[1] and len(again.writes) == len(live.graph.writes) == 1
    assert live.others == (3.0,)


def test_the_text_computes_what_the_module_does_with_its_weights():
    module, x = Everything().eval(), torch.randn(4, 16, 64)
    live, text = written(module, x, 2.0)
    names: dict = {"__name__": "text"}
    exec(compile(text, "text", "exec"), names)
    model = names["Model"]()
    with torch.no_grad():
        for name, value in live.values.items():
            getattr(model, source.attribute(name)).copy_(value)
        for out, right in zip(model(x), module(x), strict=True):
            assert torch.allclose(out, right, atol=1e-5)


def test_weights_are_drawn_like_the_modules_and_never_copied():
    module = nn.Linear(256, 256).eval()
    with torch.no_grad():
        module.weight.normal_(3.0, 0.5)
    _, text = written(module, torch.rand(8, 256) + 10)
    names: dict = {"__name__": "text"}
    exec(compile(text, "text", "exec"), names)
    weight, (x,) = next(names["Model"]().parameters()), names["get_inputs"]()
    assert abs(weight.mean() - 3.0) < 0.05 and abs(weight.std() - 0.5) < 0.05 and not torch.equal(weight, module.weight)
    assert x.min() >= 10 and x.max() <= 11 and len(text) < 3000


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(100), torch.tensor([True, False, True]), torch.full((3, 3), float("-inf")).triu(1),
        torch.full((4,), 7, dtype=torch.int32), torch.ones(2, 3, dtype=torch.bfloat16), torch.tensor(float("nan")),
    ],
)  # fmt: skip
def test_what_decides_a_result_is_kept_exactly(x):
    names: dict = {}
    exec(source.HEAD.format(title="t"), names)
    again = eval(source._value(x), names)
    assert again.dtype == x.dtype and torch.equal(again.nan_to_num(7.0), x.nan_to_num(7.0))


def test_large_indices_are_drawn_in_their_range():
    names: dict = {}
    exec(source.HEAD.format(title="t"), names)
    again = eval(source._value(torch.randint(5, 900, (300, 300))), names)
    assert again.shape == (300, 300) and again.min() >= 5 and again.max() < 900 and again.dtype == torch_dtype("i64")
