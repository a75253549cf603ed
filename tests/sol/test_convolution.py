"""What a channels-last convolution on wgmma is expected to take: held against programs that one H200 ran."""

from math import log
from statistics import median

import pytest

from dsl.check.program import check
from sol.attainable import collective_time, predict, product_of
from sol.hardware import load
from sol.model.convolution import convolution_time, implicit

H200 = load("h200")
TEXT = """program p(x: f32[{x}], w: f32[{w}]) -> f32[{y}] {{
  arch sm_90a
  xl = transform(x) {{ to f16 layout nhwc }}
  wl = transform(w) {{ to f16 layout nhwc }}
  y = {op}(xl, wl) {{ {more} compute f16 tile {tile}x64 schedule {schedule} store f32 nchw }}
  return y
}}"""
# The suite's: x, w, result, operation, its clauses.
L1_55 = "8, 64, 512, 1024", "128, 64, 3, 3", "8, 128, 510, 1022", "conv2d", ""
L1_56 = "8, 64, 512, 256", "128, 64, 5, 7", "8, 128, 508, 250", "conv2d", ""
L1_57 = "8, 64, 1024, 1024", "64, 64, 3, 3", "8, 64, 1026, 1026", "conv_transpose2d", ""
L1_61 = "8, 48, 64, 64, 64", "48, 48, 3, 3, 3", "8, 48, 66, 66, 66", "conv_transpose3d", ""
L1_63 = "16, 16, 1024, 1024", "128, 16, 3, 3", "16, 128, 1022, 1022", "conv2d", ""
L1_67 = "32, 64, 131072", "128, 64, 3", "32, 128, 131070", "conv1d", ""
L1_76 = "64, 64, 524280", "128, 64, 3", "64, 128, 174758", "conv1d", "stride 3 dilation 4"
L1_80 = "8, 32, 512, 512", "64, 32, 5, 9", "8, 64, 508, 496", "conv2d", "padding 2x4 dilation 2x3"
L1_87 = "16, 64, 1024, 1024", "128, 64, 1, 1", "16, 128, 1024, 1024", "conv2d", ""
PINGPONG, COOPERATIVE = "pingpong", "cooperative"
# Milliseconds of the whole program, casts and all, in engine.bench's trials of 2026-11-21.
MEASURED = [
    (L1_55, "256x128", COOPERATIVE, 1.630), (L1_55, "128x128", PINGPONG, 1.855), (L1_55, "128x160", PINGPONG, 1.834),
    (L1_56, "256x128", COOPERATIVE, 0.961), (L1_56, "128x128", PINGPONG, 0.985), (L1_56, "256x64", COOPERATIVE, 1.161),
    (L1_57, "256x64", COOPERATIVE, 3.314), (L1_57, "128x64", COOPERATIVE, 2.932), (L1_57, "64x64", PINGPONG, 3.150),
    (L1_61, "256x48", COOPERATIVE, 2.151), (L1_61, "128x48", COOPERATIVE, 2.623), (L1_61, "64x48", PINGPONG, 3.797),
    (L1_63, "256x128", COOPERATIVE, 6.098), (L1_63, "128x128", PINGPONG, 8.068), (L1_67, "128x64", PINGPONG, 1.628),
    (L1_67, "256x128", COOPERATIVE, 1.315), (L1_67, "128x128", PINGPONG, 1.509), (L1_76, "256x128", COOPERATIVE, 6.365),
    (L1_80, "256x64", PINGPONG, 1.024), (L1_80, "256x96", COOPERATIVE, 1.337), (L1_80, "256x128", COOPERATIVE, 1.590),
    (L1_87, "128x128", COOPERATIVE, 4.380), (L1_87, "256x128", COOPERATIVE, 4.442),
]  # fmt: skip


def program(conv, tile="128x128", schedule=PINGPONG):
    x, w, y, op, more = conv
    checked = check(TEXT.format(x=x, w=w, y=y, op=op, more=more, tile=tile, schedule=schedule))
    assert checked.ok, checked.diagnostics
    return checked.program


def stage_of(p):
    return next(s for s in p.stages if s.name == "y")


def priced(conv, tile="128x128", schedule=PINGPONG):
    p = program(conv, tile, schedule)
    return collective_time(p, stage_of(p), H200)


def test_programs_that_ran_were_expected_to_take_what_they_took_by_15_percent_in_the_middle():
    errors = [abs(log(predict(program(*case), H200).ms / ms)) for *case, ms in MEASURED]
    assert median(errors) < 0.15 and max(errors) < 0.45


