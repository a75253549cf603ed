"""The model counts as many kernels of a stage as the generated code launches, and each but the first costs its gap."""

import re

import pytest

import dsl.check
from dsl.compile import compile as generate
from dsl.lower.plan.buffers import aliases
from dsl.resolve import resolve
from sol import lever_check
from sol.attainable import predict
from sol.hardware import load
from sol.model.launches import kernels
from sol.model.tiles import GAP_MS, LAUNCH_MS

H200 = load("h200")
SPLIT = "program p(x: f32[8192, 512]) -> f32[512] { y = reduce(x) { op mean  over m } return y }"
LSE = """program p(x: f16[512, 256], w: f16[4096, 256]) -> f32[512] {
  y = gemm(x, w.T) { tile 128x128x64  store f32  epilogue row_logsumexp(acc) }
  return y
}"""
ROWMAJOR = """program p(x: f32[8, 64, 64, 64], w: f32[128, 64, 3, 3]) -> f32[8, 128, 64, 64] {
  y = conv2d(x, w) { compute tf32  padding 1x1 }
  return y
}"""
PHASES = """program p(x: f16[8, 64, 32, 32], w: f16[64, 64, 4, 4]) -> f16[8, 64, 64, 64] {
  xl = transform(x) { layout nhwc }
  wl = transform(w) { layout nhwc  prepack }
  y = conv_transpose2d(xl, wl) { stride 2x2  padding 1x1  store nchw }
  return y
}"""


def predicted(text):
    """The last stage of a program."""
    return predict(resolve(dsl.check.check(text).program, H200.sms), H200).stages[-1]


def stage_of(text):
    """The last stage of a program, its program, and how many kernels its code launches."""
    program = resolve(dsl.check.check(f"program p{text}").program, H200.sms)
    stage = program.stages[-1]
    code = generate(program, H200.sms).sources["cute"].text
    launch = re.search(rf"^def {stage.name}_launch\(.*?(?=^\S|\Z)", code, re.MULTILINE | re.DOTALL)
    own = launch[0].count(".launch(") if launch else 1 + len(re.findall(r'"\w+": (?:Rows|Columns)\(', code))
    return program, stage, own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # rows: many results, few, and so few that blocks share them
        ("(x: f32[8192, 4096]) -> f32[8192] { y = reduce(x) { op sum  over n } return y }", 1),
        ("(x: f32[300, 4096]) -> f32[300] { y = reduce(x) { op sum  over n } return y }", 1),
        ("(x: f16[16, 262144]) -> f16[16] { y = reduce(x) { op logsumexp  over n } return y }", 2),
        ("(x: f32[4, 4000001]) -> f32[4] { y = reduce(x) { op max  over n } return y }", 2),
        # columns
        ("(x: f32[64, 65536]) -> f32[65536] { y = reduce(x) { op sum  over m } return y }", 1),
        ("(x: f32[8192, 512]) -> f32[512] { y = reduce(x) { op mean  over m } return y }", 2),
        ("(x: f16[16, 64, 56, 56]) -> f16[64] { y = reduce(x) { op sum  over b, h, w } return y }", 2),
        ("(x: f16[16, 64, 56, 56]) -> f16[16, 56, 56] { y = reduce(x) { op sum  over c } return y }", 1),
        ("(x: f16[16, 64, 56, 56]) -> f16[16, 64, 1, 1] { y = pool(x) { op avg  window global } return y }", 1),
        # norms: in registers, and with statistics first
        ("(x: f32[512, 8192]) -> f32[512, 8192] { y = normalize(x) { op softmax  over n } return y }", 1),
        ("(x: f32[512, 65536]) -> f32[512, 65536] { y = normalize(x) { op softmax  over n } return y }", 2),
        ("(x: f32[16, 262144]) -> f32[16, 262144] { y = normalize(x) { op layernorm  over n } return y }", 3),
        ("(x: f32[512, 1024]) -> f32[512, 1024] { y = normalize(x) { op softmax  over m } return y }", 3),
        ("(x: f32[8, 64, 32, 32]) -> f32[8, 64, 32, 32] { y = normalize(x) { op groupnorm  groups 8 } return y }", 1),
        ("(x: f32[8, 64, 128, 128]) -> f32[8, 64, 128, 128]"
         " { y = normalize(x) { op groupnorm  groups 8 } return y }", 3),
        ("(x: f32[8, 64, 128, 128]) -> f32[8, 64, 128, 128] { y = normalize(x) { op instancenorm } return y }", 1),
        ("(x: f32[64, 64], m: f32[64], v: f32[64]) -> f32[64, 64]"
         " { y = normalize(x, m, v) { op batchnorm } return y }", 1),
        # products: rows and columns that several tiles share
        ("(x: f16[512, 256], w: f16[4096, 256]) -> f32[512] {"
         " y = gemm(x, w.T) { tile 128x128x64  store f32  epilogue row_sum(acc) } return y }", 2),
        ("(x: f16[512, 256], w: f16[128, 256]) -> f32[512] {"
         " y = gemm(x, w.T) { tile 128x128x64  store f32  epilogue row_max(acc) } return y }", 1),
        ("(x: f16[512, 256], w: f16[4096, 256]) -> (f16[512, 4096], f32[512], f32[4096]) {"
         " y = gemm(x, w.T) { tile 128x128x64  also s = row_logsumexp(acc)"
         "  also c = col_sum(acc) } return y, s, c }", 3),
        ("(x: f16[512, 256], w: f16[4096, 256]) -> f16[512, 4096]"
         " { y = gemm(x, w.T) { tile 128x128x64 } return y }", 1),
    ],
)  # fmt: skip
def test_the_model_counts_the_kernels_that_the_code_launches(text, expected):
    program, stage, launched = stage_of(text)
    assert kernels(program, stage) == launched == expected


