"""Convolutions that keep their weights and a tile's whole window in shared memory: when, and where each pixel lies."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dsl.check.program import check
from dsl.lower.cute import lower
from dsl.lower.cute.conv.whole_window import WHOLE
from dsl.resolve import resolve
from dsl.rules.cute import whole_window

TEXT = """program p(x: f16[{x}], w: f16[{w}], b: f32[{k}]) -> {out}[{y}] {{
  arch sm_90a
  xt = transform(x) {{ layout nhwc }}
  wt = transform(w) {{ layout nhwc }}
  {name} = conv{d}d(xt, wt) {{ {clauses} {options} compute f16 tile {tile} store {store} epilogue acc + b[c] }}
  {tail}return y
}}"""
LARGE = ((64, 64, 66, 130), (64, 64, 3, 3))


def text(
    x,
    w,
    clauses="",
    tile="128x64x64",
    options="schedule pingpong",
    store="f32 nchw",
    name="y",
    tail="",
    out="f32",
    y=None,
):
    by_name = dict(zip(clauses.split()[::2], clauses.split()[1::2], strict=True))
    padding, dilation = (
        tuple(map(int, by_name.get(n, "x".join([str(v)] * (len(x) - 2))).split("x")))
        for n, v in (("padding", 0), ("dilation", 1))
    )
    size = [n + 2 * p - e * (k - 1) for n, p, e, k in zip(x[2:], padding, dilation, w[2:], strict=True)]
    named = {n: ", ".join(map(str, v)) for n, v in (("x", x), ("w", w), ("y", y or (x[0], w[0], *size)))}
    source = TEXT.format(
        **named, k=w[0], d=len(x) - 2, clauses=clauses, options=options, tile=tile, store=store, name=name, tail=tail,
        out=out,
    )  # fmt: skip
    checked = check(source)
    assert checked.ok, [d.render(source) for d in checked.diagnostics]
    return lower(resolve(checked.program)).text


def kept(generated: str) -> bool:
    return "= whole_window(" in generated


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"options": "schedule cooperative"}, False),  # two warp groups share a tile
        ({"options": "schedule pingpong stages 5"}, False),  # a number of stages asks for the streaming kernel
        ({"x": (1, 64, 34, 34)}, False),  # so few tiles are not worth the loading of the weights
        ({"w": (64, 64, 1, 1)}, False),  # no window
        ({"w": (128, 64, 3, 3)}, False),  # a tile has half of the channels
        ({"w": (64, 64, 5, 5)}, False),  # 200 KiB of weights
        ({"w": (32, 64, 5, 5), "tile": "128x32x64"}, True),
        ({"store": "f16 nchw", "out": "f16"}, True),
        # Rows of results that begin within a sector: few columns alone, and no rows of eight.
        ({"x": (64, 64, 66, 129)}, True),
        ({"x": (64, 64, 66, 129), "w": (128, 64, 3, 3), "tile": "128x128x64"}, False),
        ({"w": (128, 64, 3, 3), "tile": "128x128x64"}, True),
        ({"x": (256, 64, 34, 31)}, True),
    ],
)
def test_it_is_taken_where_all_fits_and_the_program_leaves_it_open(change, expected):
    shapes = {"x": (64, 64, 66, 130), "w": (64, 64, 3, 3)}
    assert kept(text(**(shapes | change))) is expected


def test_a_strided_or_grouped_convolution_streams():
    stage = SimpleNamespace(transposed=False, groups=1, stride=(2, 2))
    assert whole_window.window_of(stage, *[SimpleNamespace(dtype=None)] * 4) is None
    stage = SimpleNamespace(transposed=False, groups=2, stride=(1, 1))
    assert whole_window.window_of(stage, *[SimpleNamespace(dtype=None)] * 4) is None


def test_what_folds_channels_may_have_any_box_and_a_pool_by_rows_streams():
    x, w = (4, 32, 32, 128, 128), (64, 32, 3, 3, 3)
    fold = "y = reduce(z) { op logsumexp over c store f32 }\n  "
    folded = text(x, w, "padding 1x1x1", store="f32", name="z", tail=fold, y=(4, 32, 128, 128))
    assert "whole_window(FoldKernel)" in folded
    pool = "y = pool(z) { op max window 2x2 store f32 nchw }\n  "
    pooled = text((64, 64, 66, 130), (64, 64, 3, 3), store="f32", name="z", tail=pool, y=(64, 64, 32, 64))
    assert "PoolKernel(" in pooled and not kept(pooled)


def config_of(generated: str) -> dict:
    call = generated.split("= whole_window(ConvKernel)(\n    y_epilogue,\n")[1].split("\n)\n")[0]
    return eval(f"dict({call})")


def layout_of(config: dict):
    """The box as an operand, (shape, strides), by the kernel's own text."""
    cute = MagicMock()
    cute.jit = cute.kernel = lambda f: f
    cute.make_layout = lambda shape, stride: (shape, stride)
    scope = {"cute": cute, "cutlass": MagicMock(), "pipeline": MagicMock(), "warpgroup": MagicMock()}
    exec(WHOLE, scope)
    kernel = scope["WholeWindow"]()
    kernel.__dict__.update(config)
    kernel.blocks = config["run"] // config["run_box"]
    return kernel.windows()


