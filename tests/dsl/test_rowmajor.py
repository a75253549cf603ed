"""Convolutions on the tensor cores that read x and w as they lie: which those are, and what resolve makes of them."""

from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import DType
from dsl.lower.cpp import lower
from dsl.printer import to_text
from dsl.resolve import resolve
from dsl.rules import image, legal, rowmajor

TEXT = """program p(x: f32[{batch}, {channels}, {size}], w: f32[{filters}, {channels}, {window}], b: f32[{filters}])
-> f32[{batch}, {filters}, {out}] {{
  arch {arch}
  y = conv{rank}d(x, w) {{ stride {stride}  padding {padding}  compute {compute}  epilogue relu(acc + b[c]) }}
  return y
}}"""
# name: batch, channels, size, filters, window, stride, padding
CASES = {
    "alexnet": (256, 3, (224, 224), 96, (11, 11), (4, 4), (2, 2)),
    "volume": (16, 3, (64, 64, 64), 64, (3, 3, 3), (1, 1, 1), (0, 0, 0)),
    "signal": (64, 64, (131072,), 128, (3,), (3,), (0,)),
    "pointwise": (16, 64, (512, 512), 128, (1, 1), (1, 1), (0, 0)),
    "small": (1, 5, (7, 9), 7, (3, 2), (1, 2), (1, 0)),
}


def program(case: str, compute: str = "tf32", arch: str = "sm_90a"):
    batch, channels, size, filters, window, stride, padding = CASES[case]
    out = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(size, padding, window, stride, strict=True)]
    text = TEXT.format(
        batch=batch, channels=channels, size=", ".join(map(str, size)), filters=filters, out=", ".join(map(str, out)),
        window=", ".join(map(str, window)), stride=legal.dims(stride), padding=legal.dims(padding), rank=len(size),
        compute=compute, arch=arch,
    )  # fmt: skip
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


@pytest.mark.parametrize("compute", ["tf32", "f16", "bf16"])
def test_operands_as_they_lie_with_a_named_precision_are_row_major(compute):
    p = program("alexnet", compute)
    types = legal.types_of(p)
    assert legal.is_rowmajor(p.stages[0], types) and not legal.is_direct(p.stages[0], types)
    assert legal.compute_of(p.stages[0], types).value == compute
    assert legal.program_problem(p, p.stages[0]).kind == "rowmajor"


def test_without_a_precision_few_channels_are_convolved_directly():
    p = program("alexnet")
    plain = replace(p.stages[0], config=replace(p.stages[0].config, compute=None))
    assert legal.is_direct(plain, legal.types_of(p)) and not legal.is_rowmajor(plain, legal.types_of(p))


TRANSPOSED = """program p(x: f32[2, 24, 9, 9], w: f32[24, 40, 3, 3]) -> f32[2, 40, {out}, {out}] {{
  y = conv_transpose2d(x, w) {{ {clauses} }}
  return y
}}"""


def test_a_transposed_one_is_row_major_with_stride_1():
    p = check(TRANSPOSED.format(out=13, clauses="compute f16  padding 3x3  dilation 5x5")).program
    seen = legal.program_problem(p, p.stages[0])
    assert (seen.kind, seen.image.channels, seen.image.filters) == ("rowmajor", 24, 40)
    assert seen.image.padding == (0, 7, 7)  # of the window's reach of 10
    cropped = check(TRANSPOSED.format(out=1, clauses="compute f16  padding 5x5")).program
    assert legal.program_problem(cropped, cropped.stages[0]).image.padding == (0, -3, -3)


def test_a_transposed_one_with_a_stride_is_told_what_reads_it():
    wrong = check(TRANSPOSED.format(out=19, clauses="compute tf32  stride 2x2")).diagnostics
    assert {d.code for d in wrong} == {"E115"}
    assert "transposed with stride 1 alone, here 2x2" in wrong[0].message and "layout nhwc" in wrong[0].help


