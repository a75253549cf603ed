"""`guard f32` on a convolution that rounds its own operands: its flag and its rescue, every lane run on the CPU."""

import re
import subprocess
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.check.program import check
from dsl.compile import compile
from dsl.guard import rescue
from dsl.ir import DType, Program
from dsl.lower import Refusal
from dsl.lower.cpp import guarded, lower
from dsl.lower.plan import rescue as rescue_plan
from dsl.printer import to_text
from dsl.rules import problem
from engine.build.nvcc import find_toolchain
from engine.evaluate.correctness import oracle
from tests.dsl import pipelines

from .own.emulated import build, inputs_of, program

ROUNDED, IN_F32 = 1e-4, 1e-6  # f16's error is above the one, f32's below the other

POOLED = """program pooled(x: f32[2, 12, 13, 22], w: f32[40, 12, 3, 3], b: f32[40]) -> f32[2, 40, 5, 10] {
  guard f32
  y = conv2d(x, w) { compute f16  epilogue relu(acc + b[c]) }
  z = pool(y) { op max  window 2x2 }
  return z
}"""
CASES = {
    "several_results": """program p(x: f32[2, 12, 7, 10], w: f32[12, 40, 3, 3], b: f32[40])
      -> (f32[2, 40, 10, 10], f32[2, 40]) {
      guard f32
      y = conv_transpose2d(x, w) {
        compute f16  dilation 2x1  padding 1x1  output_padding 1x0  epilogue acc + b[c]  also z = relu(acc)
      }
      n = reduce(z) { op mean  over h, w }
      return y, n }""",
    "two_convolutions": """program p(x: f32[2, 12, 34], w: f32[12, 20, 5], v: f32[20, 20, 3])
      -> (f32[2, 20, 36], f32[2, 20, 38]) {
      guard f32
      y = conv_transpose1d(x, w) { compute f16  epilogue relu(acc) }
      z = conv1d(y, v) { compute f16 }
      s = normalize(y) { op softmax  over w }
      return z, s }""",
    "groups_of_three_axes": """program p(x: f32[1, 6, 4, 5, 7], w: f32[20, 6, 3, 3, 2]) -> f32[1, 20, 2, 3, 6] {
      guard f32
      y = conv3d(x, w) { compute f16 }
      s = normalize(y) { op groupnorm  groups 4 }
      return s }""",
    "blocks_that_share_a_box": """program p(x: f32[1, 24, 7, 8], w: f32[70, 24, 3, 3]) -> f32[1, 70, 7, 8] {
      guard f32
      y = conv2d(x, w) { compute f16  padding 1x1  tile 32x64x80  stages 2 }
      z = map(y) { epilogue gelu(acc) }
      return z }""",
}


def error(have: torch.Tensor, want: torch.Tensor) -> float:
    there = torch.isfinite(want)
    assert torch.equal(torch.isfinite(have), there)
    return float((have.double() - want.double())[there].norm() / want.double()[there].norm())


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    p = program(POOLED)
    _, run = build(p, tmp_path_factory.mktemp("guarded"))
    return p, run


@pytest.fixture
def before(monkeypatch):
    """Images are checked before each product, however small it is."""
    monkeypatch.setattr(problem, "BEFORE_FLOPS", 0.0)
    monkeypatch.setattr(problem, "READ_SHARE", 1e9)


