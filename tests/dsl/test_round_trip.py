"""Printing and reading are inverse: check(to_text(p)).program == p for every program that passes."""

import pytest
from hypothesis import HealthCheck, given, settings

from dsl import ir
from dsl.check.program import check
from dsl.printer import digest, expression, to_text
from dsl.resolve import resolve

from .pipelines import pipelines
from .programs import programs

EXAMPLE = "program p(x: f16[64, 64]) -> f16[64, 64] {{ y = gemm(x, x.T) {{ epilogue {} }} return y }}"


def epilogue(text: str) -> ir.Expr:
    checked = check(EXAMPLE.format(text))
    assert checked.ok, checked.diagnostics
    return checked.program.stages[0].epilogue


@settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_a_printed_program_reads_back_equal(program):
    text = to_text(program)
    again = check(text)
    assert again.ok, [d.render(text) for d in again.diagnostics]
    assert again.program == program
    assert to_text(again.program) == text


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines())
def test_every_kind_of_stage_reads_back_equal_with_the_types_that_pytorch_would_give(program):
    text = to_text(program)
    again = check(text)
    assert again.ok, text + "\n".join(d.render(text) for d in again.diagnostics)
    assert again.program == program
    assert to_text(again.program) == text


def test_a_part_of_a_tensor_keeps_the_element_at_which_it_begins():
    text = """program p(x: f16[64, 32]) -> f16[64, 16] {
  y = map(x) {
    crop 64x16
    from 0x16
    epilogue silu(x[m, n + 0]) * acc + x[m, n + 3]
  }
  return y
}
"""
    program = check(text).program
    assert to_text(program) == text and program.stages[0].start == (0, 16)
    first, second = ir.loads(program.stages[0].epilogue)
    assert (first.starts, second.starts) == ((None, 0), (None, 3)) and first != second
    assert to_text(check(text.replace("from 0x16", "from 0x0")).program) == text.replace("    from 0x16\n", "")


@settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(pipelines())
def test_every_kind_of_stage_resolves_to_itself(program):
    resolved = resolve(program)
    text = to_text(resolved)
    again = check(text)
    assert again.ok, text + "\n".join(d.render(text) for d in again.diagnostics)
    assert again.program == resolved == resolve(resolved)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_a_resolved_program_passes_its_own_check_and_resolves_to_itself(program):
    resolved = resolve(program)
    text = to_text(resolved)
    again = check(text)
    assert again.ok, [d.render(text) for d in again.diagnostics]
    assert again.program == resolved == resolve(resolved)
    assert digest(again.program) == digest(resolved)


@pytest.mark.parametrize(
    "text",
    [
        "acc - (acc - acc)", "acc - acc - acc", "acc / (acc * acc)", "acc * (acc + 1.0)", "-acc * acc", "-(acc * acc)",
        "-(-acc)", "acc - -1.0", "-(1.0) + acc", "-1.0 + acc", "acc * -(2.0)", "acc + -0.0",
        "(acc + 1.0) / (acc - 1.0)",
        "max(acc, -acc)", "leaky_relu(acc, -0.25)", "clamp(acc, -1.0, 1e+30)",
    ],
)  # fmt: skip
def test_brackets_and_signs_survive(text):
    e = epilogue(text)
    assert epilogue(expression(e)) == e


def test_a_minus_that_touches_a_number_is_part_of_it():
    assert epilogue("acc + -1.0").args[1] == ir.Number(-1.0)
    assert epilogue("acc + -(1.0)").args[1] == ir.Call("neg", (ir.Number(1.0),))
    assert epilogue("acc + - 1.0").args[1] == ir.Call("neg", (ir.Number(1.0),))


def test_canonical_text_is_the_same_whatever_the_layout():
    a = check("program p(x:f16[64,64])->f16[64,64]{y=gemm(x,x.T){stages auto epilogue acc*2}return y}").program
    b = check(
        "# note\nprogram p(\n x: f16[64, 64],\n) -> f16[64, 64] {\n"
        " y = gemm(x, x.T) { epilogue (acc * 2.0) }\n return y }"
    )
    assert to_text(a) == to_text(b.program)
    assert digest(a) == digest(b.program) and len(digest(a)) == 12
