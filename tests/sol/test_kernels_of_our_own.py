"""The tile model knows what `cpp` kernels do otherwise: triangles, operands across K, splits, norms in registers."""

from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from sol.attainable import predict
from sol.hardware import load
from sol.model.tiles import Product, Tiling, tile_time, tiles_of

H200 = load("h200")
CUBE = Product(1, 4096, 4096, 4096, "tf32", 4, 4)
TALL = Tiling((256, 128, 32), (1, 2))


def test_a_triangle_s_tiles_are_those_that_touch_it():
    half = replace(CUBE, triangle=True)
    assert (tiles_of(CUBE, TALL), tiles_of(half, TALL)) == (512, 272)
    assert tiles_of(half, Tiling((256, 192, 32), (1, 2))) == tiles_of(CUBE, Tiling((256, 192, 32), (1, 2)))


def test_a_triangle_s_half_wave_is_best_dealt_by_stream_k():
    half = replace(CUBE, triangle=True)
    whole, dealt = (tile_time(half, replace(TALL, scheduler=s), H200).ms for s in ("persistent", "stream_k"))
    assert dealt < whole < tile_time(CUBE, TALL, H200).ms


@pytest.mark.parametrize(("across", "wide"), [("a", (128, 256)), ("b", (256, 128))])
def test_an_operand_across_k_costs_least_beside_a_wide_one(across, wide):
    p = replace(CUBE, across=across)
    times = {t: tile_time(p, Tiling((*t, 32), (1, 1)), H200).ms for t in ((128, 256), (256, 128))}
    assert min(times, key=times.get) == wide and times[wide] > tile_time(CUBE, Tiling((*wide, 32)), H200).ms


def test_blocks_that_share_few_tiles_wait_for_each_other_where_splits_do_not():
    deep = Product(1, 256, 256, 524288, "tf32", 4, 4)
    split = tile_time(deep, replace(TALL, scheduler="split_k", splits=64), H200).ms
    assert split < 0.3 < tile_time(deep, replace(TALL, scheduler="stream_k"), H200).ms


def tiled(text, *tiles):
    """The predictions for a program with each of these tiles."""
    return [predict(resolve(check(text.format(tile=tile)).program), H200) for tile in tiles]


def test_a_norm_in_a_product_s_registers_takes_no_pass_of_its_own():
    text = """program p(x: f32[32768, 1024], w: f32[4096, 1024]) -> f32[32768, 4096] {{
      y = gemm(x, w.T) {{ compute tf32  tile {tile} }}
      z = normalize(y) {{ op groupnorm  groups 64 }}
      return z
    }}"""
    together, apart = tiled(text, "128x128x32  schedule pingpong", "256x192x32  schedule cooperative")
    assert together.stages[1].ms == 0.0 and "kernel of y" in together.stages[1].note
    assert apart.stages[1].ms > 0.1 and together.ms < apart.ms


def test_a_fold_of_channels_in_a_convolution_s_registers_moves_neither_the_sums_out_nor_in():
    text = """program p(x: f16[64, 64, 130, 130], w: f16[128, 64, 3, 3]) -> f32[64, 128, 128] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      h = conv2d(xt, wt) {{ compute f16 tile {tile} store f32 }}
      y = reduce(h) {{ op min over c store f32 }}
      return y
    }}"""
    together, apart = tiled(text, "128x128x64  schedule pingpong", "128x64x64  schedule pingpong")
    assert together.stages[3].ms == 0.0 and "kernel of h" in together.stages[3].note
    sums_ms = 64 * 128 * 128 * 128 * 4 / H200.copy_rate * 1e3
    assert apart.stages[3].ms > 0.8 * sums_ms and together.ms < apart.ms - sums_ms


def test_a_pool_in_a_convolution_s_kernel_reads_no_sums_from_memory():
    text = """program p(x: f16[64, 64, 130, 130], w: f16[128, 64, 3, 3]) -> f32[64, 128, {size}, {size}] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      h = conv2d(xt, wt) {{ compute f16 store f32 nchw }}
      y = pool(h) {{ op max window {window} stride {window} store f32 nchw }}
      return y
    }}"""
    together, apart = (
        predict(resolve(check(text.format(window=w, size=n)).program), H200) for w, n in (("2x2", 64), ("3x3", 42))
    )
    assert together.stages[3].ms == 0.0 and "kernel of h" in together.stages[3].note
    assert apart.stages[3].ms > 0.1 and together.ms < apart.ms - 0.1
