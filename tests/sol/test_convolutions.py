"""The convolution half of the suite: traced on fake tensors, priced, and held against what one H200 really took."""

import json
from statistics import median

import pytest
from suite59 import PROBLEMS

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.attainable import predict_eager  # noqa: E402
from sol.bounds import fused_bound, recast  # noqa: E402
from sol.cost.graph_costs import costs_of  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402

H200 = load("h200")
F = nn.functional
C1, C2, C3, T2, T3 = nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d


def e(*shape):
    return torch.empty(*shape, device="meta")


class Then(nn.Module):
    """A convolution and what follows it; `p` holds the tail's own parameters and modules."""

    def __init__(self, conv, tail, **p):
        super().__init__()
        self.conv, self.tail = conv, tail
        for name, value in p.items():
            setattr(self, name, value if isinstance(value, nn.Module) else nn.Parameter(value))

    def forward(self, x, *more):
        return self.tail(self, self.conv(x), *more)


def build():
    """Problem -> (module, inputs) without memory: everything lives on the meta device."""
    up = {"stride": 2, "padding": 1, "output_padding": 1}
    half = torch.tensor(0.5)
    c128, image = C2(64, 128, 3), e(128, 64, 128, 128)
    return {
        "L1/50": (C2(3, 96, 11, 4, 2), e(256, 3, 224, 224)),
        "L1/54": (C3(3, 64, 3, bias=False), e(16, 3, 64, 64, 64)),
        "L1/55": (C2(64, 128, 3, bias=False), e(8, 64, 512, 1024)),
        "L1/56": (C2(64, 128, (5, 7), bias=False), e(8, 64, 512, 256)),
        "L1/57": (T2(64, 64, 3, bias=False), e(8, 64, 1024, 1024)),
        "L1/61": (T3(48, 48, 3, bias=False), e(8, 48, 64, 64, 64)),
        "L1/63": (C2(16, 128, 3, bias=False), e(16, 16, 1024, 1024)),
        "L1/67": (C1(64, 128, 3, bias=False), e(32, 64, 131072)),
        "L1/76": (C1(64, 128, 3, 3, dilation=4, bias=False), e(64, 64, 524280)),
        "L1/80": (C2(32, 64, (5, 9), padding=(2, 4), dilation=(2, 3), bias=False), e(8, 32, 512, 512)),
        "L1/82": (C2(64, 64, 3, groups=64, bias=False), e(16, 64, 512, 512)),
        "L1/86": (
            nn.Sequential(C2(64, 64, 3, padding=1, groups=64, bias=False), C2(64, 128, 1, bias=False)),
            e(16, 64, 512, 512),
        ),
        "L1/87": (C2(64, 128, 1, bias=False), e(16, 64, 1024, 1024)),
        "L2/1": (Then(c128, lambda s, y: F.relu(y) + s.b, b=e(128, 1, 1)), image),
        "L2/2": (
            Then(T2(64, 64, 3, **up), lambda s, y: ((y + s.b).clamp(0, 1) * 2).clamp(0, 1) / 2, b=e(64, 1, 1)),
            image,
        ),
        "L2/4": (Then(c128, lambda s, y: F.mish(F.mish(y))), e(64, 64, 256, 256)),
        "L2/7": (
            Then(C3(8, 32, 3), lambda s, y: F.gelu(F.leaky_relu(F.relu(y))).sigmoid() + s.b, b=e(32, 1, 1, 1)),
            e(64, 8, 32, 64, 64),
        ),
        "L2/16": (Then(T2(64, 64, 3, **up), lambda s, y: F.hardtanh(F.mish(y) + 0.5) * 2), image),
        "L2/17": (Then(c128, lambda s, y: F.instance_norm(y) / 2), image),
        "L2/21": (
            Then(
                C2(8, 32, 3),
                lambda s, y: s.n(((y + s.b) * s.k).sigmoid()),
                b=e(32, 1, 1),
                k=e(32, 1, 1),
                n=nn.GroupNorm(8, 32),
            ),
            e(128, 8, 256, 256),
        ),
        "L2/26": (
            Then(T3(32, 64, 3, **up), lambda s, y, a: (y + a) * F.hardswish(y + a)),
            e(128, 32, 16, 16, 16),
            e(128, 64, 32, 32, 32),
        ),
        "L2/31": (Then(c128, lambda s, y: (torch.min(y, half) + s.b) * 2, b=e(128, 1, 1)), image),
        "L2/35": (Then(c128, lambda s, y: F.mish(F.max_pool2d(F.hardswish(y - 0.5), 2))), image),
        "L2/43": (
            Then(C3(32, 64, 3, padding=1), lambda s, y: F.relu(F.max_pool3d(y, 2).logsumexp(1, keepdim=True))),
            e(4, 32, 32, 128, 128),
        ),
        "L2/47": (Then(C3(32, 64, 3), lambda s, y: F.mish(y).tanh()), e(16, 32, 32, 64, 64)),
        "L2/52": (
            Then(c128, lambda s, y: s.n(y * F.softplus(y).tanh()), n=nn.BatchNorm2d(128)),
            e(64, 64, 128, 128),
        ),
        "L2/57": (
            Then(C2(8, 64, 3), lambda s, y: F.relu(y) * ((F.relu(y) + 3) / 6).clamp(0, 1)),
            e(128, 8, 128, 128),
        ),
    }


@pytest.fixture(scope="module")
def graphs():
    with torch.device("meta"):
        return {
            pid: OpGraph.from_json(json.dumps(Capture(export(module.eval(), tuple(inputs))).graph()))
            for pid, (module, *inputs) in build().items()
        }


def test_the_whole_family_is_here(graphs):
    assert set(graphs) == {pid for pid, p in PROBLEMS.items() if p["family"] == "conv"}


def test_flops_and_bytes_are_those_of_the_suite(graphs):
    for pid, graph in graphs.items():
        f = fused_bound(graph, H200, "tf32")
        assert f.bytes / 1e6 == pytest.approx(PROBLEMS[pid]["compulsory_mb"], rel=2e-3), pid
        # the suite counts products alone; tails add up to a tenth
        counted = sum(c.flops for c in costs_of(graph).values())
        assert PROBLEMS[pid]["gflop"] * 0.999 <= counted / 1e9 <= PROBLEMS[pid]["gflop"] * 1.1, pid
        assert 0.8 * counted < f.flops <= counted, pid  # taps on padding need not be multiplied


def test_no_recorded_time_is_below_the_bound(graphs):
    for pid, graph in graphs.items():
        times = PROBLEMS[pid]["h200_ms"]
        assert times["strict_fp32"] > fused_bound(graph, H200, "f32").ms, pid
        assert min(times["tf32"], times["tf32_compiled"]) > fused_bound(graph, H200, "tf32").ms, pid
        assert times["fp16"] > fused_bound(recast(graph, "f16"), H200, "f16").ms, pid


@pytest.mark.parametrize(("cls", "recorded"), [("f32", "strict_fp32"), ("tf32", "tf32"), ("f16", "fp16")])
def test_eager_is_predicted_within_a_quarter(graphs, cls, recorded):
    differences = {
        pid: predict_eager(graph, H200, cls, cast_inputs=False).ms / PROBLEMS[pid]["h200_ms"][recorded] - 1
        for pid, graph in graphs.items()
    }
    assert median(map(abs, differences.values())) < 0.25, differences
