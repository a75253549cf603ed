"""A convolution whose channels are folded, or whose pixels are pooled, before they are stored: run on the emulator from
its sums on. Each lane has what warp-group MMA leaves it, and everything beside a tile's pixels and channels is NaN."""

import pytest
import torch
import torch.nn.functional as F

from dsl.ir import NCHW, TensorType
from dsl.lower.cute import lower
from dsl.lower.cute.conv.conv_launches import launches_of
from dsl.lower.cute.conv.folds import FoldingConv, fused

from . import conv_emulator, programs
from .conv_emulator import Memory, kernels, run

PLAIN = ("conv2d", (2, 16, 11, 13), (24, 16, 3, 3), "tile 64x32x64 schedule pingpong", ())
MANY = ("conv2d", (2, 16, 11, 13), (72, 16, 3, 3), "tile 64x32x64 schedule pingpong", ())  # tiles of channels
COOPERATIVE = ("conv2d", (1, 64, 18, 18), (72, 64, 3, 3), "tile 128x80x64 schedule cooperative", ())
PHASES = ("conv_transpose2d", (2, 16, 6, 8), (16, 24, 3, 3), "tile 64x48x64 schedule pingpong", (2, 2))
CUBE = ("conv_transpose3d", (1, 16, 3, 4, 5), (16, 16, 3, 3, 3), "tile 64x32x64 schedule pingpong", (2, 2, 2))
TURNED = ("conv_transpose2d", (1, 16, 9, 13), (16, 24, 3, 3), "tile 64x32x64 schedule pingpong", ())
VOLUME = ("conv3d", (1, 16, 6, 9, 7), (24, 16, 3, 3, 3), "tile 64x32x64 schedule pingpong", ())
APART = ("conv_transpose2d", (1, 16, 5, 7), (16, 24, 3, 3), "tile 64x32x64 schedule pingpong", (3, 3))
FOLDS = {
    "sum": lambda h: h.sum(1), "mean": lambda h: h.mean(1), "max": lambda h: h.amax(1), "min": lambda h: h.amin(1),
    "logsumexp": lambda h: h.logsumexp(1), "softmax": lambda h: h.softmax(1), "log_softmax": lambda h: h.log_softmax(1),
}  # fmt: skip


POOLS = {"max": {2: F.max_pool2d, 3: F.max_pool3d}, "avg": {2: F.avg_pool2d, 3: F.avg_pool3d}}


def generated(conv, op, store="f32", layout="nchw"):
    """The program in which `op` folds a convolution's channels, or (op, window) pools its pixels; its tensors x, w, b,
    r by name; its result's shape."""
    word, x, w, clauses, stride = conv
    torch.manual_seed(1)
    tensors = {"x": torch.randn(x), "w": torch.randn(w) / 4}
    out = getattr(F, word)(tensors["x"], tensors["w"], stride=stride or 1).shape
    if stride:
        clauses += f" stride {'x'.join(map(str, stride))}"
    pools = not isinstance(op, str)
    whole = pools or op in ("softmax", "log_softmax")
    y = tuple(out) if whole else (out[0], *out[2:])
    if pools:
        y = (*out[:2], *(n // k for n, k in zip(out[2:], op[1], strict=True)))
    tensors |= {"b": torch.randn(out[1]), "r": torch.randn(y)}
    axes = ", ".join(["b", *(["c"] if whole else []), *("d", "h", "w")[-(len(out) - 2) :]])
    shapes = ", ".join(f"{n}: f32[{', '.join(map(str, t.shape))}]" for n, t in tensors.items())
    reader = "pool" if pools else "normalize" if whole else "reduce"
    window = "x".join(map(str, op[1])) if pools else ""
    how = f"op {op[0]} window {window} stride {window}" if pools else f"op {op} over c"
    end = "  return y" if layout == "nchw" else "  z = transform(y) { layout nchw }\n  return z"
    layout = f" {layout}" if whole else ""
    return tensors, y, programs.program(
        f"program p({shapes}) -> {store}[{', '.join(map(str, y))}] {{\n  arch sm_90a\n"
        "  xt = transform(x) { layout nhwc to f16 }\n  wt = transform(w) { layout nhwc to f16 }\n"
        f"  h = {word}(xt, wt) {{ compute f16 {clauses} store f32 epilogue acc * 0.5 + b[c] }}\n"
        f"  y = {reader}(h) {{ {how} store {store}{layout} epilogue acc * 2.0 + r[{axes}] }}\n{end}\n}}"
    )  # fmt: skip


@pytest.fixture(autouse=True)
def fragments(monkeypatch):
    conv_emulator.shape_fragments(monkeypatch)


def folded(conv, op, store="f32", layout="nchw"):
    """What the generated kernels store, and what PyTorch computes, from the same inputs."""
    tensors, shape, program = generated(conv, op, store, layout)
    (stage,) = (s for s in fused(program).stages if isinstance(s, FoldingConv))
    text = lower(program).text
    kind = stage.sums
    plain = TensorType(kind.dtype, kind.shape, NCHW)
    types = {s.name: s.type for s in program.stages}
    launches = launches_of(stage, types["xt"], types["wt"], plain, (), stage.config.tile)
    word, *_, stride = conv
    halves = [tensors[n].half().double() for n in ("x", "w")]
    sums = getattr(F, word)(*halves, stride=stride or 1)
    kind_of = {"dtype": torch.float32 if store == "f32" else torch.float16}
    out = torch.full(shape if layout == "nchw" else (shape[0], *shape[2:], shape[1]), float("nan"), **kind_of)
    reads = [Memory(tensors[x]) for x in ("r", "b")]
    name = "FoldKernel" if isinstance(op, str) else "PoolKernel"
    assert f"Y_{len(launches) - 1} = {name}(" in text
    for kernel, launch in zip(kernels(text), launches, strict=True):
        run(kernel, launch, sums.float().numpy(), Memory(out), tuple(reads))
    channel = (-1, *[1] * (len(kind.shape) - 2))
    before = sums * 0.5 + tensors["b"].double().view(channel)
    whole = FOLDS[op](before) if isinstance(op, str) else POOLS[op[0]][stage.spatial](before, op[1])
    out = out if layout == "nchw" else out.movedim(-1, 1)
    return out.double(), whole * 2.0 + tensors["r"].double()


@pytest.mark.parametrize("op", FOLDS)
def test_each_fold_is_that_of_pytorch(op):
    got, expected = folded(PLAIN, op)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["min", "softmax"])
@pytest.mark.parametrize("conv", [COOPERATIVE, PHASES, CUBE, APART])
def test_whatever_the_tile_and_the_phases_are(conv, op):
    got, expected = folded(conv, op)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["logsumexp", "softmax"])
def test_results_in_half_precision(op):
    got, expected = folded(PLAIN, op, "f16")
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("store, layout", [("f32", "nchw"), ("f32", "nhwc"), ("f16", "nhwc")])
@pytest.mark.parametrize("op", ["max", "avg"])
def test_a_pool_is_that_of_pytorch_however_its_result_lies(op, store, layout):
    got, expected = folded(PLAIN, (op, (2, 2)), store, layout)
    close = 1e-5 if store == "f32" else 2e-3
    torch.testing.assert_close(got, expected, rtol=close, atol=2 * close)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    "conv, window",
    [(MANY, (2, 2)), (COOPERATIVE, (4, 2)), (COOPERATIVE, (1, 4)), (TURNED, (2, 2)), (VOLUME, (2, 1, 2))],
)
def test_windows_of_other_shapes_tiles_and_images(conv, window, layout):
    got, expected = folded(conv, ("max", window), layout=layout)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
