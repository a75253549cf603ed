"""Which convolutions are fused with the stage that folds their channels, and what `auto` becomes for them."""

import pytest

from dsl.check.program import check
from dsl.ir import Config, Conv, DType
from dsl.resolve import resolve
from dsl.rules import across

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
    return across.reader(p, conv_of(p))


@pytest.mark.parametrize("op", across.FOLDS)
def test_a_reduction_of_the_channels_that_alone_reads_a_convolution(op):
    assert reader(reader=MIN.replace("min", op)).op == op


@pytest.mark.parametrize("op", across.NORMS)
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
    c = conv_of(resolve(program(filters=filters))).config
    assert c.tile[1] == columns and across.fits(conv_of(program(filters=filters)), c)


def test_more_channels_than_a_tile_has_stay_two_kernels():
    p = program(filters=512)
    assert across.preferred(conv_of(p)) == () and not across.fits(conv_of(p), conv_of(resolve(p)).config)


def test_a_tile_that_the_author_wrote_stays():
    p = resolve(program(conv="tile 128x64x64"))
    assert conv_of(p).config.tile == (128, 64, 64) and not across.fits(conv_of(p), conv_of(p).config)


def test_a_tile_whose_accumulators_leave_no_registers_is_not_fused():
    conv = conv_of(program(filters=136))
    assert not across.fits(conv, Config(compute=DType.F16, tile=(128, 144, 64), schedule="pingpong"))
    assert across.fits(conv, Config(compute=DType.F16, tile=(128, 144, 64), schedule="cooperative"))
