"""What a slice of a result asks of the inputs, counted again by gradients: an input element that no output depends on
has none."""

import json

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.bounds import external_bytes, fused_bound, roofs  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402

F = nn.functional


class Call(nn.Module):
    def __init__(self, fn, *weights):
        super().__init__()
        self.fn, self.weights = fn, nn.ParameterList(torch.rand(w) + 0.1 for w in weights)

    def forward(self, *x):
        return self.fn(*x, *self.weights)


def traced(module, *inputs):
    return OpGraph.from_json(json.dumps(Capture(export(module.eval(), inputs)).graph()))


def depended_on(module, inputs):
    """Elements of each input and parameter that some output element changes with."""
    tensors = [x.requires_grad_() for x in inputs] + list(module.parameters())
    module(*tensors[: len(inputs)]).pow(2).sum().backward()
    return [0 if t.grad is None else 4 * int((t.grad != 0).sum()) for t in tensors]


SLICED = {
    "columns of element-wise work": (lambda x: (x * 2 + 1)[:, :8], [(16, 64)], []),
    "a row for all": (lambda x, b: (x + b)[:, :8], [(16, 64), (64,)], []),
    "a column for all": (lambda x, b: (x * b)[3:7], [(16, 64), (16, 1)], []),
    "a triangle of element-wise work": (lambda x: torch.tril(x * 2), [(32, 32)], []),
    "the last row of a linear layer": (lambda x, w, b: F.linear(x, w, b)[:, -1], [(4, 8, 16)], [(24, 16), (24,)]),
    "some columns of a linear layer": (lambda x, w, b: F.linear(x, w, b)[..., :6], [(4, 8, 16)], [(24, 16), (24,)]),
    "a tile of a product": (lambda a, b: (a @ b).relu()[:4, :6], [(16, 8), (8, 24)], []),
    "a row of a product behind a view": (lambda a, b: (a @ b).view(2, 8, 24)[:, 0], [(16, 8), (8, 24)], []),
    "two rows of a softmax": (lambda x: x.softmax(-1)[:2], [(16, 64)], []),
    "a row of a layer norm": (lambda x: F.layer_norm(x, (64,))[:, 5], [(4, 16, 64)], []),
    "another's shape alone": (lambda x, y: x.expand_as(y) * 2 + x.reshape_as(y), [(4, 16), (4, 16)], []),
    "two halves of a whole": (lambda x: torch.cat((x[:, :8].relu(), x[:, 8:]), 1), [(4, 16)], []),
    "the same half twice": (lambda x: x[:, :8].exp() * x[:, :8], [(4, 16)], []),
    "all of it, and a part again": (lambda x: (x * 2).sum(1, keepdim=True) + (x * 3)[:, :1], [(4, 16)], []),
}


@pytest.mark.parametrize("name", SLICED)
def test_bytes_are_those_that_the_output_depends_on(name):
    fn, shapes, weights = SLICED[name]
    module = Call(fn, *weights)
    torch.manual_seed(0)  # an element whose gradient is zero by chance would not count as read
    inputs = [torch.rand(s) + 0.1 for s in shapes]
    graph = traced(module, *inputs)
    sizes = external_bytes(graph)
    outside = [n for n, t in graph.tensors.items() if t.kind == "parameter"]
    assert [sizes.get(n, 0) for n in (*graph.inputs, *outside)] == depended_on(module, inputs)


def test_element_wise_work_that_nothing_reads_is_in_no_bound():
    bound = fused_bound(traced(Call(lambda x: x.exp()[:, :8]), torch.rand(16, 64)), load("h200"), "f32")
    assert bound.flops == 16 * 8
    assert bound.special_ms == roofs(0, 16 * 8, 16 * 8, 0, load("h200"), "f32").special_ms


RESAMPLED = {
    "every eighth": (lambda x: F.interpolate(x, scale_factor=0.125), (2, 3, 32, 32), 2 * 3 * 4 * 4),
    "every eighth, from its middle": (
        lambda x: F.interpolate(x, scale_factor=0.125, mode="nearest-exact"), (2, 3, 32, 32), 2 * 3 * 4 * 4
    ),
    "four around each": (
        lambda x: F.interpolate(x, scale_factor=0.125, mode="bilinear"), (2, 3, 32, 32), 2 * 3 * 4 * 4 * 4
    ),
    "all, to blur before": (
        lambda x: F.interpolate(x, scale_factor=0.125, mode="bilinear", antialias=True), (2, 3, 32, 32), 2 * 3 * 32 * 32
    ),
    "what is not overwritten": (lambda x: torch.slice_scatter(x, torch.ones(4, 12), 1, 0, 12), (4, 16), 4 * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", RESAMPLED)
def test_a_resampled_image_is_read_where_its_points_lie(name):
    fn, shape, elements = RESAMPLED[name]
    x = torch.rand(shape)
    graph = traced(Call(fn), x)
    assert external_bytes(graph)[graph.inputs[0]] == 4 * elements == depended_on(Call(fn), [x])[0]
