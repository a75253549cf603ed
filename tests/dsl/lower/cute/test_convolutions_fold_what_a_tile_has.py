"""A convolution whose channels are folded, or whose pixels are pooled, before they are stored: run on the emulator from
its sums on. Each lane has what warp-group MMA leaves it, and everything beside a tile's pixels and channels is NaN."""

import ast
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dsl.ir import NCHW, TensorType
from dsl.lower.cute import lower
from dsl.lower.cute.conv.conv_launches import launches_of
from dsl.lower.cute.conv.folds import FoldingConv, fused

from . import emulator, programs

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


class Value(np.ndarray):
    def to(self, dtype):
        return emulator._rounded(np.asarray(self), dtype).view(Value)


class Memory(emulator.Global):
    def __getitem__(self, i):
        return np.asarray(self.flat[i].float().numpy()).view(Value)


class Element:
    """An address, which may be outside of its tensor until somebody accesses it."""

    def __init__(self, pointer, layout):
        self.iterator, self.layout = pointer, layout
        self.element_type = pointer.tensor.element_type

    def __getitem__(self, i):
        return emulator.View(self.iterator, self.layout)[i].view(Value)

    def __setitem__(self, i, value):
        emulator.View(self.iterator, self.layout)[i] = value


class Staged(emulator.Pointer):
    @property
    def dtype(self):
        return self.tensor.element_type

    def __add__(self, offset):
        added = super().__add__(offset)
        return Staged(added.tensor, added.offset)

    def align(self, alignment):
        return Staged(self.tensor, super().align(alignment).offset)


class Fragments:
    """The place of a lane's sum [(half, r, n), m] in a tile, as warp-group MMA has it."""

    def __init__(self, threads, warp_groups):
        lane, warp = threads % 32, threads // 32
        self.row = warp // 4 * 64 + warp % 4 * 16 + lane // 4
        self.column, self.apart = lane % 4 * 2, 64 * warp_groups

    def get_slice(self, thread):
        return self

    def partition_C(self, identity):
        return self

    def __getitem__(self, place):
        (half, r, n), m, _ = place
        return self.row + 8 * r + self.apart * m, self.column + half + 8 * n


class Sums(dict):
    def __setitem__(self, place, value):
        super().__setitem__(place, np.broadcast_to(np.asarray(value, np.float32), (1, self.threads)).view(Value))


def kernels(text):
    """The kernels of a module's convolution, in the order of its launches."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in ("leave", "leave_some", "leave_folded", "leave_window"):
            emulator._Masks().visit(node)
    ast.fix_missing_locations(tree)
    scope = {"__builtins__": {**vars(emulator.builtins), "__import__": emulator._import}, "_masked": emulator.masked}
    exec(compile(tree, "generated", "exec"), scope)
    return [scope[f"Y_{i}"] for i in range(sum(name.startswith("Y_") for name in scope))]


def run(kernel, launch, sums, out, reads):
    """All tiles of one launch. `launch`: where its pixels are in `sums`, [image, channel, space] in f32."""
    kernel.element = lambda tensor, strides, image, channel, pixel: Element(
        tensor.iterator + (np.int64(image) * strides[1] + strides[0] + channel * strides[2]
                           + sum(p * s for p, s in zip(pixel, strides[3:], strict=True))),
        emulator.cute.make_layout(1),
    )  # fmt: skip
    finish = type(kernel).finish
    kernel.finish = lambda *a: np.asarray(finish(kernel, *a), np.float32).view(Value)
    kernel.barrier = lambda: None
    threads = np.arange(128 * kernel.warp_groups)[None]
    emulator._Device.mask = np.ones(threads.shape, bool)
    mine = Fragments(threads, kernel.warp_groups)
    for tile in range(kernel.count):
        at = kernel.place(tile)
        acc = Sums()
        acc.threads = threads.size
        acc.shape = (0, kernel.pixels // 64 // kernel.warp_groups)
        for half, r, n, m in product(range(2), range(2), range(kernel.tile_n // 8), range(acc.shape[1])):
            row, column = mine[(half, r, n), m, 0]
            phase, channel = column // kernel.columns, at[1] + column % kernel.columns
            pixel = kernel.pixel(row, phase, at[2])
            there = kernel.inside(pixel) & (channel < kernel.channels)
            first, b, c, *space = launch.strides
            offset = first + at[3] * b + channel * c + sum(p * s for p, s in zip(pixel, space, strict=True))
            acc[(half, r, n), m, 0] = np.where(there, sums.flatten()[np.where(there, offset, 0)], np.nan)
        staged = Memory(
            torch.full((kernel.staged_size(),), float("nan"), dtype=kernel.staged_type(out.element_type).torch)
        )
        with np.errstate(all="ignore"):
            kernel.store(mine, acc, Staged(staged), threads, (out,), reads, at)


@pytest.fixture(autouse=True)
def fragments(monkeypatch):
    size = emulator.cute.size
    monkeypatch.setattr(
        emulator.cute, "size", lambda x, mode=None: x.shape[mode[0]] if mode else size(x), raising=False
    )


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
