"""FLOPs and bytes of traced modules against torch's own counter, which knows nothing of our rules."""

import json

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from engine.trace.capture import Capture, export  # noqa: E402
from sol.bounds import bounds, external_bytes  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402
from sol.ops import bytes_only, cost  # noqa: E402
from sol.report import report  # noqa: E402

H200 = load("h200")


class Fn(nn.Module):
    """A module from a function, for what has no parameters."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


def r(*shape):
    return torch.rand(*shape)


F = nn.functional
MODULES = {
    "linear": (nn.Linear(64, 32), r(8, 64)),
    "linear without bias": (nn.Linear(64, 32, bias=False), r(4, 8, 64)),
    "mlp": (nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 16), nn.Softmax(-1)), r(8, 64)),
    "matmul": (Fn(lambda a, b: a @ b), r(32, 48), r(48, 16)),
    "matmul transposed": (Fn(lambda a, b: a.T @ b.T), r(48, 32), r(16, 48)),
    "matmul 3-D by 2-D": (Fn(lambda a, b: a @ b), r(4, 32, 48), r(48, 16)),
    "bmm": (Fn(torch.bmm), r(4, 32, 48), r(4, 48, 16)),
    "matrix by vector": (Fn(lambda a, v: a @ v), r(32, 48), r(48, 1)),
    "einsum": (Fn(lambda a, b: torch.einsum("bijl,lk->bijk", a, b)), r(2, 4, 4, 16), r(16, 8)),
    "einsum of scores": (Fn(lambda a, b: torch.einsum("bihd,bjhd->bhij", a, b)), r(2, 6, 3, 8), r(2, 5, 3, 8)),
    "addmm": (Fn(lambda c, a, b: torch.addmm(c, a, b)), r(32, 16), r(32, 48), r(48, 16)),
    "baddbmm": (Fn(lambda c, a, b: torch.baddbmm(c, a, b)), r(4, 32, 16), r(4, 32, 48), r(4, 48, 16)),
    "conv1d": (nn.Conv1d(8, 16, 3, stride=2, dilation=2), r(2, 8, 64)),
    "conv2d": (nn.Conv2d(8, 16, 3, padding=1), r(2, 8, 32, 32)),
    "conv2d strided": (nn.Conv2d(3, 16, 7, stride=4, padding=2), r(2, 3, 64, 64)),
    "conv2d grouped": (nn.Conv2d(8, 16, 3, groups=4), r(2, 8, 32, 32)),
    "conv2d depthwise": (nn.Conv2d(8, 8, 3, groups=8), r(2, 8, 32, 32)),
    "conv2d oblong": (nn.Conv2d(8, 16, (5, 9), padding=(2, 4), dilation=(2, 3)), r(2, 8, 64, 64)),
    "conv3d": (nn.Conv3d(4, 8, 3), r(2, 4, 8, 16, 16)),
    "conv_transpose1d": (nn.ConvTranspose1d(8, 16, 3, stride=2), r(2, 8, 64)),
    "conv_transpose2d": (nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1), r(2, 8, 16, 16)),
    "conv_transpose2d grouped": (nn.ConvTranspose2d(8, 16, 3, groups=2), r(2, 8, 16, 16)),
    "conv_transpose3d": (nn.ConvTranspose3d(4, 8, 3), r(2, 4, 8, 8, 8)),
    "conv, norm, pool": (
        nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        r(2, 4, 32, 32),
    ),
    "conv, group norm": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(4, 8), nn.Hardswish()), r(2, 4, 32, 32)),
    "conv, instance norm": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.InstanceNorm2d(8)), r(2, 4, 32, 32)),
    "attention by hand": (
        Fn(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v),
        r(2, 4, 32, 16),
        r(2, 4, 48, 16),
        r(2, 4, 48, 16),
    ),
}
# torch counts attention on a GPU only; tests/sol/test_ops.py has its FLOPs by hand
UNCOUNTED = {
    "attention": (
        Fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)),
        r(2, 4, 32, 16),
        r(2, 4, 48, 16),
        r(2, 4, 48, 16),
    ),
}
NO_PRODUCTS = {
    "relu": (nn.ReLU(), r(64, 64)),
    "leaky_relu": (nn.LeakyReLU(0.1), r(64, 64)),
    "sigmoid": (nn.Sigmoid(), r(64, 64)),
    "silu": (nn.SiLU(), r(64, 64)),
    "mish": (nn.Mish(), r(64, 64)),
    "elu": (nn.ELU(), r(64, 64)),
    "selu": (nn.SELU(), r(64, 64)),
    "softplus": (nn.Softplus(), r(64, 64)),
    "softsign": (nn.Softsign(), r(64, 64)),
    "hardtanh": (nn.Hardtanh(), r(64, 64)),
    "hardsigmoid": (nn.Hardsigmoid(), r(64, 64)),
    "new gelu": (Fn(lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x.pow(3))))), r(64, 64)),
    "softmax": (nn.Softmax(1), r(64, 64)),
    "log_softmax": (nn.LogSoftmax(1), r(64, 64)),
    "batch norm": (nn.BatchNorm2d(8), r(4, 8, 16, 16)),
    "layer norm": (nn.LayerNorm(64), r(16, 64)),
    "group norm": (nn.GroupNorm(2, 8), r(4, 8, 16, 16)),
    "rms norm": (nn.RMSNorm(64), r(16, 64)),
    "frobenius": (Fn(lambda x: x / torch.norm(x, p="fro")), r(64, 64)),
    "l1 norm": (Fn(lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True)), r(64, 64)),
    "max pool 1-D": (nn.MaxPool1d(4), r(4, 8, 64)),
    "max pool 2-D": (nn.MaxPool2d(2), r(4, 8, 16, 16)),
    "max pool 3-D": (nn.MaxPool3d(2), r(4, 8, 8, 8, 8)),
    "avg pool 1-D": (nn.AvgPool1d(4), r(4, 8, 64)),
    "avg pool 2-D": (nn.AvgPool2d(2), r(4, 8, 16, 16)),
    "avg pool 3-D": (nn.AvgPool3d(2), r(4, 8, 8, 8, 8)),
    "adaptive pool": (nn.AdaptiveAvgPool2d(1), r(4, 8, 16, 16)),
    "sum": (Fn(lambda x: x.sum(1, keepdim=True)), r(64, 64)),
    "mean": (Fn(lambda x: x.mean(1)), r(64, 64)),
    "max": (Fn(lambda x: x.max(1)[0]), r(64, 64)),
    "min": (Fn(lambda x: x.min(1)[0]), r(64, 64)),
    "prod": (Fn(lambda x: x.prod(1)), r(64, 64)),
    "argmax": (Fn(lambda x: x.argmax(1)), r(64, 64)),
    "logsumexp": (Fn(lambda x: x.logsumexp(1)), r(64, 64)),
    "cumsum": (Fn(lambda x: x.cumsum(1)), r(64, 64)),
    "cumprod": (Fn(lambda x: x.cumprod(1)), r(64, 64)),
    "reverse cumsum": (Fn(lambda x: torch.cumsum(x.flip(1), 1).flip(1)), r(64, 64)),
    "mse": (Fn(lambda a, b: torch.mean((a - b) ** 2)), r(64, 64), r(64, 64)),
    "smooth l1": (Fn(F.smooth_l1_loss), r(64, 64), r(64, 64)),
    "cross entropy": (Fn(F.cross_entropy), r(64, 10), torch.randint(0, 10, (64,))),
    "kl_div": (Fn(lambda a, b: F.kl_div(a.log(), b, reduction="batchmean")), r(64, 10), r(64, 10)),
    "hinge": (Fn(lambda a, b: torch.mean(torch.clamp(1 - a * b, min=0))), r(64, 64), r(64, 64)),
    "cosine loss": (Fn(lambda a, b: torch.mean(1 - F.cosine_similarity(a, b, dim=1))), r(64, 64), r(64, 64)),
    "triplet loss": (nn.TripletMarginLoss(), r(64, 64), r(64, 64), r(64, 64)),
    "scale": (Fn(lambda a: a * 2.5), r(64, 64)),
    "concatenate": (Fn(lambda a, b: torch.cat([a, b], 1)), r(8, 8), r(8, 8)),
    "upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), r(2, 3, 8, 8)),
    "triangle": (Fn(lambda a: torch.tril(a)), r(64, 64)),
}  # fmt: skip

ALL = MODULES | UNCOUNTED | NO_PRODUCTS


def traced(case):
    module, *inputs = case
    graph = Capture(export(module.eval(), tuple(inputs))).graph()
    return module, tuple(inputs), OpGraph.from_json(json.dumps(graph))


@pytest.mark.parametrize("name", MODULES)
def test_matrix_flops_equal_torchs_counter(name):
    module, inputs, graph = traced(MODULES[name])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    ours = sum(cost(op, graph.tensors).matrix for op in graph.ops)
    assert ours == counter.get_total_flops() > 0


@pytest.mark.parametrize("name", ALL)
def test_bytes_are_the_distinct_inputs_parameters_and_outputs(name):
    module, inputs, graph = traced(ALL[name])
    with torch.no_grad():
        out = module(*inputs)
    read = [*inputs, *(p for n, p in module.state_dict().items() if not n.endswith("num_batches_tracked"))]
    expected = sum(t.numel() * t.element_size() for t in [*read, out])
    assert sum(external_bytes(graph).values()) == expected


@pytest.mark.parametrize("name", NO_PRODUCTS)
def test_every_operation_is_known_by_name(name):
    _, _, graph = traced(NO_PRODUCTS[name])
    assert bytes_only(graph.ops, graph.tensors) == ()
    assert bounds(graph, H200, "f32").fused.bound_by == "memory"


@pytest.mark.parametrize("name", ALL)
def test_every_module_gets_a_report(name):
    _, _, graph = traced(ALL[name])
    made = report(graph, H200)
    assert made.sentence and made.to_html() and made.to_markdown()


def test_an_lstm_multiplies_each_weight_with_every_step():
    _, _, graph = traced((nn.LSTM(16, 32, 2, batch_first=True), r(4, 10, 16)))
    weights = 4 * 32 * (16 + 32) + 4 * 32 * (32 + 32)
    assert sum(cost(op, graph.tensors).matrix for op in graph.ops) == 2 * 4 * 10 * weights


def test_an_embedding_touches_the_rows_it_takes():
    _, _, graph = traced((nn.Embedding(10_000, 64), torch.randint(0, 10_000, (32,))))
    assert sum(external_bytes(graph).values()) == 32 * 8 + 2 * 32 * 64 * 4