def test_a_transposed_one_that_names_no_precision_is_told_that_it_may():
    (x, _) = check(TRANSPOSED.format(out=11, clauses="")).diagnostics
    assert "compute tf32 to read both as they are" in x.help


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("case", CASES)
def test_resolve_fills_a_tile_and_stages_that_fit_and_nothing_else(case, arch):
    resolved = resolve(program(case, arch=arch))
    stage = resolved.stages[0]
    c, p = stage.config, legal.program_problem(resolved, stage)
    assert c.tile and c.stages in range(rowmajor.MIN_STAGES, rowmajor.MAX_STAGES + 1)
    assert all(getattr(c, clause) is None for clause in rowmajor.WITHOUT)
    assert legal.backends(p, c) == ("cpp",)
    assert check(to_text(resolved)).program == resolved == resolve(resolved)


def test_all_filters_of_a_small_layer_are_one_tile_so_that_x_is_read_once():
    for case in ("pointwise", "volume"):
        p = program(case)
        assert resolve(p).stages[0].config.tile[0] == CASES[case][3]


def test_cute_refuses_it_and_says_what_takes_it():
    refused = generate(program("small")).refused["cute"]
    assert refused.code == "cute-conv-layout" and "`cpp`" in refused.help


@pytest.mark.parametrize("case", CASES)
def test_every_tile_proposed_is_legal_or_too_large(case):
    p = legal.program_problem(program(case), program(case).stages[0])
    c = program(case).stages[0].config
    codes = {o.code for t in legal.tiles_for(p) for o in legal.objections(p, replace(c, tile=t), "cpp")}
    assert codes <= {"E204"}


@pytest.mark.parametrize("case", CASES)
def test_what_the_checks_pass_is_written(case):
    p = program(case)
    stage, problem = p.stages[0], legal.program_problem(p, p.stages[0])
    tried = [replace(stage.config, tile=t, stages=2 + i % 3) for i, t in enumerate(legal.tiles_for(problem))]
    passing = [c for c in tried if legal.backends(problem, c)]
    assert len(passing) >= 12
    for c in passing[::2]:
        lower(replace(p, stages=(replace(stage, config=c, store=DType.F32),)))  # raises no Refusal


def test_a_box_of_pixels_covers_an_image_without_waste_at_its_edges():
    p = program("pointwise")
    seen = image.image_of(p.stages[0], legal.types_of(p))
    assert seen.out == (1, 1, 512 * 512) and image.box(seen, 128) == (1, 128)  # one long row
    p = program("alexnet")
    seen = image.image_of(p.stages[0], legal.types_of(p))
    rows, columns = image.box(seen, 128)
    pieces = -(-55 // rows) * -(-55 // columns)
    assert rows * columns == 128 and pieces * 128 < 1.2 * 55 * 55


@pytest.mark.parametrize(("case", "width", "more"), [("volume", 62, False), ("volume", 66, True)])
def test_rows_that_the_usual_boxes_do_not_cover_have_boxes_of_their_own(case, width, more):
    p = program(case)
    seen = legal.program_problem(p, p.stages[0])
    seen = replace(seen, image=replace(seen.image, channels=48, out=(width,) * 3))
    proposed = {n for _, n, _ in legal.tiles_for(seen)}
    assert (288 in proposed, proposed <= set(rowmajor.NS)) == (more, not more)
    wasted = [image.waste(seen.image, n) for n in (256, 288)]
    assert (wasted[1] < 0.75 * wasted[0]) is more


def test_depth_is_whole_channels_in_whole_instructions():
    p = program("volume")
    seen = image.image_of(p.stages[0], legal.types_of(p))
    assert image.depth(seen, 1) == 32 and image.depth(seen, 3) == 88
    assert image.channels_of(seen, 88) == 3 and image.channels_of(seen, 40) is None
    half = replace(seen, step=image.step_of(DType.F16))
    assert image.depth(half, 3) == 96


def test_a_tensor_read_by_columns_alone_keeps_the_rows_apart():
    text = """program p(x: f32[2, 8, 16, 16], w: f32[8, 8, 1, 1], r: f32[16]) -> f32[2, 8, 16, 16] {
      y = conv2d(x, w) { compute tf32  epilogue acc + r[w] }
      return y
    }"""
    p = check(text).program
    assert image.image_of(p.stages[0], legal.types_of(p)).out == (1, 16, 16)
