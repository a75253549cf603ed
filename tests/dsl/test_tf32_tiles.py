"""tf32 tiles that CUTLASS's own assertions refuse are rejected before any compiler sees them."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.resolve import resolve

PROGRAM = """program p(x: {t}[1024, 1024], w: {t}[1024, 1024]) -> f32[1024, 1024] {{
  y = gemm(x, w.T) {{ tile 128x{n}x{k}  schedule cooperative  backend cpp  store f32 }}
  return y
}}"""


@pytest.mark.parametrize("backend", ["cpp", "cute"])
@pytest.mark.parametrize("n", [48, 80, 208])
def test_n_in_steps_of_sixteen_is_for_half_precision(n, backend):
    (diagnostic,) = check(PROGRAM.format(t="f32", n=n, k=32).replace("cpp", backend)).diagnostics
    assert diagnostic.code == "E203" and f"N is {n}" in diagnostic.message and "steps of 32" in diagnostic.message
    assert diagnostic.help
    assert check(PROGRAM.format(t="f16", n=n, k=64)).ok


@pytest.mark.parametrize("n", [16, 32, 96, 160, 256])
def test_the_others_pass(n):
    assert check(PROGRAM.format(t="f32", n=n, k=32)).ok


@pytest.mark.parametrize(
    ("operands", "ok"), [("x, w.T", True), ("x, w", False), ("x.T, w.T", False), ("x.T, w", False)]
)
def test_a_short_k_is_for_operands_that_lie_along_it(operands, ok):
    text = PROGRAM.format(t="f32", n=128, k=16).replace("x, w.T", operands)
    checked = check(text)
    assert checked.ok is ok
    if not ok:
        (diagnostic,) = checked.diagnostics
        assert diagnostic.code == "E203" and "K is 16" in diagnostic.message
        assert check(text.replace("128x128x16", "128x128x32")).ok


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_half_a_swizzle_pattern_a_stage_needs_an_even_number_of_stages(stages):
    text = PROGRAM.format(t="f32", n=16, k=32).replace("schedule", f"stages {stages}  schedule")
    checked = check(text)
    assert checked.ok is (stages % 2 == 0)
    if not checked.ok:
        (diagnostic,) = checked.diagnostics
        assert diagnostic.code == "E210" and "even number of stages" in diagnostic.message and diagnostic.help


def test_auto_takes_an_even_number_of_them():
    config = resolve(check(PROGRAM.format(t="f32", n=16, k=32)).program).stages[0].config
    assert config.stages >= 4 and config.stages % 2 == 0


@pytest.mark.parametrize(("filters", "n"), [(48, 64), (32, 32), (64, 64), (16, 32)])
def test_a_transposed_convolution_has_a_tile_of_its_channels_out(filters, n):
    """Each phase is a launch with channels out as N, so 48 of them are one tile of 64 and not three of 16."""
    text = f"""program p(x: f32[8, 48, 32, 32, 32], w: f32[48, {filters}, 3, 3, 3]) -> f32[8, {filters}, 34, 34, 34] {{
      xt = transform(x) {{ layout nhwc }}
      wt = transform(w) {{ layout nhwc }}
      y = conv_transpose3d(xt, wt) {{ compute tf32  store f32 nchw }}
      return y
    }}"""
    config = resolve(check(text).program).stages[-1].config
    assert config.tile[1:] == (n, 32) and config.stages >= 3


@pytest.mark.parametrize("k", [8, 16, 24, 32, 64])
@pytest.mark.parametrize("n", [16, 32, 96, 160, 224])
def test_cute_takes_the_same_tiles_with_any_k_and_as_many_stages_as_fill_a_block(n, k):
    text = PROGRAM.format(t="f32", n=n, k=k).replace("cpp", "cute")
    assert check(text).ok and list(generate(check(text).program).sources) == ["cute"]