@pytest.mark.parametrize("name", CASES)
def test_what_is_checked_before_the_products_is_computed_again_too(name, tmp_path, before):
    test_the_rescue_gives_f32_s_result(name, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_the_rescue_gives_f32_s_result(name, tmp_path):
    p = program(CASES[name])
    _, run = build(p, tmp_path)
    x, *more = inputs_of(p)
    for scale, rescued in ((1.0, False), (1e6, True), (1e-6, True)):
        inputs = [x * scale, *more]
        errors = [error(h, w) for h, w in zip(run(inputs), oracle.run(p, inputs, exact=True), strict=True)]
        assert all(e < IN_F32 for e in errors) if rescued else max(errors) > ROUNDED, (scale, errors)


@pytest.mark.parametrize(
    ("operand", "where", "value", "rescued"),
    [
        (0, (1, 7, 3, 4), 1e6, True),  # one element that overflows
        (0, (1, 7, 3, 4), 65504.0, False),  # the largest that f16 holds
        (0, (1, 7, 3, 4), 65505.0, True),
        (0, (0, 11, 12, 21), float("nan"), True),  # the last that is read
        (0, (1, 0, 0, 0), float("-inf"), True),
        (0, (1, 7, 3, 4), 1e-8, False),  # tiny beside ones: 2^-25 is nothing to its neighbours
        (0, slice(None), 1e-4, True),  # all of them tiny
        (0, slice(None), 2.0**-9, False),
        (0, slice(None), 0.0, False),  # zeros are as good in f16
        (1, (39, 11, 2, 2), 1e6, True),
        (1, (39, 11, 2, 2), float("nan"), True),
        (1, (0, 0, 0, 0), 1e-8, False),
        (1, slice(None), 1e-6, True),
    ],
)
def test_what_trips_it(pooled, operand, where, value, rescued):
    p, run = pooled
    inputs = inputs_of(p)
    if where == slice(None):
        inputs[operand].fill_(value)
        inputs[1 - operand].abs_()
    else:
        inputs[operand][where] = value
    have, want, in_f32 = run(inputs)[0], oracle.run(p, inputs, exact=True)[0], oracle.run(rescue(p), inputs)[0]
    if value == 0.0:
        assert torch.equal(have, in_f32)  # only the bias is left
        return
    assert torch.equal(have.isnan(), in_f32.isnan()) and torch.equal(have.isinf(), in_f32.isinf())
    assert (error(have, want) < IN_F32) == rescued


def test_what_two_tiles_hold_is_looked_at_once_and_nothing_is_missed(tmp_path):
    text = """program p(x: f32[1, 8, 5, 10, 40], w: f32[20, 8, 3, 3, 3]) -> f32[1, 20, 3, 8, 38] {
      guard f32
      y = conv3d(x, w) { compute f16  tile 32x64x224  stages 2 }
      return y }"""
    p = program(text)
    source, run = build(p, tmp_path)
    assert "if (place.d + 2 < 3 && place.row + 4 < 8 && place.column + 16 < 38)" in source.text
    inputs = inputs_of(p)
    for where in ((0, 0, 0, 0), (7, 4, 9, 39), (3, 2, 4, 17), (5, 1, 5, 16), (6, 2, 3, 15), (0, 4, 0, 39)):
        x, w = inputs[0].clone(), inputs[1]
        x[(0, *where)] = 1e6
        assert error(run([x, w])[0], oracle.run(p, (x, w), exact=True)[0]) < IN_F32, where


@settings(max_examples=6)
@given(st.integers(0, 1000), st.floats(0, 10), st.integers(-40, 20), st.integers(-40, 20))
def test_whatever_the_magnitudes_it_is_no_worse_than_tf32(pooled, seed, reach, x_power, w_power):
    p, run = pooled
    torch.manual_seed(seed)
    x, w, b = inputs_of(p, seed)
    x, w = x * 10 ** (-reach * torch.rand(x.shape)) * 2.0**x_power, w * 2.0**w_power
    b = b * 2.0 ** (x_power + w_power)
    tf32 = oracle.run(program(POOLED.replace("guard f32", "").replace("f16", "tf32")), (x, w, b))[0]
    want = oracle.run(p, (x, w, b), exact=True)[0]
    assert error(run([x, w, b])[0], want) <= 1.2 * error(tf32, want)


ROWS = """program rows(x: f32[2, 12, 13, 22], w: f32[40, 12, 3, 3], b: f32[40]) -> f32[2, 40, 11, 20] {
  guard f32
  y = conv2d(x, w) { compute f16  epilogue relu(acc + b[c]) }
  return y
}"""


@pytest.fixture
def worth(monkeypatch):
    """worth(1e9): a rescue on the tensor cores is worth it, however small a product is; worth(0): it never is."""

    def set_(value: float) -> None:
        monkeypatch.setattr(rescue_plan, "WORTH", value)
        rescue_plan.chosen.cache_clear()

    yield set_
    rescue_plan.chosen.cache_clear()


def test_on_tensor_cores_the_rescue_has_the_bits_of_the_program_in_tf32(worth, tmp_path):
    worth(1e9)
    p = program(ROWS)
    (conv,) = rescue_plan.chosen(p).stages
    assert conv.config.compute is DType.TF32
    for folder in ("guarded", "half", "wide"):
        (tmp_path / folder).mkdir()
    _, run = build(p, tmp_path / "guarded")
    _, half = build(replace(p, guard=False), tmp_path / "half")
    _, wide = build(rescue_plan.chosen(p), tmp_path / "wide")
    x, *more = inputs_of(p)
    for scale, plain in ((1.0, half), (1e6, wide), (1e-6, wide)):
        inputs = [x * scale, *more]
        assert torch.equal(run(inputs)[0], plain(inputs)[0]), scale


def test_what_is_refused_in_tf32_is_computed_again_in_f32(worth, monkeypatch):
    worth(1e9)

    def refusing(program, stage, types):
        if rescue_plan.on_tensor_cores(stage):
            raise Refusal("cpp-conv-rowmajor", "a reason that only the back end knows", None)
        return plan(program, stage, types)

    plan = guarded.plan_stage
    monkeypatch.setattr(guarded, "plan_stage", refusing)
    assert "turn += gridDim.x" in lower(program(ROWS)).text


def test_every_kernel_on_tensor_cores_asks_the_flag_first_and_keeps_its_grid(worth):
    worth(1e9)
    text = lower(program(ROWS)).text
    kernels = re.findall(r"__global__ void [^{]*?_(y\w*)\(__grid_constant__ Params const p\) \{\n(.*)\n", text)
    assert [name for name, _ in kernels] == ["y", "y", "y_f32", "y_f32"]  # weights first, then the product
    assert [first.startswith("  if (*static_cast<int const volatile*>(p.guard_flag) == 0) return;")
            for _, first in kernels] == [False, False, True, True]  # fmt: skip
    assert "turn += gridDim.x" not in text


def test_a_kernel_before_the_product_sees_every_element(tmp_path, before):
    text = """program p(x: f32[3, 8, 5, 13], w: f32[8, 8, 3, 3]) -> f32[3, 8, 3, 11] {
      guard f32
      y = conv2d(x, w) { compute f16 }
      return y }"""
    p = program(text)
    _, run = build(p, tmp_path)
    inputs = inputs_of(p)
    assert inputs[0].numel() % 512 and error(run(inputs)[0], oracle.run(p, inputs, exact=True)[0]) > ROUNDED
    for at in (0, 3, 127, 128, 511, 512, 1535, 1536, -2, -1):
        for value in (1e6, float("nan")):
            x = inputs[0].clone()
            x.view(-1)[at] = value
            changed = [x, inputs[1]]
            have, in_f32 = run(changed)[0], oracle.run(rescue(p), changed)[0]
            assert torch.equal(have.isnan(), in_f32.isnan()), at
            rest = ~in_f32.isnan()
            assert error(have[rest], oracle.run(p, changed, exact=True)[0][rest]) < IN_F32, at


def test_a_product_whose_images_are_checked_before_does_not_look_at_them_and_leaves_at_once(before):
    text = lower(program(ROWS)).text
    kernels = re.findall(
        r"__global__ void [^{]*?_(part\d|stage)_(y\w*)\(__grid_constant__ Params const p\) \{\n(.*)\n", text
    )
    assert [(entry, name) for entry, name, _ in kernels[:3]] == [("part3", "y"), ("part2", "y"), ("stage", "y")]
    assert kernels[2][2].startswith("  if (*static_cast<int const volatile*>(p.guard_flag) != 0) return;")
    assert "watch_box" not in text and "__syncthreads_or" not in text
    assert text.index("part3::launch({") < text.index("part2::launch({") < text.index("part1::launch({")
    assert text.index("cudaMemsetAsync(scratch") < text.index("stage_y::run(device")


def test_blocks_leave_before_their_next_tile_once_the_flag_is_set():
    text = lower(program(ROWS)).text
    loop = text[text.index("for (int item = 0; item < items; ++item) {") :]
    look, leave = loop.index("volatile*>(p.guard_flag) : 0;"), loop.index("__syncthreads_or(look)")
    assert look < loop.index("copy_wait<") < leave < loop.index("watch_box<")
    assert "__syncthreads();" not in loop[:leave]  # this is the barrier of a step, which all threads pass
    assert "copy_wait<0>();\n      return;" in loop[leave : leave + 200]
    plain = lower(program(ROWS.replace("guard f32", ""))).text
    assert "__syncthreads_or" not in plain


def test_rescue_kernels_have_few_blocks_that_take_the_others_turns(worth):
    worth(0)
    p = program(POOLED.replace("f32[2,", "f32[600,"))
    waiting = guarded.second(p).stages
    assert [s.name for s in waiting] == ["y_f32", "z_f32"]
    text = lower(p).text
    for s in waiting:
        kernel = text[text.index(f"namespace stage_{s.name} ") :]
        assert kernel.index("guard_flag) == 0) return;") < kernel.index("turn += gridDim.x")
        assert f"dim3({guarded.BLOCKS})" in kernel[: kernel.index("inline int facts")]


def test_names_of_the_second_pipeline_are_its_own():
    text = POOLED.replace("y = conv2d", "z_f32 = conv2d").replace("pool(y)", "pool(z_f32)")
    p = program(text)
    assert [s.name for s in guarded.second(p).stages] == ["z_f32_f32", "z_f32_"] and lower(p).text


@settings(max_examples=40)
@given(st.data())
def test_what_the_checks_pass_is_written(data):
    """Convolutions of any shape that round their operands, with an epilogue of any kind."""
    build = pipelines.Build(data.draw)
    pipelines._rowmajor(build)
    types = {s.name: s.type for s in build.stages} | {a.name: a.type for s in build.stages for a in s.also}
    results = tuple(types[r] for r in build.results)
    p = Program("p", tuple(build.params), tuple(build.stages), tuple(build.results), results, guard=True)
    checked = check(re.sub(r"compute (tf32|bf16)", "compute f16", to_text(p)))
    assert not checked.ok or list(compile(checked.program).sources) == ["cpp"]


def test_without_a_guard_nothing_watches():
    text = lower(program(POOLED.replace("guard f32", ""))).text
    assert "guard" not in text and "watch" not in text


def test_the_guard_s_line_leads_to_its_flag_and_its_second_pipeline():
    source = lower(program(POOLED))
    lines = source.text.split("\n")
    parts = [lines[a - 1 : b] for number, a, b in source.line_map if number == 3]
    assert "cudaMemsetAsync" in parts[0][0] and "stage_y_f32::run" in parts[-1][0]


@pytest.mark.toolchain
@pytest.mark.parametrize(("value", "kernels"), [(0.0, 5), (1e9, 6)], ids=["on CUDA cores", "on tensor cores"])
def test_nvcc_builds_it(value, kernels, tmp_path, worth):
    """Kernels alone, for sm_90a: two seconds."""
    worth(value)
    tools = find_toolchain()
    if tools is None:
        pytest.skip("needs nvcc")
    unit = tmp_path / "guarded.cu"
    unit.write_text(lower(program(POOLED)).text)
    flags = ["-std=c++17", "-O3", "--expt-relaxed-constexpr", "-DUCUTLASS_DEVICE_ONLY", "-cubin", "-Xptxas", "-v"]
    arch = "-gencode=arch=compute_90a,code=sm_90a"
    ran = subprocess.run(
        [str(tools.nvcc), *flags, arch, str(unit), "-o", str(tmp_path / "guarded.cubin")],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stderr.count("Compiling entry function") == kernels and ", 0 bytes spill stores" in ran.stderr
    assert all(" 0 bytes spill stores" in line for line in ran.stderr.split("\n") if "spill stores" in line)
