"""The phases of a transposed convolution lie side by side in a row: a thread stores those of a pixel at once."""

import pytest
import torch
import torch.nn.functional as F

from dsl.ir import NCHW, TensorType
from dsl.lower.cute import lower
from dsl.lower.cute.conv.conv_launches import launches_of

from . import conv_emulator, programs
from .conv_emulator import Memory, kernels, run

WORDS = {1: "conv_transpose1d", 2: "conv_transpose2d", 3: "conv_transpose3d"}


@pytest.fixture(autouse=True)
def fragments(monkeypatch):
    conv_emulator.shape_fragments(monkeypatch)


def program(x, w, stride, tile, store, epilogue="relu(acc + b[c])"):
    d, edge = len(x) - 2, 2 * stride
    out = (x[0], w[1], *(n * stride for n in x[2:]))
    named = {"x": ("f16", x), "w": ("f16", w), "b": ("f32", w[1:2])} | ({"r": ("f32", out)} if "r[" in epilogue else {})
    inputs = ", ".join(f"{n}: {t}[{', '.join(map(str, s))}]" for n, (t, s) in named.items())
    assert w[2] == edge
    return out, programs.program(
        f"program p({inputs}) -> {store}[{', '.join(map(str, out))}] {{\n  arch sm_90a\n"
        "  xt = transform(x) { layout nhwc }\n  wt = transform(w) { layout nhwc }\n"
        f"  y = {WORDS[d]}(xt, wt) {{ stride {'x'.join([str(stride)] * d)} "
        f"padding {'x'.join([str(stride // 2)] * d)} tile {tile} schedule pingpong compute f16 store {store} nchw "
        f"epilogue {epilogue} }}\n  return y\n}}"
    )


def stored(x, w, stride, tile, store):
    """What the generated kernels store, and what PyTorch computes, from the same inputs."""
    torch.manual_seed(1)
    shape, checked = program(x, w, stride, tile, store)
    xs, ws, b = torch.randn(x).half(), torch.randn(w).half() / 4, torch.randn(w[1])
    text = lower(checked).text
    assert "at_once=True" in text
    (stage,) = (s for s in checked.stages if s.name == "y")
    types = {s.name: s.type for s in checked.stages}
    plain = TensorType(stage.type.dtype, stage.type.shape, NCHW)
    launches = launches_of(stage, types["xt"], types["wt"], plain, (), stage.config.tile)
    options = {"stride": stride, "padding": stride // 2}
    sums = getattr(F, WORDS[len(x) - 2])(xs.double(), ws.double(), **options)
    out = torch.full(shape, float("nan"), dtype=torch.float32 if store == "f32" else torch.float16)
    for kernel, launch in zip(kernels(text), launches, strict=True):
        run(kernel, launch, sums.float().numpy(), Memory(out), (Memory(b),))
    want = (sums + b.double().view(-1, *[1] * (len(x) - 2))).relu()
    return out.double(), want


CASES = [
    ((2, 16, 4, 8), (16, 16, 4, 4), 2, "64x32x64", "f32"),
    ((1, 16, 3, 16), (16, 24, 4, 4), 2, "64x48x64", "f16"),  # channels that fill no tile
    ((1, 16, 2, 3, 8), (16, 16, 4, 4, 4), 2, "64x32x64", "f32"),
    ((2, 16, 24), (16, 16, 4), 2, "64x32x64", "f16"),
    ((1, 16, 3, 8), (16, 16, 8, 8), 4, "64x64x64", "f32"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{len(c[0]) - 2}d stride {c[2]} {c[4]}")
def test_each_result_is_that_of_pytorch(case):
    got, want = stored(*case)
    close = 1e-5 if case[4] == "f32" else 2e-3
    torch.testing.assert_close(got, want, rtol=close, atol=close)


@pytest.mark.parametrize(
    ("x", "store", "epilogue"),
    [
        ((2, 16, 4, 9), "f32", "acc + b[c]"),  # rows of 18 results begin within a sector
        ((2, 16, 4, 4), "f16", "acc + b[c]"),  # as do rows of 8 halves
        ((2, 16, 4, 8), "f32", "acc + b[c] + r[b, c, h, w]"),  # each load would wait behind a store
    ],
)
def test_others_leave_through_shared_memory(x, store, epilogue):
    _, checked = program(x, (16, 16, 4, 4), 2, "64x32x64", store, epilogue)
    text = lower(checked).text
    assert "at_once=False" in text and "at_once=True" not in text
