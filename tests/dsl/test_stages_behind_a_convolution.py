"""Which convolutions are fused with the stage that reads them, and what `auto` becomes for them."""

import pytest

from dsl.check.program import check
from dsl.ir import Config, Conv, DType
from dsl.resolve import resolve
from dsl.rules import folds

TEXT = """program p(x: f16[8, 64, 34, 34], w: f16[{filters}, 64, 3, 3], b: f32[{filters}])
    -> {results} {{
  arch {arch}
  xt = transform(x) {{ layout nhwc }}
  wt = transform(w) {{ layout nhwc }}
  h = conv2d(xt, wt) {{ {conv} compute f16 store f32 nchw epilogue acc + b[c] }}
  y = {reader}
  return {names}
}}"""
MIN = "reduce(h) { op min over c store f32 }"
ONE = "f32[8, 32, 32]"


def program(reader=MIN, filters=128, conv="", results=ONE, names="y", arch="sm_90a"):
    text = TEXT.format(reader=reader, filters=filters, conv=conv, results=results, names=names, arch=arch)
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


def conv_of(p) -> Conv:
    return next(s for s in p.stages if isinstance(s, Conv))


def reader(**change):
    p = program(**change)
    return folds.reader(p, conv_of(p))


def fits(p, config=None):
    return folds.fits(conv_of(p), config or conv_of(p).config, folds.reader(p, conv_of(p)))


@pytest.mark.parametrize("op", folds.FOLDS)
def test_a_reduction_of_the_channels_that_alone_reads_a_convolution(op):
    assert reader(reader=MIN.replace("min", op)).op == op


@pytest.mark.parametrize("op", folds.NORMS)
def test_a_softmax_over_the_channels(op):
    whole = f"normalize(h) {{ op {op} over c store f32 nchw }}"
    assert reader(reader=whole, results="f32[8, 128, 32, 32]").op == op


@pytest.mark.parametrize(
    "change",
    [
        {"reader": "reduce(h) { op min over h store f32 }", "results": "f32[8, 128, 32]"},
        {"reader": "reduce(h) { op min over c of acc * acc store f32 }"},
        {"reader": "reduce(h) { op argmax over c }", "results": "i32[8, 32, 32]"},
        {"names": "h, y", "results": f"(f32[8, 128, 32, 32], {ONE})"},
        {
            "reader": MIN + "\n  z = reduce(h) { op max over c store f32 }",
            "names": "y, z",
            "results": f"({ONE}, {ONE})",
        },
        {"conv": "also g = acc", "names": "y, g", "results": f"({ONE}, f32[8, 128, 32, 32])"},
    ],
)
def test_not_what_reads_other_axes_or_other_numbers_nor_what_somebody_else_reads_too(change):
    assert reader(**change) is None


@pytest.mark.parametrize(("filters", "columns"), [(128, 128), (72, 80), (256, 256)])
def test_auto_takes_a_tile_of_all_channels(filters, columns):
    p = resolve(program(filters=filters))
    assert conv_of(p).config.tile[1] == columns and fits(p)


@pytest.mark.parametrize(("stride", "columns"), [(1, 32), (2, 48), (3, 96), (4, 96), (5, 32)])
def test_phases_that_share_a_tile_have_as_many_columns_each(stride, columns):
    size = 6 * stride - stride + 3
    text = f"""program p(x: f16[1, 16, 6, 6], w: f16[16, 24, 3, 3]) -> f32[1, {size}, {size}] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      h = conv_transpose2d(xt, wt) {{ stride {stride}x{stride} compute f16 store f32 }}
      y = reduce(h) {{ op max over c store f32 }}
      return y
    }}"""
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    p = resolve(checked.program)
    assert conv_of(p).config.tile[1] == columns and fits(p)


def test_more_channels_than_a_tile_has_stay_two_kernels():
    p = resolve(program(filters=512))
    assert folds.preferred(conv_of(p), folds.reader(p, conv_of(p))) == () and not fits(p)


def test_a_tile_that_the_author_wrote_stays():
    p = resolve(program(conv="tile 128x64x64"))
    assert conv_of(p).config.tile == (128, 64, 64) and not fits(p)


def test_a_tile_whose_accumulators_leave_no_registers_is_not_fused():
    p = program(filters=136)
    assert not fits(p, Config(compute=DType.F16, tile=(128, 144, 64), schedule="pingpong"))
    assert fits(p, Config(compute=DType.F16, tile=(128, 144, 64), schedule="cooperative"))


POOL = "pool(h) {{ op max window {} stride {} {} store f32 }}"


def test_a_pool_whose_windows_lie_side_by_side_whatever_the_tile_is():
    p = program(reader=POOL.format("2x4", "2x4", ""), filters=512, results="f32[8, 512, 16, 8]")
    assert folds.reader(p, conv_of(p)).op == "max" and fits(resolve(p))
    assert folds.preferred(conv_of(p), folds.reader(p, conv_of(p))) == ()


@pytest.mark.parametrize(
    ("window", "stride", "more", "size"),
    [("3x3", "3x3", "", "10, 10"), ("2x2", "1x1", "", "31, 31"), ("2x2", "2x2", "padding 1x1", "17, 17")],
)
def test_not_windows_that_meet_or_reach_beyond_the_image_or_a_box(window, stride, more, size):
    assert reader(reader=POOL.format(window, stride, more), results=f"f32[8, 128, {size}]") is None