def offsets(shape, stride):
    """Of all coordinates of a mode, its first part fastest."""
    if isinstance(shape, int):
        return [i * stride for i in range(shape)]
    out = [0]
    for s, d in zip(shape, stride, strict=True):
        out = [base + step for step in offsets(s, d) for base in out]
    return out


def fetched(channels, config, q):
    """The box of eight channels as TMA lays it, [d][h][w][8]: zeros outside of the image."""
    first = [q[i] + config["axes"][i][1] for i in range(3)]
    at = [f + np.arange(edge) for f, edge in reversed(list(zip(first, config["edges"], strict=True)))]
    here = [(a >= 0) & (a < n) for a, n in zip(at, channels.shape[1:], strict=True)]
    box = np.zeros((8, *map(len, at)))
    source = channels[np.ix_(range(8), *(a[m] for a, m in zip(at, here, strict=True)))]
    box[np.ix_(range(8), *map(np.flatnonzero, here))] = source
    return np.moveaxis(box, 0, -1).reshape(-1)


CASES = {
    "a row of 64 pixels": ((40, 16, 34, 66), (16, 16, 3, 3), "", "128x16x64"),
    "padded and dilated": ((70, 16, 33, 40), (16, 16, 3, 5), "padding 2x2 dilation 2x1", "128x16x64"),
    "eights along h": ((300, 32, 18, 26), (16, 32, 3, 3), "", "128x16x64"),
    "volumes": ((8, 16, 18, 34, 34), (16, 16, 3, 3, 3), "", "256x16x64"),
    "rows alone": ((40, 48, 8194), (16, 48, 3), "", "128x16x64"),
    "two steps of channels": ((100, 128, 34, 34), (16, 128, 3, 3), "", "128x16x64"),
}


@pytest.mark.parametrize("x, w, clauses, tile", CASES.values(), ids=CASES)
def test_each_position_of_a_window_finds_its_pixels_in_the_box(x, w, clauses, tile):
    config = config_of(text(x, w, clauses, tile))
    shape, stride = layout_of(config)
    pixel, channel, block, position, _ = (offsets(s, d) for s, d in zip(shape, stride, strict=True))
    groups = np.array(pixel).reshape(-1, 8)  # a descriptor says one distance between groups of 8, in each 64 pixels
    assert (np.diff(groups) == 8).all() and all(len(set(np.diff(g[:, 0]))) == 1 for g in groups.reshape(-1, 8, 8))

    generator = torch.Generator().manual_seed(1)
    image, ws = torch.randn(1, *x[1:], generator=generator), torch.randn(w, generator=generator)
    by_name = dict(zip(clauses.split()[::2], clauses.split()[1::2], strict=True))
    options = {n: tuple(map(int, v.split("x"))) for n, v in by_name.items()}
    want = getattr(F, f"conv{len(x) - 2}d")(image.double(), ws.double(), **options)[0].numpy()
    want = want.reshape(w[0], *(1,) * (3 - len(want.shape[1:])), *want.shape[1:])
    volume = image[0].double().numpy().reshape(x[1], *(1,) * (5 - len(x)), *x[2:])
    weights = np.moveaxis(ws.double().numpy().reshape(w[0], w[1], -1), 2, 0)  # position, filter, channel

    for q in [(0, 0, 0), tuple((n - 1) // b * b for n, b in zip(config["out"], config["box"], strict=True))]:
        memory = np.concatenate([
            np.pad(fetched(volume[8 * e : 8 * e + 8], config, q), (0, config["pitch"]), constant_values=np.nan)[
                : config["pitch"]
            ]
            for e in range(config["run"] // 8)
        ])  # fmt: skip
        total = np.zeros((len(pixel), w[0]))
        for step in range(len(position) * len(block)):
            b, tap = step % len(block), step // len(block)
            operand = memory[np.add.outer(np.array(pixel), channel) + block[b] + position[tap]]
            some = slice(b * config["run_box"], (b + 1) * config["run_box"])
            total += operand @ weights[tap][:, some].T
        for row in range(len(pixel)):
            bw, bh, _ = config["box"]
            at = (q[0] + row % bw, q[1] + row // bw % bh, q[2] + row // (bw * bh))
            if all(a < n for a, n in zip(at, config["out"], strict=True)):
                np.testing.assert_allclose(total[row], want[:, at[2], at[1], at[0]], atol=1e-9)


@pytest.mark.parametrize("pixels, n", [(64, 64), (128, 128), (256, 64)])
def test_a_box_fits_shared_memory_and_has_its_groups_along_one_axis(pixels, n):
    window = whole_window.Window(64, 64, n, (3, 3, 1), (2, 2, 0), (128, 128, 1), 0)
    box = whole_window.box_of(window, pixels, n)
    assert box is not None and np.prod(box.box) == pixels and box.edges == (box.box[0] + 2, box.box[1] + 2, box.box[2])
    used = 2 * n * 9 * 64 + 2 * 2 * 8 * box.pitch + 2 * box.staged
    assert used <= whole_window.BLOCK - whole_window.BARRIERS and box.pitch % 64 == 0


def test_a_pools_window_lies_in_one_box():
    window = whole_window.Window(64, 32, 64, (3, 3, 3), (2, 2, 2), (64, 64, 64), 0)
    for least in ((2, 2, 2), (4, 4, 1), (1, 1, 2)):
        box = whole_window.box_of(window, 256, 64, least)
        assert box is not None and all(b % n == 0 for b, n in zip(box.box, least, strict=True))