def test_the_faster_of_two_tiles_was_expected_to_be():
    """Of one convolution's, where a fifth lies between them."""
    pairs = [
        (predict(program(*a), H200).ms, predict(program(*b), H200).ms)
        for *a, quick in MEASURED
        for *b, slow in MEASURED
        if a[0] == b[0] and slow > 1.2 * quick
    ]
    assert len(pairs) >= 8 and sum(quick < slow for quick, slow in pairs) >= 0.9 * len(pairs)


def test_x_meets_device_memory_once_however_many_positions_a_window_has():
    window, point = (priced((*L1_55[:1], f"128, 64, {k}, {k}", f"8, 128, {513 - k}, {1025 - k}", *L1_55[3:]))
                     for k in (3, 1))  # fmt: skip
    assert window.hbm_bytes == pytest.approx(point.hbm_bytes, rel=0.01)
    assert window.tensor_ms > 7 * point.tensor_ms and window.l2_ms > 7 * point.l2_ms


def test_few_channels_cost_what_a_box_holds_more():
    """Eight channels fill a quarter of TMA's rows and a whole step of the tensor cores at each position."""

    def rate(channels):
        conv = f"8, {channels}, 256, 256", f"64, {channels}, 3, 3", "8, 64, 256, 256", "conv2d", "padding 1x1"
        p = program(conv, "128x64")
        return product_of(p, stage_of(p)).flops / collective_time(p, stage_of(p), H200).ms

    assert rate(8) < 0.3 * rate(64)


def test_pixels_of_32_bytes_whose_windows_rows_overlap_are_slow():
    """L1/63 in cute's 6 ms is what a run of 48 overlapping elements costs; padded on both sides it is no run."""
    padded = (*L1_63[:2], "16, 128, 1024, 1024", "conv2d", "padding 1x1")
    assert priced(L1_63).l2_ms > 1.5 * priced(padded).l2_ms


def test_what_the_kernel_does_not_take_has_no_time():
    """Clusters are for `cpp`, whose kernel is another."""
    legal, refused = program(L1_55), program((*L1_55[:4], "cluster 2x1x1"))
    assert convolution_time(refused, stage_of(refused), product_of(refused, stage_of(refused)), H200) is None
    assert implicit(legal, stage_of(legal)) and not implicit(legal, legal.stages[0])


def in_tf32(conv, clauses=""):
    x, w, y, op, more = conv
    text = TEXT.replace("to f16 ", "").replace("compute f16", "compute tf32").replace("x64", "x32")
    checked = check(text.format(x=x, w=w, y=y, op=op, more=f"{more} {clauses}", tile="128x128", schedule=PINGPONG))
    assert checked.ok, checked.diagnostics
    return checked.program


def test_in_tf32_the_same_kernel_takes_twice_as_long_for_the_products_at_most_and_never_less():
    half, full = program(L1_55), in_tf32(L1_55)
    times = [collective_time(p, stage_of(p), H200) for p in (half, full)]
    assert implicit(full, stage_of(full))
    assert 1.4 < times[1].ms / times[0].ms < 2.2
    assert times[1].tensor_ms > 1.7 * times[0].tensor_ms


@pytest.mark.parametrize(("conv", "clauses"), [(L1_57, ""), (L1_55, "backend cpp")])
def test_what_cpp_alone_takes_in_tf32_is_priced_as_a_product(conv, clauses):
    p = in_tf32(conv, clauses)
    assert not implicit(p, stage_of(p))


def test_a_device_without_wgmma_is_priced_as_a_product():
    p = program(L1_55)
    other = load("a100-80gb")
    assert collective_time(p, stage_of(p), other).ms > 1.5 * priced(L1_55).ms


DIRECT = """program p(x: f32[{x}], w: f32[{w}]) -> f32[{y}] {{
  y = {op}(x, w) {{ {more} groups 4 compute f32 store f32 }}
  return y
}}"""
# KernelBench's L1/72 and L1/75, of which each position of the window was tried for each result: one H100, 2026-11-28.
GATHERED = [
    ("8, 32, 12, 24, 48", "32, 8, 3, 5, 7", "8, 32, 24, 48, 96", "conv_transpose3d",
     "stride 2x2x2 padding 1x2x3 output_padding 1x1x1", 2.952),
    ("16, 32, 128, 256", "32, 16, 3, 5", "16, 64, 257, 766", "conv_transpose2d",
     "stride 2x3 padding 1x2 dilation 2x1", 2.046),
]  # fmt: skip


@pytest.mark.parametrize(("x", "w", "y", "op", "more", "ms"), GATHERED)
def test_a_strided_transposed_convolution_without_tensor_cores_is_expected_to_be_slow(x, w, y, op, more, ms):
    checked = check(DIRECT.format(x=x, w=w, y=y, op=op, more=more))
    assert checked.ok, checked.diagnostics
    assert abs(log(predict(checked.program, load("h100-sxm")).ms / ms)) < 0.25
