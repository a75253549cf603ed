"""Every program of the suite passes `check` and computes what its module computes: meanings on the CPU, small sizes."""

import functools

import pytest

torch = pytest.importorskip("torch")

from engine.suite.cases import cases, module_ids, precision  # noqa: E402
from tests.engine.suite.small import small  # noqa: E402

CASES = cases()
IDS = module_ids()
LEAKY = next(c for c in CASES if c.name == "linear_scale_leaky")


@functools.lru_cache(maxsize=2)
def problem(path):
    return small(path)


def test_every_problem_has_a_program_of_its_own_precision():
    whole = {c.module for c in CASES if c.name == c.module}
    assert whole == set(IDS) and len(set(IDS.values())) == 59


def test_many_have_a_second_one_on_the_f16_tensor_cores():
    narrow = [c.module for c in CASES if c.name.endswith("_f16")]
    assert len(narrow) >= 20
    assert sum("conv" in n for n in narrow) >= 8 and sum("conv" not in n for n in narrow) >= 8


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_program(case):
    program = case.program()
    assert program.name == case.name
    assert problem(case.module_path).wrong(case.text, precision(program)) is None


def test_a_wrong_program_is_told():
    wrong = LEAKY.text.replace("* 2.0", "* 2.02")
    assert wrong != LEAKY.text and "relative error" in problem(LEAKY.module_path).wrong(wrong, "tf32")


def guarded(name):
    case = next(c for c in CASES if c.name == name)
    return case, case.text.replace("  arch sm_90a\n", "  arch sm_90a\n  guard f32\n")


@pytest.mark.parametrize("name", ["linear_scale_leaky_f16", "conv2d_relu_bias_f16"])
def test_under_a_guard_it_stands_in_tf32_also_where_f16_has_no_range(name):
    from dataclasses import replace

    from dsl.check.program import check

    case, text = guarded(name)
    assert precision(check(text).program) == "tf32"
    one = problem(case.module_path)
    assert one.wrong(text, "tf32") is None
    first = one.inputs[0].clone()
    first[-1:] *= 1e6
    values = {n: first if x is one.inputs[0] else x for n, x in one.values.items()}
    with torch.no_grad():
        right = one.model.double()(*[x.double() for x in (first, *one.inputs[1:])])
        one.model.float()
    far = replace(one, inputs=[first, *one.inputs[1:]], values=values, right=right)
    assert far.wrong(text, "tf32") is None
    assert "NaN or Inf" in far.wrong(case.text, "tf32")  # the same products without the guard
