"""tf32 tiles that CUTLASS's own assertions refuse are rejected before any compiler sees them."""

import pytest

from dsl.check import check

PROGRAM = """program p(x: {t}[1024, 1024], w: {t}[1024, 1024]) -> f32[1024, 1024] {{
  y = gemm(x, w.T) {{ tile 128x{n}x{k}  schedule cooperative  store f32 }}
  return y
}}"""


@pytest.mark.parametrize("n", [48, 80, 208])
def test_n_in_steps_of_sixteen_is_for_half_precision(n):
    (found,) = check(PROGRAM.format(t="f32", n=n, k=32)).diagnostics
    assert found.code == "E203" and f"N is {n}" in found.message and "steps of 32" in found.message
    assert found.help
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
        (found,) = checked.diagnostics
        assert found.code == "E203" and "K is 16" in found.message
        assert check(text.replace("128x128x16", "128x128x32")).ok