@pytest.mark.parametrize("text", [SPLIT, LSE])
def test_each_kernel_but_the_first_costs_its_gap_and_the_note_says_how_many_there_are(text):
    stage = predicted(text)
    assert stage.parts["launch"] == pytest.approx(LAUNCH_MS + GAP_MS)
    assert stage.ms == pytest.approx(sum(stage.parts.values())) and stage.note.endswith(", 2 kernels")


@pytest.mark.parametrize("text", [ROWMAJOR, PHASES])
def test_a_convolution_that_launches_several_kernels_says_so(text):
    stage = predicted(text)
    assert stage.parts["launch"] > GAP_MS and re.search(r", \d kernels$", stage.note), stage


@pytest.mark.parametrize(("size", "alone", "behind"), [(256, "launch", "fill"), (1024, "launch", "l2")])
def test_launch_and_fill_bind_a_stage_only_where_they_take_longest(size, alone, behind):
    s = f"{size}, {size}"
    text = f"program p(x: f16[{s}], w: f16[{s}]) -> f16[{s}] {{{{ {{}} y = gemm({{}}, w.T) {{{{ }}}} return y }}}}"
    first = predicted(text.format("", "x"))
    second = predicted(text.format("t = map(x) { epilogue relu(acc) }", "t"))
    assert second.parts["launch"] == pytest.approx(GAP_MS), "the rest overlaps with the stage before"
    assert (first.bound_by, second.bound_by) == (alone, behind)
    for stage in (first, second):
        work = stage.ms - stage.parts["launch"] - stage.parts["fill"]
        longest = max(stage.parts["launch"], stage.parts["fill"], work)
        assert longest == stage.parts.get(stage.bound_by, work), stage


@pytest.mark.parametrize(("view", "free"), [("32x64", True), ("64x32", False)])
def test_a_view_of_a_stage_launches_nothing_and_a_view_of_a_parameter_that_is_returned_is_a_copy(view, free):
    shape = view.replace("x", ", ")
    stages = "g = pool(x) { op avg  window global }  y = transform(g) { view VIEW }"
    if not free:
        stages = "y = transform(x) { view VIEW }"
    source = "x: f16[32, 64, 8, 8]" if free else "x: f16[32, 64]"
    text = f"program p({source}) -> f16[{shape}] {{ {stages.replace('VIEW', view)} return y }}"
    program = dsl.check.check(text).program
    assert (program.stages[-1].name in aliases(program)) == free
    assert (predicted(text).ms == 0.0) == free
    assert ("drop_copy" in lever_check.tried(program)) == free
